"""Known ways to be wrong, planted into the live classes to see that the simulation notices.

Each is a few lines in the place of a method, and has a name, where it was seen, and how many seeds it may take. What a
defect replaces is put back afterwards.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from broker.partition.derived import DerivedState
from broker.partition.partition import Partition
from broker.partition.verification import Verifications
from broker.partition.visibility import Visibility
from coordinator.groups.offsets import OffsetStore
from storage import producer_state
from storage.aborted import AbortedIndex
from storage.flushing import SegmentFlush
from storage.producer_state import ProducerState

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Defect:
    """One way to be wrong."""

    name: str
    origin: str
    plant: Plant
    seeds: int = 60
    """Within how many seeds it has to be noticed."""


def _replaced(owner: Any, name: str, wrong: Callable[..., Any]) -> Plant:
    """`wrong` gets the right method first."""
    right = getattr(owner, name)

    def plant() -> contextlib.AbstractContextManager[Any]:
        return mock.patch.object(owner, name, lambda *args, **kwargs: wrong(right, *args, **kwargs))

    return plant


def _property(owner: Any, name: str, wrong: Callable[[Any, Any], Any]) -> Plant:
    right = getattr(owner, name).fget

    def plant() -> contextlib.AbstractContextManager[Any]:
        return mock.patch.object(owner, name, property(lambda self: wrong(right, self)))

    return plant


def _no_marker(right: Any, self: ProducerState, header: Any, marker: Any, now_ms: int) -> Any:
    return right(self, header, None, now_ms)


def _index_left_as_it_was(right: Any, self: DerivedState, state: ProducerState, now_ms: int) -> None:
    with mock.patch.object(AbortedIndex, "append", lambda index, completed: None):
        right(self, state, now_ms)


def _check_without_epoch(right: Any, self: ProducerState, header: Any, **rest: Any) -> None:
    if header.producer_epoch >= self.epoch(header.producer_id):
        right(self, header, **rest)


def _staged_as_committed(right: Any, self: OffsetStore, *args: Any, producer_id: int | None, **rest: Any) -> None:
    right(self, *args, producer_id=None, **rest)


def _committed_at_once(right: Any, self: OffsetStore, producer_id: int, *, commit: bool) -> None:
    right(self, producer_id, commit=True)


DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defect in (
        Defect(
            "last stable offset one too far",
            "readers are shown the first record of an open transaction",
            _property(Partition, "last_stable_offset", lambda right, self: min(right(self) + 1, self.high_watermark)),
        ),
        Defect(
            "acknowledged before durable",
            "Redpanda #6018",
            _replaced(Visibility, "committed", lambda right, self, offset: None),
        ),
        Defect(
            "sync does nothing",
            "a durable offset that is not",
            _replaced(SegmentFlush, "run", lambda right, self: None),
        ),
        Defect(
            "duplicate cache off",
            "KAFKA-5494",
            _replaced(ProducerState, "find_duplicate", lambda right, self, header: None),
        ),
        Defect(
            "duplicate cache of one",
            "a cache of fewer than five batches",
            _replaced(producer_state, "with_batch", lambda right, batches, added: added),
        ),
        Defect("epoch check skipped", "zombies write", _replaced(ProducerState, "check_data", _check_without_epoch)),
        Defect("marker lost in recovery", "KAFKA-9144", _replaced(ProducerState, "replay", _no_marker)),
        Defect(
            "aborted index not rebuilt",
            "KAFKA-7866",
            _replaced(DerivedState, "_replay", _index_left_as_it_was),
        ),
        Defect(
            "aborted transactions not told",
            "KAFKA-5376",
            _replaced(AbortedIndex, "collect", lambda right, self, fetch_offset, upper_bound: []),
        ),
        Defect(
            "guard not compared",
            "KAFKA-14884",
            _replaced(Verifications, "is_current", lambda right, self, producer_id, guard: True),
            seeds=400,
        ),
        Defect(
            "offsets committed before their transaction",
            "pending offsets shown",
            _replaced(OffsetStore, "replay", _staged_as_committed),
        ),
        Defect(
            "aborted offsets committed",
            "offsets apart from their transaction",
            _replaced(OffsetStore, "end_transaction", _committed_at_once),
        ),
        Defect(
            "pending offsets are no reason to wait",
            "KIP-447",
            _replaced(OffsetStore, "is_unstable", lambda right, self, *key: False),
            seeds=400,
        ),
    )
}
"""By name. What is planted here must be noticed by `python -m tests.simulation --defect NAME`."""


@contextlib.contextmanager
def planted(name: str) -> Iterator[Defect]:
    defect = DEFECTS[name]
    with defect.plant():
        yield defect
