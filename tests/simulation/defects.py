"""Known ways to be wrong, planted into the live classes to see that the simulation notices.

Each is a few lines in the place of a method, and has a name, where it was seen, and how many seeds it may take. What a
defect replaces is put back afterwards.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from broker.coordination.marker_writer import LocalMarkerWriter
from broker.partitions.derived import DerivedState
from broker.partitions.partition import Partition
from broker.partitions.verification import Verifications
from broker.partitions.visibility import Visibility
from coordinator.groups.offsets import OffsetStore
from coordinator.groups.rebalance import Rebalance
from coordinator.transactions.coordinator import TransactionCoordinator
from storage.cleaner.cleaned_segment import CleanedSegment
from storage.cleaner.key_map import KeyMap
from storage.flushing import SegmentFlush
from storage.producers import producer_state
from storage.producers.aborted import AbortedIndex
from storage.producers.producer_state import ProducerState

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Defect:
    """One way to be wrong."""

    name: str
    origin: str
    plant: Plant
    tells: str = ""
    """How the sentence begins that has to be reported."""
    seeds: int = 60
    """Within how many seeds it has to be noticed."""


def _replaced(owner: Any, name: str, wrong: Callable[..., Any]) -> Plant:
    """`wrong` gets the right method first."""
    right = getattr(owner, name)

    def plant() -> contextlib.AbstractContextManager[Any]:
        return mock.patch.object(owner, name, lambda *args, **kwargs: wrong(right, *args, **kwargs))

    return plant


def _property(owner: Any, name: str, wrong: Callable[[Any, Any], Any]) -> Plant:
    found = getattr(owner, name)
    right = getattr(found, "fget", found.__get__)  # that of a compiled class is no `property`

    def plant() -> contextlib.AbstractContextManager[Any]:
        return mock.patch.object(owner, name, property(lambda self: wrong(right, self)))

    return plant


def _no_marker(right: Any, self: ProducerState, header: Any, marker: Any, now_ms: int) -> Any:
    return right(self, header, None, now_ms)


def _index_left_as_it_was(right: Any, self: DerivedState, state: ProducerState, now_ms: int) -> None:
    with mock.patch.object(AbortedIndex, "append", lambda index, completed: None):
        right(self, state, now_ms)


def _second_partition_aborts(right: Any, self: LocalMarkerWriter, *args: Any) -> None:
    topic, partition, topic_id, marker, done = args
    right(self, topic, partition, topic_id, replace(marker, commit=marker.commit and partition != 1), done)


def _always_aborts(right: Any, self: LocalMarkerWriter, *args: Any) -> None:
    topic, partition, topic_id, marker, done = args
    right(self, topic, partition, topic_id, replace(marker, commit=False), done)


def _first_batches_again(right: Any, self: Partition, *args: Any, **rest: Any) -> Any:
    found = right(self, *args, **rest)
    return replace(found, records=[*found.records, *found.records])


def _one_in_seven_left_out(right: Any, self: Partition, offset: int, *args: Any, **rest: Any) -> Any:
    left_out = offset % 7 == 3 and offset + 1 < self.visible_end(read_committed=rest["read_committed"])
    return right(self, offset + left_out, *args, **rest)


def _wavering(right: Any, self: Partition, offset: int, *args: Any, **rest: Any) -> Any:
    found = right(self, offset, *args, **rest)
    return replace(found, last_stable_offset=max(0, found.last_stable_offset - offset % 2))


def _next_offset_told(right: Any, self: ProducerState, header: Any) -> Any:
    found = right(self, header)
    return None if found is None else found._replace(last_offset=found.last_offset + 1)


def _all_own_the_first_share(right: Any, self: Rebalance, group: Any, assignments: Any, *rest: Any) -> None:
    share = next(iter(assignments.values()), b"")
    right(self, group, dict.fromkeys(assignments, share), *rest)


def _later_commits_forgotten(right: Any, self: OffsetStore, group_id: str, topic: str, *args: Any, **rest: Any) -> None:
    if rest["producer_id"] is not None or (topic, args[0]) not in self.committed.get(group_id, {}):
        right(self, group_id, topic, *args, **rest)


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
            _replaced(Visibility, "when_committed", lambda right, self, offset, tell: tell(None)),
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
        Defect(
            "sequences not compared",
            "a batch overtakes another (KAFKA-5494)",
            _replaced(producer_state, "_check_sequence", lambda right, header, epoch, packed: None),
            tells="order of sends",
            seeds=400,
        ),
        Defect(
            "a repeated batch is told the next offset",
            "whoever repeats learns of another record",
            _replaced(ProducerState, "find_duplicate", _next_offset_told),
            tells="inconsistent offsets",
        ),
        Defect(
            "one partition of a transaction is aborted",
            "torn transactions",
            _replaced(LocalMarkerWriter, "write", _second_partition_aborts),
            tells="torn transaction",
        ),
        Defect(
            "a committed transaction is aborted",
            "the decision is lost on its way to the markers",
            _replaced(LocalMarkerWriter, "write", _always_aborts),
            tells="lost commit",
        ),
        Defect(
            "batches are sent twice",
            "a reader is shown what it knows",
            _replaced(Partition, "read", _first_batches_again),
            tells="order of reads",
        ),
        Defect(
            "a batch is left out of an answer",
            "a reader is not shown what is there",
            _replaced(Partition, "read", _one_in_seven_left_out),
            tells="skipped read",
        ),
        Defect(
            "the page cache passes for the disk",
            "what was shown is gone after a power cut",
            _property(Partition, "is_durable", lambda right, self: False),
            tells="lost read",
        ),
        Defect(
            "compaction takes the last of a key, too",
            "the committed value of a key is lost (I34)",
            _replaced(KeyMap, "get", lambda right, self, key: right(self, key) + 1),
            tells="compacted away",
        ),
        Defect(
            "a replacement is thrown away with what it replaced",
            "ours, found by simulation: a rename that fails in the middle of compaction",
            _replaced(CleanedSegment, "take_over", lambda right, self: None),
            seeds=400,
        ),
        Defect(
            "the last stable offset wavers",
            "KAFKA-9807",
            _replaced(Partition, "read", _wavering),
            tells="offset going back",
        ),
        Defect(
            "a second commit of offsets is forgotten",
            "offsets that go back",
            _replaced(OffsetStore, "replay", _later_commits_forgotten),
            tells="",
        ),
        Defect(
            "all members own the first one's share",
            "two members own a partition",
            _replaced(Rebalance, "assign", _all_own_the_first_share),
            tells="two owners",
        ),
        Defect(
            "nothing times out",
            "hanging transactions",
            _replaced(TransactionCoordinator, "abort_timed_out", lambda right, self, now_ms: None),
            tells="transactions are open",
        ),
        Defect(
            "the last stable offset stays where it was",
            "consumers are stuck",
            _replaced(ProducerState, "_find_first_unstable", lambda right, self: None),
            tells="the last stable offset of",
        ),
        Defect(
            "whoever watched a partition is remembered",
            "memory that does not come back",
            _replaced(Visibility, "unwatch", lambda right, self, watcher: None),
            tells="memory",
        ),
    )
}
"""By name. What is planted here must be noticed by `python -m tests.simulation --defect NAME`."""


@contextlib.contextmanager
def planted(name: str) -> Iterator[Defect]:
    defect = DEFECTS[name]
    with defect.plant():
        yield defect
