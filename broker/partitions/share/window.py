"""The records of a share partition that are in flight: all between its start offset and the next to be handed out.

Rule 1. Batches cover the window without a gap: every offset of it is in one state and has at most one owner.
Rule 2. The window begins with a record that is not done; what is done before it is forgotten.
Rule 3. What is being written (`Run.target`) stays where it is until that has ended.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from broker.partitions.share.in_flight import InFlightBatch, Run
from broker.partitions.share.states import TERMINAL, RecordState
from coordinator.share_state.port import KEPT_STATES, StateBatch

_FIRST = attrgetter("first")


class BadState(Exception):
    """What is kept of a share partition cannot be: its batches lie before its start, end before they begin, or are in
    no state in which records are kept."""


class Window:
    """See the head of this file. It is empty where `start_offset` is `next_offset`."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        self.batches: list[InFlightBatch] = []

    @classmethod
    def restored(cls, start_offset: int, kept: Sequence[StateBatch]) -> "Window":
        """What is known of a share partition after a restart. Records of which nothing was kept, before others, are
        available; records that were acquired are not kept as such. Raises `BadState`."""
        window = cls(start_offset)
        for batch in kept:
            if batch.first_offset < window.next_offset or batch.last_offset < batch.first_offset:
                raise BadState(f"{batch} does not follow offset {window.next_offset - 1}")
            if batch.delivery_state not in KEPT_STATES:
                raise BadState(f"{batch} is in no state that is kept")
            if batch.first_offset > window.next_offset:
                window.append_new(batch.first_offset - 1)
            run = Run(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
            window.append(InFlightBatch([run]))
        window.forget_done()
        return window

    def __len__(self) -> int:
        return self.next_offset - self.start_offset

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def append(self, batch: InFlightBatch) -> None:
        assert batch.first == self.next_offset, "no gap"
        self.batches.append(batch)
        self.next_offset = batch.last + 1

    def append_new(self, last: int) -> None:
        """Have it reach up to `last`, with records of which nothing is known."""
        run = Run(self.next_offset, last, RecordState.AVAILABLE, 0)
        self.append(InFlightBatch([run], is_new=True))

    def begin_at(self, offset: int) -> None:
        """Have an empty window begin at a later offset: the log has nothing before it any more."""
        assert not self.batches
        self.start_offset = self.next_offset = max(offset, self.start_offset)

    def positions(self, first: int, last: int) -> range:
        """Where the batches are that have offsets of `first` to `last`."""
        begin = max(0, bisect_right(self.batches, first, key=_FIRST) - 1)
        if begin < len(self.batches) and self.batches[begin].last < first:
            begin += 1
        return range(begin, max(begin, bisect_right(self.batches, last, key=_FIRST)))

    def covering(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that have offsets of `first` to `last`."""
        found = self.positions(first, last)
        return self.batches[found.start : found.stop]

    def replace(self, position: int, batches: Iterable[InFlightBatch]) -> None:
        """Put others in the place of one batch; they cover the same offsets."""
        self.batches[position : position + 1] = batches

    def next_fetch_offset(self) -> int:
        """The first record that a member can be handed: one that came back, or the first behind all in flight."""
        for run in self.runs():
            if run.is_available:
                return run.first
        return self.next_offset

    def delivery_complete_count(self) -> int:
        """How many records of the window are done, or will be when it is written (KIP-1226)."""
        return sum(len(run) for run in self.runs() if (run.target or run.state) in TERMINAL)

    def archive_missing(self, first: int, end: int) -> None:
        """The log has nothing of `first` up to `end` any more (compaction): nobody can be handed it."""
        for position in reversed(self.positions(first, end - 1)):
            batch = self.batches[position]
            batch.cut_at((first, end))
            for run in batch.within(first, end - 1):
                if run.is_available:
                    run.become(RecordState.ARCHIVED)
            if batch.is_new:
                self.replace(position, [InFlightBatch([run], is_new=run.is_available) for run in batch.runs])
            else:
                batch.in_parts = batch.in_parts or len(batch.runs) > 1
        self.forget_done()

    def move_start(self, offset: int) -> bool:
        """The log begins at `offset` now: what lies before is nobody's. Whether that changed anything."""
        if offset <= self.start_offset:
            return False
        if offset >= self.next_offset:
            self.batches.clear()
            self.start_offset = self.next_offset = offset
            return True
        self._forget_before(offset)
        self.forget_done()
        return True

    def forget_done(self) -> None:
        """Have the window begin with a record that is not done."""
        for run in self.runs():
            if not run.is_done:
                self._forget_before(run.first)
                return
        self.batches.clear()
        self.start_offset = self.next_offset

    def _forget_before(self, offset: int) -> None:
        gone = 0
        while gone < len(self.batches) and self.batches[gone].last < offset:
            gone += 1
        del self.batches[:gone]
        self.start_offset = offset
        first = self.batches[0]
        if first.first < offset:
            first.runs = [run for run in first.runs if run.last >= offset]
            first.runs[0].first = max(offset, first.runs[0].first)
            first.in_parts = first.in_parts or not first.is_new
