"""A partition as the sequence of its batches, and what follows from it at any length.

What a broker keeps beside the log is a function of the log: who wrote up to which sequence, which transactions are
open, where the last stable offset is (none of it depends on when requests came).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.opinion.batches import Batch, same_records

SEQUENCES = 1 << 31
REMEMBERED = 5
"""So many batches of a producer are known again when they are repeated."""


class Producer(NamedTuple):
    """What a log says of one producer id."""

    epoch: int
    batches: tuple[tuple[int, int, int], ...] = ()
    """(first sequence, last sequence, base offset) of the last batches of this epoch."""
    open: bool = False
    """A transaction is open."""

    def after(self, batch: Batch) -> "Producer":
        header = batch.header
        known = self.batches if header.producer_epoch == self.epoch else ()
        if header.is_control:
            return Producer(header.producer_epoch, known)
        now = (header.base_sequence, header.last_sequence, batch.base)
        return Producer(header.producer_epoch, (*known, now)[-REMEMBERED:], self.open or header.is_transactional)

    def next_sequence(self) -> int:
        return (self.batches[-1][1] + 1) % SEQUENCES if self.batches else 0


@dataclass(slots=True)
class Transaction:
    """One transaction in one partition."""

    producer_id: int
    epoch: int
    first: int
    marker: Batch | None = None

    @property
    def end(self) -> int | None:
        return None if self.marker is None else self.marker.base


@dataclass(slots=True)
class PartitionLog:
    """Batches by base offset; `close` when all are known. `begin`..`end` is known without a gap, and judged."""

    batches: dict[int, Batch] = field(default_factory=dict)
    begin: int = 0
    end: int = 0
    bases: list[int] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    producers: dict[int, list[tuple[int, Producer]]] = field(default_factory=dict)
    """Producer id → (length of the log from which on, its state)."""
    _stable: dict[int, int] = field(default_factory=dict)

    def learn(self, batch: Batch) -> str:
        """Take up a batch; what contradicts it, or nothing."""
        known = self.batches.setdefault(batch.base, batch)
        if known is not batch and not same_records(known, batch):
            return f"the batch at {batch.base} is not the one that was there"
        return ""

    def close(self) -> Iterator[tuple[Batch, str]]:
        """All is known; yields batches that overlap."""
        self.bases = sorted(self.batches)
        for before, after in zip(self.bases, self.bases[1:], strict=False):
            if self.batches[before].next > after:
                yield self.batches[after], f"begins at {after}, inside the one at {before}"
        if not self.bases:
            return
        last = len(self.bases) - 1
        self.end = self.batches[self.bases[last]].next
        while last and self.batches[self.bases[last - 1]].next == self.bases[last]:
            last -= 1
        self.bases = self.bases[last:]
        self.begin = self.bases[0]
        self._replay()

    def _replay(self) -> None:
        open_ones: dict[int, Transaction] = {}
        for base in self.bases:
            batch = self.batches[base]
            header = batch.header
            if header.producer_id < 0:
                continue
            states = self.producers.setdefault(header.producer_id, [])
            before = states[-1][1] if states else Producer(header.producer_epoch)
            states.append((batch.next, before.after(batch)))
            if header.is_control:
                if ended := open_ones.pop(header.producer_id, None):
                    ended.marker = batch
            elif header.is_transactional and header.producer_id not in open_ones:
                made = Transaction(header.producer_id, header.producer_epoch, base)
                self.transactions.append(made)
                open_ones[header.producer_id] = made

    def may_be_held_back(self, offset: int, start: int) -> bool:
        """Whether a transaction that nobody has read of may hold what is stable back at `offset`: it began in front of
        all that is known. DeleteRecords may have taken its records up to `start`, which ends no transaction."""
        return offset < self.begin or (self.begin > 0 and offset <= max(self.begin, start))

    def last_stable(self, length: int) -> int:
        """The last stable offset where the high watermark is `length`."""
        found = self._stable.get(length)
        if found is None:
            open_ones = (
                one.first for one in self.transactions if one.first < length and (one.end is None or one.end >= length)
            )
            found = self._stable[length] = min(open_ones, default=length)
        return found

    def stretch(self, first: int, last: int) -> Iterable[Batch]:
        """The batches with an offset in [first, last)."""
        index = max(0, bisect_right(self.bases, first) - 1)
        while index < len(self.bases) and self.bases[index] < last:
            batch = self.batches[self.bases[index]]
            if batch.next > first:
                yield batch
            index += 1

    def states_of(self, producer_id: int, shortest: int, longest: int) -> list[Producer | None]:
        """Its state at every length in [shortest, longest]; None before its first batch."""
        states = self.producers.get(producer_id, [])
        lengths = [length for length, _ in states]
        first, last = bisect_right(lengths, shortest), bisect_right(lengths, longest)
        before: list[Producer | None] = [states[first - 1][1] if first else None]
        return before + [state for _, state in states[first:last]]

    def aborted(self, offset: int) -> list[Transaction]:
        """Those that were aborted and end at or behind `offset`."""
        return [one for one in self.transactions if one.marker is not None and not one.marker.commit
                and one.marker.base >= offset]  # fmt: skip

    def index_of(self, base: int) -> int:
        """How many judged batches lie before `base`."""
        return bisect_left(self.bases, base)
