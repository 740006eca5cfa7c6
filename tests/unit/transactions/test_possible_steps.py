"""Which record of a transactional id may follow which: what a bug of ours would write is refused before."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.transactions.states import TransactionState, check_transition
from tests.unit.transactions.rig import OFFSETS, T0, T1, in_state

S = TransactionState
IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
MAY_FOLLOW = {
    S.EMPTY: IDLE,
    S.ONGOING: (*IDLE, S.ONGOING),
    S.PREPARE_COMMIT: (S.ONGOING,),
    S.PREPARE_ABORT: (*IDLE, S.ONGOING),
    S.COMPLETE_COMMIT: (S.PREPARE_COMMIT,),
    S.COMPLETE_ABORT: (S.PREPARE_ABORT,),
}


def refused(before: Any, after: Any) -> bool:
    try:
        check_transition(before, after)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("target", list(S))
@pytest.mark.parametrize("source", list(S))
def test_each_state_follows_those_of_the_table(source: S, target: S) -> None:
    """I05."""
    before = in_state(source)
    after = in_state(target, start_ms=-1 if target is S.EMPTY else 1)
    if target.preparing:
        after = replace(after, partitions=before.partitions)
    assert refused(before, after) is (source not in MAY_FOLLOW[target])


FIRST = in_state(S.EMPTY, producer_epoch=0)
OPEN = in_state(S.ONGOING)
IDLE_ID = in_state(S.COMPLETE_COMMIT)
COMMITTING = in_state(S.PREPARE_COMMIT)
ROTATING = in_state(S.PREPARE_COMMIT, producer_epoch=32767, next_producer_id=9)


@pytest.mark.parametrize(
    ("before", "after", "changes", "allowed"),
    [
        # A new id.
        (None, FIRST, {}, True),
        (None, FIRST, {"producer_id": 0}, True),
        (None, FIRST, {"producer_id": -1}, False),
        (None, FIRST, {"producer_epoch": 1}, False),
        (None, FIRST, {"state": S.ONGOING}, False),
        # An epoch that there is.
        (replace(FIRST, producer_epoch=32767), FIRST, {"producer_epoch": 32767}, True),
        (replace(FIRST, producer_epoch=32767), FIRST, {"producer_epoch": 32768}, False),
        (replace(FIRST, producer_epoch=-1), FIRST, {"producer_epoch": -1}, False),
        (replace(FIRST, producer_epoch=-1), FIRST, {"producer_epoch": 0}, True),
        # InitProducerId: the next epoch, the same once more, or a new producer id from its first epoch on.
        (IDLE_ID, in_state(S.EMPTY), {"producer_epoch": 3}, True),
        (IDLE_ID, in_state(S.EMPTY), {"producer_epoch": 4, "timeout_ms": 1}, True),
        (IDLE_ID, in_state(S.EMPTY), {"producer_epoch": 5}, False),
        (IDLE_ID, in_state(S.EMPTY), {"producer_epoch": 2}, False),
        (IDLE_ID, in_state(S.EMPTY), {"producer_id": 9, "producer_epoch": 0}, True),
        (IDLE_ID, in_state(S.EMPTY), {"producer_id": 9, "producer_epoch": 1}, False),
        (IDLE_ID, in_state(S.EMPTY), {"producer_id": 9, "producer_epoch": 4}, False),
        (IDLE_ID, in_state(S.EMPTY), {"producer_epoch": 0}, False),
        (IDLE_ID, in_state(S.EMPTY), {"partitions": (T0,)}, False),
        (IDLE_ID, in_state(S.EMPTY), {"start_ms": 5}, False),
        # A partition is added.
        (IDLE_ID, OPEN, {}, True),
        (IDLE_ID, OPEN, {"timeout_ms": 1}, False),
        (IDLE_ID, OPEN, {"producer_epoch": 4}, False),
        (IDLE_ID, OPEN, {"producer_id": 9}, False),
        (IDLE_ID, OPEN, {"start_ms": -1}, False),
        (OPEN, OPEN, {"partitions": (OFFSETS, T0)}, True),
        (OPEN, OPEN, {"partitions": (OFFSETS, T1)}, False),
        (OPEN, OPEN, {"partitions": ()}, False),
        (replace(OPEN, partitions=(T0, OFFSETS)), OPEN, {"partitions": (T0, T1)}, False),
        # A decision.
        (OPEN, COMMITTING, {}, True),
        (OPEN, COMMITTING, {"producer_epoch": 4}, True),
        (OPEN, COMMITTING, {"producer_epoch": 5}, False),
        (OPEN, COMMITTING, {"producer_epoch": 2}, False),
        (OPEN, COMMITTING, {"producer_id": 9}, False),
        (OPEN, COMMITTING, {"timeout_ms": 1}, False),
        (OPEN, COMMITTING, {"partitions": (T0, OFFSETS)}, False),
        (OPEN, COMMITTING, {"partitions": ()}, False),
        (OPEN, COMMITTING, {"start_ms": -1}, False),
        (replace(IDLE_ID, partitions=(T0,)), in_state(S.PREPARE_ABORT), {}, False),
        (replace(OPEN, partitions=()), COMMITTING, {"partitions": ()}, True),
        # All markers are written.
        (COMMITTING, IDLE_ID, {}, True),
        (COMMITTING, IDLE_ID, {"timeout_ms": 1}, False),
        (COMMITTING, IDLE_ID, {"producer_epoch": 4}, False),
        (COMMITTING, IDLE_ID, {"producer_id": 9, "producer_epoch": 0}, False),
        (COMMITTING, IDLE_ID, {"producer_id": -1, "producer_epoch": 0}, False),
        (COMMITTING, IDLE_ID, {"partitions": (T0,)}, False),
        (COMMITTING, IDLE_ID, {"next_producer_id": 9}, False),
        (ROTATING, IDLE_ID, {"producer_id": 9, "producer_epoch": 0}, True),
        (ROTATING, IDLE_ID, {"producer_id": 9, "producer_epoch": 1}, False),
        (ROTATING, IDLE_ID, {"producer_id": 8, "producer_epoch": 0}, False),
        (ROTATING, IDLE_ID, {"producer_epoch": 32767}, True),
    ],
)
def test_what_a_step_may_change(before: Any, after: Any, changes: dict[str, Any], allowed: bool) -> None:
    assert refused(before, replace(after, **changes)) is not allowed
