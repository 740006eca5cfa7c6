"""Stories of one transactional id: commits, crashes, zombies, timeouts, exhaustion, expiry."""

from dataclasses import replace

import pytest

from coordinator.transactions.states import TransactionState, key_bytes, read_value, value_bytes
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import ID, OFFSETS, T0, T1, TOPIC_ID, Rig, error, identity, in_state

S = TransactionState
MAPPING, STATE, BUSY, FENCED = 49, 48, 51, 90


def states_in_the_log(rig: Rig) -> list[str]:
    from coordinator.machine import ReplayedRecord
    from coordinator.runtime import entries_of

    found = []
    for _, batch in rig.log.batches:
        for entry, _ in entries_of(batch):
            if isinstance(entry, ReplayedRecord):
                value = None if entry.value is None else read_value(entry.value)
                found.append("tombstone" if value is None else value.state.name)
    return found


def test_a_commit_from_end_to_end() -> None:
    """2.9 and 2.11: data under epoch 0, markers and the next transaction under epoch 1."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0, OFFSETS)
    assert identity(rig.end(mine, commit=True)) == (1000, 1)
    assert [(topic, partition) for topic, partition, _ in rig.leaders.written] == [("__consumer_offsets", 12), ("t", 0)]
    marker = rig.leaders.written[0][2]
    assert (marker.producer_id, marker.producer_epoch, marker.commit) == (1000, 1, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
    assert states_in_the_log(rig) == ["EMPTY", "ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT"]
    assert rig.completed == [ID]
    assert rig.state().partitions == ()


def test_markers_of_the_classic_protocol_carry_the_epoch_of_the_data() -> None:
    rig = Rig(version=0)
    mine = identity(rig.init())
    rig.add(mine, version=0)
    assert error(rig.end(mine, commit=False, version=0)) == ErrorCode.NONE
    marker = rig.leaders.written[0][2]
    assert (marker.producer_epoch, marker.commit, marker.transaction_version) == (0, False, 0)
    assert rig.state().state is S.COMPLETE_ABORT
    assert rig.state().producer_epoch == 0


def test_no_marker_before_prepare_is_durable_and_no_answer_before_the_markers_were_sent() -> None:
    """I04: one sync makes PREPARE durable; then markers go out, then the client hears of it."""
    rig = Rig(durable=False)
    mine_ticket = rig.init()
    rig.log.sync()
    mine = identity(mine_ticket)
    rig.add(mine, T0, T1)
    rig.log.sync()
    rig.leaders.held = True
    ending = rig.end(mine, commit=True)
    assert rig.leaders.pending == []
    assert ending.waiting
    rig.log.sync()
    assert len(rig.leaders.pending) == 2
    assert identity(ending) == (1000, 1)
    assert rig.state().state is S.PREPARE_COMMIT
    rig.leaders.let_go()
    assert rig.state().state is S.COMPLETE_COMMIT


def test_while_markers_are_out_everything_is_told_to_come_back() -> None:
    """2.15: 51 to all who ask, and the description shows what still lacks its marker."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0, T1)
    rig.leaders.answers["t", 0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    after = identity(rig.end(mine, commit=True))
    assert error(rig.add(after)) == BUSY
    assert error(rig.init()) == BUSY
    assert error(rig.end(after, commit=True)) == BUSY
    described = rig.submit(lambda machine, ticket, now: machine.describe(ticket, now, transactional_id=ID)).answer
    assert described.partitions == (T0,)  # type: ignore[attr-defined]
    rig.time.advance(100)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert error(rig.add(after)) == ErrorCode.NONE


@pytest.mark.parametrize("retriable", [3, 6, 19, 20, 7, 56, 14, 15, 16], ids=lambda code: ErrorCode(code).name)
def test_a_marker_is_tried_until_it_is_written(retriable: int) -> None:
    """I05, KAFKA-9749, 5610: what time cures is tried again, whatever it is."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.answers["t", 0] = [ErrorCode(retriable)] * 5
    rig.end(mine, commit=True)
    assert rig.state().state is S.PREPARE_COMMIT
    rig.time.advance(10_000)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert len(rig.leaders.written) == 1


@pytest.mark.parametrize("gone", [100, 43, 35, 47], ids=lambda code: ErrorCode(code).name)
def test_a_partition_nobody_can_be_told_of_is_passed_over(gone: int) -> None:
    """I17: a deleted topic, and a leader that knows a later epoch already (KAFKA-19999)."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0, T1)
    rig.leaders.answers["t", 0] = [ErrorCode(gone)]
    rig.end(mine, commit=True)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert [partition for _, partition, _ in rig.leaders.written] == [1]


def test_leaders_are_told_which_topic_is_meant() -> None:
    """I17: the marker goes to a topic id, and that is what the log remembers, across a restart too."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.held = True
    rig.end(mine, commit=True)
    rig.restart()
    assert [pending[2] for pending in rig.leaders.pending] == [TOPIC_ID, TOPIC_ID]


def test_complete_is_written_once_however_often_markers_are_acknowledged() -> None:
    """I16, I15: late and double acknowledgements, also for a coordinator that was loaded again meanwhile."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0, T1)
    rig.leaders.held = True
    rig.end(mine, commit=True)
    first = list(rig.leaders.pending)
    rig.shard.reload()
    while not rig.shard.load_slice(1):
        pass
    for *_, done in first:
        done(ErrorCode.NONE)
    assert rig.state().state is S.PREPARE_COMMIT, "acknowledgements of the machine before do not count"
    again = rig.leaders.pending[2:]
    assert len(again) == 2
    for *_, done in (*again, *again, *first):
        done(ErrorCode.NONE)
    assert states_in_the_log(rig).count("COMPLETE_COMMIT") == 1
    assert rig.completed == [ID]


def test_a_coordinator_that_was_closed_writes_no_more_markers() -> None:
    """I15: its timers may still ring."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.answers["t", 0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    rig.end(mine, commit=True)
    rig.shard.close()
    rig.time.advance(10_000)
    assert rig.leaders.written == []


def test_a_complete_that_the_log_refuses_stays_due() -> None:
    """I03: the retried COMPLETE (KAFKA-5351); until then the id stays busy."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.held = True
    after = identity(rig.end(mine, commit=True))
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, times=3)
    rig.leaders.let_go()
    assert error(rig.add(after)) == BUSY
    rig.time.advance(1_000)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.completed == [ID]


