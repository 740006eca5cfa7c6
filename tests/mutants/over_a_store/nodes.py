"""Defects that a seed of several nodes notices, or of one over a store."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from broker.partitions.derived import DerivedState
from coordinator.transactions.ledger import TransactionLedger
from storage.producers.producer_entry import HEAD
from storage.producers.producer_state import ProducerState
from tests.mutants.mutant import Change, Mutant
from tests.mutants.over_a_store.lines import Line


def _batches_are_forgotten() -> AbstractContextManager[Any]:
    """Who opens a log knows its producers with their epochs and transactions, and none of their batches."""

    def rebuild(self: DerivedState, now_ms: int) -> ProducerState:
        state = true(self, now_ms)
        assert isinstance(state._entries, dict)
        state._entries = {producer_id: packed[: HEAD.size] for producer_id, packed in state._entries.items()}
        return state

    true = DerivedState._rebuild
    return mock.patch.object(DerivedState, "_rebuild", rebuild)


def _producers_are_forgotten() -> AbstractContextManager[Any]:
    """But for those that have a transaction open."""

    def rebuild(self: DerivedState, now_ms: int) -> ProducerState:
        state = true(self, now_ms)
        for producer_id, packed in list(state._entries.items()):
            state.forget(producer_id, packed)
        return state

    true = DerivedState._rebuild
    return mock.patch.object(DerivedState, "_rebuild", rebuild)


def _nobody_goes_on() -> AbstractContextManager[Any]:
    return mock.patch.object(TransactionLedger, "loaded", lambda self: self.undriven.clear())


MUTANTS = (
    (
        Line.AFTER_THE_COMMIT,
        Mutant(
            "a takeover forgets the batches of producers",
            Line.AFTER_THE_COMMIT.happens,
            caught_by=("nodes 1 below 60", "stored 0 below 60"),
            plant=_batches_are_forgotten,
        ),
    ),
    (
        Line.AFTER_THE_COMMIT,
        Mutant(
            "a takeover forgets producers",
            Line.AFTER_THE_COMMIT.happens,
            caught_by=("stored 12 below 60",),
            plant=_producers_are_forgotten,
        ),
    ),
    (
        Line.COORDINATOR,
        Mutant(
            "the next coordinator does not go on with markers",
            Line.COORDINATOR.happens,
            caught_by=("nodes 4 below 60",),
            plant=_nobody_goes_on,
        ),
    ),
    (
        Line.COORDINATOR,
        Mutant(
            "the next coordinator takes the markers for written",
            Line.COORDINATOR.happens,
            (
                Change(
                    "coordinator.transactions.ledger:TransactionLedger.loaded",
                    "self.undriven = deque(self.completions.values())",
                    "self.undriven = deque(self.completions.values())\n"
                    "    for one in self.undriven:\n"
                    "        one.remaining = {}",
                ),
            ),
            ("nodes 31 below 60",),
        ),
    ),
)
