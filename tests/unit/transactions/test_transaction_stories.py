"""Stories of one transactional id: commits, crashes, zombies, new instances."""

import pytest

from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import ID, OFFSETS, T0, T1, TOPIC_ID, Rig, error, identity, states_in_the_log

S = TransactionState
MAPPING, STATE, BUSY, FENCED = 49, 48, 51, 90


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


def test_classic_markers_carry_the_epoch_of_the_data() -> None:
    rig = Rig(version=0)
    mine = identity(rig.init())
    rig.add(mine, version=0)
    assert error(rig.end(mine, commit=False, version=0)) == ErrorCode.NONE
    marker = rig.leaders.written[0][2]
    assert (marker.producer_epoch, marker.commit, marker.transaction_version) == (0, False, 0)
    assert rig.state().state is S.COMPLETE_ABORT
    assert rig.state().producer_epoch == 0


def test_markers_follow_a_durable_prepare_and_precede_the_response() -> None:
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


def test_a_sync_that_began_before_the_decision_sends_no_markers() -> None:
    """I04: what became durable is the partition, not yet the decision that was appended behind it."""
    rig = Rig(durable=False)
    rig.leaders.held = True
    mine_ticket = rig.init()
    rig.log.sync()
    mine = identity(mine_ticket)
    rig.add(mine, T0, T1)
    added = rig.log.end_offset
    rig.end(mine, commit=True)
    rig.log.sync(added)
    assert rig.leaders.pending == []
    rig.log.sync()
    assert len(rig.leaders.pending) == 2


def test_while_markers_are_pending_every_request_is_retriable() -> None:
    """2.15: 51 to all requests, and the description shows what still lacks its marker."""
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
def test_a_deleted_or_superseded_partition_is_skipped(gone: int) -> None:
    """I17: a deleted topic, and a leader that knows a later epoch already (KAFKA-19999)."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine, T0, T1)
    rig.leaders.answers["t", 0] = [ErrorCode(gone)]
    rig.end(mine, commit=True)
    assert rig.state().state is S.COMPLETE_COMMIT
    assert [partition for _, partition, _ in rig.leaders.written] == [1]


def test_leaders_get_the_topic_id() -> None:
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


def test_a_complete_that_was_refused_for_good_completes_nothing() -> None:
    """I15: somebody else may own the log. Requests held for the id stay held until COMPLETE is there."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.held = True
    rig.end(mine, commit=True)
    rig.log.refuse(ErrorCode.NOT_COORDINATOR)
    rig.leaders.let_go()
    assert rig.completed == []
    while not rig.shard.load_slice(1):
        pass
    rig.leaders.let_go()
    assert rig.state().state is S.COMPLETE_COMMIT
    assert rig.completed == [ID]


def test_a_complete_is_not_tried_again_by_a_coordinator_that_was_closed() -> None:
    """I15: its timer rings, and finds nothing to do."""
    rig = Rig()
    mine = identity(rig.init())
    rig.add(mine)
    rig.leaders.held = True
    rig.end(mine, commit=True)
    rig.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    rig.leaders.let_go()
    rig.shard.close()
    end_offset = rig.log.end_offset
    rig.time.advance(10_000)
    assert (rig.log.end_offset, rig.completed) == (end_offset, [])


def test_a_crash_after_prepare_finishes_without_the_client() -> None:
    """I14, 2.13: the coordinator that loads the log writes the markers again."""
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