def test_a_crash_after_prepare_finishes_without_the_client() -> None:
    """I14, 2.13: markers are written again by whoever loads the log."""
    rig = Rig(driven=False)
    mine = identity(rig.init())
    rig.add(mine)
    rig.end(mine, commit=True)
    assert rig.state().state is S.PREPARE_COMMIT
    rig.restart(driven=True)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert len(rig.leaders.written) == 1


def test_an_empty_abort_is_over_at_once() -> None:
    """2.8: the client aborts what it never began. Both records, one batch, no marker."""
    rig = Rig()
    mine = identity(rig.init())
    batches = len(rig.log.batches)
    assert identity(rig.end(mine, commit=False)) == (1000, 1)
    assert len(rig.log.batches) == batches + 1
    assert states_in_the_log(rig) == ["EMPTY", "PREPARE_ABORT", "COMPLETE_ABORT"]
    assert rig.leaders.written == []
    assert identity(rig.end(mine, commit=False)) == (1000, 1), "the retry gets the same"


def test_a_new_instance_aborts_what_the_old_one_left_open() -> None:
    """I11, KAFKA-19367: 51 first; then one more bump than the abort's own, which was the fence."""
    rig = Rig()
    old = identity(rig.init())
    rig.add(old)
    assert error(rig.init()) == BUSY
    assert rig.leaders.written[0][2].commit is False
    assert rig.leaders.written[0][2].producer_epoch == 1
    new = identity(rig.init())
    assert new == (1000, 2)
    assert error(rig.add(old)) == FENCED
    assert error(rig.end(old, commit=True)) == FENCED
    assert error(rig.init(expected=old)) == FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_a_fence_that_the_log_refuses_costs_no_epoch(version: int) -> None:
    """I10, KAFKA-9666."""
    rig = Rig(version=version)
    mine = identity(rig.init())
    rig.add(mine, version=version)
    before = rig.state()
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, times=50)
    for _ in range(50):
        assert error(rig.init()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.state() == before
    assert error(rig.init()) == BUSY
    assert identity(rig.init()) == (1000, 2)


def test_any_refused_append_leaves_the_id_usable() -> None:
    """I03: for every operation that writes."""
    rig = Rig()
    refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    rig.log.refuse(refusal)
    assert error(rig.init()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    mine = identity(rig.init())
    rig.log.refuse(refusal)
    assert error(rig.add(mine)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error(rig.add(mine)) == ErrorCode.NONE
    rig.log.refuse(refusal)
    assert error(rig.end(mine, commit=True)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert identity(rig.end(mine, commit=True)) == (mine[0], 1)
    assert mine[0] == 1001, "an id that was taken for nothing is a gap, never used again"


# -- timeouts ----------------------------------------------------------------------------------------------------


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


def test_who_timed_out_learns_it_gracefully_where_epochs_are_per_transaction() -> None:
    """I12 for TV2: a late abort gets the new identity, a late commit does not pass, InitProducerId repeats it."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.time.advance(60_001)
    assert error(rig.add(mine)) == FENCED
    assert error(rig.end(mine, commit=True)) == STATE
    assert identity(rig.end(mine, commit=False)) == (1000, 1)
    assert identity(rig.init(expected=mine)) == (1000, 1)


def test_who_timed_out_is_fenced_by_the_classic_protocol() -> None:
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
    assert all(value[:2] == b"\x00\x00" for value in values_in(rig))


def values_in(rig: Rig) -> list[bytes]:
    from coordinator.machine import ReplayedRecord
    from coordinator.runtime import entries_of

    entries = [entry for _, batch in rig.log.batches for entry, _ in entries_of(batch)]
    return [entry.value for entry in entries if isinstance(entry, ReplayedRecord) and entry.value is not None]


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
    """KIP-915: a key type or a value layout from the future is not ours to judge."""
    from coordinator.machine import Outcome, Record

    rig = Rig()
    rig.seed(in_state(S.EMPTY))
    before = dict(rig.machine.transactions)
    future = [Record(b"\x00\x07whatever", b"\x00\x00"), Record(key_bytes(ID), b"\x00\x09whatever")]
    rig.shard.submit(lambda machine, now_ms: Outcome(future))
    assert rig.machine.transactions == before
