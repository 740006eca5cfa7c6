"""Which decided transactions get their markers when a log has become durable."""

import pytest

from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from tests.unit.transactions.rig import ID, T0, T1, Rig, in_state
from tests.unit.transactions.test_wide_transactions import Stretches

S = TransactionState


def test_what_was_overtaken_before_it_was_durable_holds_up_nobody() -> None:
    rig = Rig(durable=False)
    rig.seed(in_state(S.PREPARE_COMMIT), "overtaken")
    rig.seed(in_state(S.COMPLETE_COMMIT), "overtaken")
    rig.seed(in_state(S.PREPARE_COMMIT, partitions=(T1,)), "other")
    assert rig.leaders.written == []
    rig.log.sync()
    assert [(topic, index) for topic, index, _ in rig.leaders.written] == [("t", 1)]
    assert rig.completed == ["other"]


def test_a_decision_over_no_partition_completes() -> None:
    """Another broker may have left one in the log."""
    rig = Rig(durable=False)
    rig.seed(in_state(S.PREPARE_ABORT, partitions=()))
    assert rig.state().state is S.PREPARE_ABORT
    rig.log.sync()
    assert rig.state().state is S.COMPLETE_ABORT
    assert (rig.leaders.written, rig.completed) == ([], [ID])


def test_no_turn_begins_where_nothing_is_to_be_written() -> None:
    begun: list[int] = []

    def begin() -> Stretches:
        begun.append(1)
        return Stretches()

    rig = Rig(begin_turn=begin)
    rig.init()
    assert rig.add((1000, 0), T0).answer is ErrorCode.NONE
    assert begun == []
    rig.end((1000, 0), commit=True)
    assert begun == [1]


@pytest.mark.parametrize(
    ("producer_id", "owner"), [(7, "open"), (8, "committing"), (9, "aborting"), (10, None), (11, None)]
)
def test_whose_a_producer_is(producer_id: int, owner: str | None) -> None:
    rig = Rig(driven=False)
    states = [
        ("open", 7, S.ONGOING),
        ("committing", 8, S.PREPARE_COMMIT),
        ("aborting", 9, S.PREPARE_ABORT),
        ("idle", 10, S.COMPLETE_COMMIT),
    ]
    for name, its_producer, state in states:
        rig.seed(in_state(state, producer_id=its_producer), name)
    found = rig.machine.ledger.owner_of(producer_id)
    assert found == (None if owner is None else (owner, rig.state(owner)))
    assert sorted(rig.machine.ledger.undecided()) == ["aborting", "committing", "open"]
