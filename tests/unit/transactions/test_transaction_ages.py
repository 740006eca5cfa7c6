"""How transactional ids age: timeouts, the last epoch, changes of version, expiry, and what is written of them."""

from dataclasses import replace

import pytest

from coordinator.transactions import expiry
from coordinator.transactions.fencing import EXHAUSTED_EPOCH
from coordinator.transactions.states import TransactionState, key_bytes, read_value, value_bytes
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import VirtualTime
from tests.unit.transactions.rig import (
    ID,
    T0,
    T1,
    Rig,
    error,
    identity,
    in_state,
    records_in,
    states_in_the_log,
)

S = TransactionState
MAPPING, STATE, BUSY, FENCED = 49, 48, 51, 90


# -- timeouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_began_in_the_future_times_out_as_if_it_had_begun_with_this_coordinator(goes_on: bool) -> None:
    """I12. The clock was set right meanwhile, or it was that of another node."""
    rig = Rig()
    rig.time.advance(3_600_000)
    mine = identity(rig.init(timeout_ms=60_000))
    rig.add(mine, T0)
    rig.time = VirtualTime()
    rig.restart()
    if goes_on:
        rig.time.advance(30_000)
        rig.add(mine, T1)
        assert rig.state().start_ms == rig.time.now_ms()
    rig.time.advance(60_000)
    assert rig.state().state is S.ONGOING
    rig.time.advance(1)
    assert rig.state().state is S.COMPLETE_ABORT


def test_a_transaction_times_out_counted_from_its_first_partition() -> None:
    """I12, KAFKA-6119: aborted just after the deadline, which activity does not move."""
    rig = Rig()
    mine = identity(rig.init(timeout_ms=60_000))
    rig.add(mine, T0)
    rig.time.advance(50_000)
    rig.add(mine, T1)
    rig.time.advance(10_000)
    assert rig.state().state is S.ONGOING
    rig.time.advance(1)
    assert rig.state().state is S.COMPLETE_ABORT
    assert {marker.producer_epoch for *_, marker in rig.leaders.written} == {1}


def test_a_timed_out_producer_of_the_new_protocol_can_recover() -> None:
    """I12 for TV2: a late abort gets the new identity, a late commit does not pass, InitProducerId repeats it."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.time.advance(60_001)
    assert error(rig.add(mine)) == FENCED
    assert error(rig.end(mine, commit=True)) == STATE
    assert identity(rig.end(mine, commit=False)) == (1000, 1)
    assert identity(rig.init(expected=mine)) == (1000, 1)


def test_a_timed_out_classic_producer_is_fenced() -> None:
    """I12 for TV0: only a new instance gets on."""
    rig = Rig(version=0)
    mine = identity(rig.init())
    rig.add(mine, version=0)
    rig.time.advance(60_001)
    assert error(rig.end(mine, commit=False, version=0)) == FENCED
    assert error(rig.init(expected=mine)) == FENCED
    assert identity(rig.init()) == (1000, 2)


def test_a_participant_in_two_phase_commit_never_times_out() -> None:
    """I12, KIP-939."""
    rig = Rig()
    mine = identity(rig.init(timeout_ms=(1 << 31) - 1))
    rig.add(mine)
    rig.time.advance(30 * 86_400_000)
    assert rig.state().state is S.ONGOING


def test_a_timeout_that_the_log_refuses_is_tried_again() -> None:
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    rig.time.advance(60_001)
    assert rig.state().state is S.ONGOING
    rig.time.advance(10_000)
    assert rig.state().state is S.COMPLETE_ABORT


def test_a_timeout_survives_a_restart() -> None:
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.restart()
    rig.time.advance(60_001)
    assert rig.state().state is S.COMPLETE_ABORT


# -- exhaustion --------------------------------------------------------------------------------------------------


def test_the_walk_to_the_last_epoch_and_over_it() -> None:
    """I09: from 32764 by commits. Markers reach 32767, no client ever does; exactly one rotation."""
    rig = Rig()
    rig.seed(in_state(S.COMPLETE_COMMIT, producer_epoch=32764))
    mine = (7, 32764)
    seen = []
    for commit in (True, False, True, True):
        rig.add(mine)
        before, mine = mine, identity(rig.end(mine, commit=commit))
        seen.append(mine)
        assert identity(rig.end(before, commit=commit)) == mine, "the retry gets the same identity"
        assert error(rig.end(before, commit=not commit)) == STATE
    assert seen == [(7, 32765), (7, 32766), (1000, 0), (1000, 1)]
    assert [marker.producer_epoch for *_, marker in rig.leaders.written] == [32765, 32766, 32767, 1]
    assert rig.leaders.written[2][2].producer_id == 7


@pytest.mark.parametrize("how", ["timeout", "new instance"])
def test_a_fence_at_the_last_epoch_rotates(how: str) -> None:
    """I09, I12, KAFKA-20090: markers at 32767, then (new, 0); the old client finds its way across the rotation."""
    rig = Rig()
    rig.seed(in_state(S.ONGOING, producer_epoch=32766, start_ms=rig.time.now_ms()))
    if how == "timeout":
        rig.time.advance(60_001)
        assert identity(rig.end((7, 32766), commit=False)) == (1000, 0)
        assert error(rig.end((7, 32766), commit=True)) == STATE
        assert identity(rig.init(expected=(7, 32766))) == (1000, 0)
    else:
        assert error(rig.init()) == BUSY
        assert identity(rig.init()) == (1000, 1)
    assert rig.leaders.written[0][2].producer_epoch == 32767


def test_a_crash_in_the_middle_of_a_rotation() -> None:
    """KAFKA-20310: what was promised in the answer is still true after a restart."""
    rig = Rig(driven=False)
    rig.seed(in_state(S.ONGOING, producer_epoch=32766))
    promised = identity(rig.end((7, 32766), commit=True))
    rig.restart(driven=True)
    assert identity(rig.end((7, 32766), commit=True)) == promised == (1000, 0)
    assert error(rig.add(promised)) == ErrorCode.NONE


def test_the_residue_at_32767_recovers() -> None:
    """KAFKA-20090: an abort passes without a bump, and rotates."""
    rig = Rig()
    rig.seed(in_state(S.ONGOING, producer_epoch=32767))
    assert error(rig.init()) == BUSY
    assert rig.leaders.written[0][2].producer_epoch == 32767
    assert identity(rig.init()) == (1000, 1)


def test_no_id_to_rotate_to_changes_nothing() -> None:
    """2.8: the new id is taken first; 14, and the client comes back."""
    rig = Rig()
    rig.seed(in_state(S.ONGOING, producer_epoch=32766, start_ms=rig.time.now_ms()))
    before = rig.state()
    rig.ids.dry = True
    assert error(rig.end((7, 32766), commit=True)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert error(rig.init()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rig.time.advance(60_001)
    assert rig.state() == before
    rig.ids.dry = False
    rig.time.advance(100)
    assert rig.state().state is S.COMPLETE_ABORT


# -- changing versions -------------------------------------------------------------------------------------------


def test_old_and_new_clients_take_turns_on_one_id() -> None:
    """I19: neither loses its fencing to the other, and the cluster's level may change in between."""
    rig = Rig(version=2)
    classic = identity(rig.init())
    rig.add(classic, version=0)
    assert error(rig.end(classic, commit=True, version=0)) == ErrorCode.NONE
    modern = identity(rig.init())
    assert error(rig.add(classic, version=0)) == FENCED
    rig.settings.cluster_version = 0
    rig.add(modern, version=2)
    after = identity(rig.end(modern, commit=True, version=2))
    assert after == (1000, 2)
    assert error(rig.end(classic, commit=True, version=0)) == FENCED
    again = identity(rig.init())
    assert error(rig.add(modern)) == FENCED
    rig.settings.cluster_version = 2
    rig.add(again, version=0)
    rig.time.advance(60_001)
    assert identity(rig.end(again, commit=False)) == (1000, 4)


def test_under_the_old_level_records_have_the_old_layout() -> None:
    """5.3: layout 0 under transaction.version 0; what it has no room for lives until the restart, as in Kafka."""
    rig = Rig(version=0)
    mine = identity(rig.init())
    again = identity(rig.init(expected=mine))
    assert identity(rig.init(expected=mine)) == again, "the retry is known in memory"
    rig.restart()
    assert error(rig.init(expected=mine)) == FENCED
    values = [record.value for record in records_in(rig)]
    assert all(value[:2] == b"\x00\x00" for value in values if value is not None)


def test_a_retry_of_init_survives_a_restart() -> None:
    """§8.4: Kafka forgets the last epoch and fences the client; we write it down."""
    rig = Rig()
    mine = identity(rig.init())
    again = identity(rig.init(expected=mine))
    rig.restart()
    assert identity(rig.init(expected=mine)) == again


# -- expiry ------------------------------------------------------------------------------------------------------

WEEK_MS = 604_800_000


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("epoch", [3, -1])
def test_unused_ids_are_forgotten(state: S, epoch: int) -> None:
    """I18, KAFKA-14880; afterwards 49, and a new producer id."""
    rig = Rig()
    rig.seed(in_state(state, producer_epoch=epoch))
    rig.time.advance(WEEK_MS - 1)
    assert ID in rig.machine.transactions
    rig.time.advance(3_600_001)
    assert ID not in rig.machine.transactions
    assert states_in_the_log(rig)[-1] == "tombstone"
    assert error(rig.add((7, 3))) == MAPPING
    assert identity(rig.init(expected=(7, 3))) == (1000, 0)


def test_what_is_open_or_decided_is_never_forgotten() -> None:
    """I18."""
    rig = Rig(driven=False)
    for name, state in (("open", S.ONGOING), ("committing", S.PREPARE_COMMIT), ("aborting", S.PREPARE_ABORT)):
        rig.seed(in_state(state, timeout_ms=(1 << 31) - 1), name)
    rig.time.advance(10 * WEEK_MS)
    assert sorted(rig.machine.transactions) == ["aborting", "committing", "open"]


def test_a_tombstone_that_the_log_refuses_leaves_the_id_usable() -> None:
    """I18, KAFKA-7519."""
    rig = Rig()
    rig.seed(in_state(S.COMPLETE_COMMIT))
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
    rig.time.advance(WEEK_MS + 1_800_000)
    assert error(rig.add((7, 3))) == ErrorCode.NONE


def test_many_expired_ids_go_in_bounded_batches() -> None:
    """KAFKA-13099."""
    rig = Rig()
    for number in range(1_000):
        rig.seed(in_state(S.EMPTY), f"id-{number:04}")
    rig.time.advance(WEEK_MS + 3_600_000)
    assert rig.machine.transactions == {}
    assert max(len(batch) for _, batch in rig.log.batches) < 20_000


# -- records -----------------------------------------------------------------------------------------------------


def test_the_golden_record() -> None:
    """I47: the vector of 5.3, byte for byte, where our own tags have their defaults."""
    bare = tuple(replace(partitions, topic_id=bytes(16), partitions=(0, 2)) for partitions in (T0,))
    transaction = in_state(S.ONGOING, last_update_ms=1_700_000_000_000, start_ms=1_699_999_999_000, partitions=bare)
    assert value_bytes(transaction, 1).hex() == (
        "0001000000000000000700030000ea6001020274030000000000000002000000018bcfe568000000018bcfe56418020008"
        "000000000000000702020002"
    )
    assert key_bytes("tx1").hex() == "00000003747831"


@pytest.mark.parametrize("state", list(S))
def test_every_field_comes_back(state: S) -> None:
    """I14, KAFKA-20310."""
    transaction = in_state(state, previous_producer_id=5, next_producer_id=9, last_producer_epoch=2)
    assert read_value(value_bytes(transaction, 1)) == transaction


def test_unknown_records_are_skipped() -> None:
    """KIP-915: a key type from the future is not ours to judge."""
    from coordinator.machine import Outcome, Record

    rig = Rig()
    rig.seed(in_state(S.EMPTY))
    before = dict(rig.machine.transactions)
    future = [Record(b"\x00\x07whatever", b"\x00\x00")]
    rig.shard.submit(lambda machine, now_ms: Outcome(future))
    assert rig.machine.transactions == before


def test_no_retry_is_answered_with_the_epoch_of_a_fence() -> None:
    """A classic fence belongs to nobody: two instances would have one identity."""
    rig = Rig(version=0)
    old = identity(rig.init())
    mine = identity(rig.init(expected=old))
    rig.add(mine, version=0)
    rig.init()
    assert rig.state().producer_epoch == mine[1] + 1
    assert error(rig.init(expected=old)) == FENCED
    assert error(rig.init(expected=old)) == FENCED


def test_the_first_epoch_of_a_used_up_id_is_fenced() -> None:
    rig = Rig()
    old, _ = identity(rig.init())
    rig.seed(replace(rig.state(), producer_epoch=EXHAUSTED_EPOCH))
    new, epoch = identity(rig.init())
    assert new != old
    assert epoch == 0
    assert error(rig.init(expected=(old, 0))) == FENCED
    assert identity(rig.init(expected=(new, 0))) == (new, 1)


def test_a_rotation_outlives_a_downgrade_and_a_restart() -> None:
    """A client of the new protocol commits just after the level was lowered, and retries after a restart."""
    rig = Rig()
    old, _ = identity(rig.init())
    rig.seed(replace(rig.state(), producer_epoch=EXHAUSTED_EPOCH))
    rig.add((old, EXHAUSTED_EPOCH))
    rig.settings.cluster_version = 0
    rotated = identity(rig.end((old, EXHAUSTED_EPOCH), commit=True))
    rig.restart()
    assert identity(rig.end((old, EXHAUSTED_EPOCH), commit=True)) == rotated


def test_a_scan_for_old_ids_looks_at_some_of_them_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "IDS_PER_STEP", 4)
    rig, scan = Rig(), expiry.ExpiryScan()
    for number in range(10):
        rig.init(f"tx{number}")
    due = []
    for _ in range(3):
        scan.step(rig.shard.machine.ledger, 7, expiration_ms=1_000, interval_ms=60_000, max_batch_bytes=1 << 20)
        due.append(scan.next_ms)
    assert due == [7, 7, 60_007]
