"""Which records a member is handed: those that came back first, then those behind all in flight.

Batches are handed out whole, so that a limit of records is passed by the rest of a batch, unless the member wants it
strictly (KIP-1206). Records that came back often are handed out few at a time, and alone for the last time: they may be
what their members die of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.partitions.share.fetched_batches import FetchedBatch
from broker.partitions.share.in_flight import InFlightBatch, Run
from broker.partitions.share.states import RecordState
from broker.partitions.share.window import Window

MOST_AT_ONCE = 4_000
"""Offsets of a new batch that are handed out in one go. Kafka hands out the whole of a batch, however large; here it
bounds what a share partition holds in memory, and what is done with it in one turn of the loop."""
MOST_PARTS = 1_000
"""Parts of batches that are handed out in one go."""


@dataclass(slots=True)
class Acquired:
    """Records that a member was handed, with the number of times this was done."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member wants. `batch_size`: records of a batch of its own; `strictly`: never more than `max_records`."""

    member_id: str
    max_records: int
    batch_size: int
    strictly: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a group may do, and until when what is handed out now is its member's."""

    max_in_flight: int
    most_deliveries: int
    lock_until_ms: int

    @property
    def few_from(self) -> int:
        """From so many deliveries on, a record is handed out with few others."""
        return max(2, -(-self.most_deliveries // 2))


class Acquisition:
    """One member, one share partition, one read of its log: `batches`, read from `fetch_offset` on."""

    def __init__(self, window: Window, batches: Sequence[FetchedBatch], wish: Wish, bounds: Bounds) -> None:
        self._window = window
        self._batches = batches
        self._wish = wish
        self._bounds = bounds
        self._room = 0
        self._count = 0
        self.acquired: list[Acquired] = []

    def run(self, fetch_offset: int) -> list[Acquired]:
        """Acquire; what there is for the member, in the order of offsets."""
        window, batches = self._window, self._batches
        if not batches or self._wish.max_records <= 0 or batches[-1].last < window.start_offset:
            return []
        base, last = batches[0].first, batches[-1].last
        self._room = min(self._wish.max_records, self._bounds.max_in_flight - len(window))
        if self._room <= 0:  # records that came back may be had all the same
            if fetch_offset >= window.next_offset:
                return []
            self._room = min(self._wish.max_records, window.next_offset - fetch_offset)
            last = min(last, window.next_offset - 1)
        if window.batches and fetch_offset < base:
            window.archive_missing(fetch_offset, min(base, window.next_offset))
        if window.batches and base < window.next_offset:
            self._from_window(base, last)
        if self._count < self._room and last >= window.next_offset:
            self._behind_window(base, last)
        return self.acquired

    # ------------------------------------------------------------------------------------------------- what came back

    def _from_window(self, base: int, last: int) -> None:
        position = self._window.positions(base, last).start
        while position < len(self._window.batches) and self._count < self._room:
            batch = self._window.batches[position]
            if batch.first > last:
                return
            if batch.is_new:
                made = self._take_new(batch, last)
                self._window.replace(position, made)
                position += len(made)
                continue
            few = self._is_for_few(batch, base, last)
            if few and self._count:
                self._room = self._count
                return
            before = self._count
            self._take(batch, base, last, few=few)
            if few and self._count > before:
                self._room = self._count
            position += 1

    def _is_for_few(self, batch: InFlightBatch, base: int, last: int) -> bool:
        counts = [run.delivery_count for run in batch.within(base, last) if run.is_available]
        return max(counts, default=0) >= self._bounds.few_from

    def _take(self, batch: InFlightBatch, base: int, last: int, *, few: bool) -> None:
        room = self._room - self._count
        is_whole = batch.first >= base and batch.last <= last and not batch.in_parts
        if is_whole and not few and (not self._wish.strictly or len(batch) <= room):
            run = batch.runs[0]
            if run.is_available:
                self._hand_out(run)
                self._told(run, joined=False)
            return
        if not batch.in_parts and not batch.runs[0].is_available:
            return
        batch.in_parts = True
        self._take_parts(batch, base, last, room)
        batch.join_runs()

    def _take_parts(self, batch: InFlightBatch, base: int, last: int, room: int) -> None:
        bounds, all_offsets, told = self._bounds, len(batch), len(self.acquired)
        most = room if self._wish.strictly else all_offsets
        few_from, begun = bounds.few_from, self._count
        few_most: int | None = None
        batch.cut_at((base, last + 1))
        position = -1
        while (position := position + 1) < len(batch.runs):
            run = batch.runs[position]
            if run.first < base or not run.is_available:
                continue
            taken = self._count - begun
            if run.first > last or taken >= (most if few_most is None else min(most, few_most)):
                return
            if len(self.acquired) - told >= MOST_PARTS:
                return
            is_last_time = bounds.most_deliveries > 2 and run.delivery_count == bounds.most_deliveries - 1
            if is_last_time and taken:
                return
            if run.delivery_count >= few_from and few_most is None:
                few_most = max(1, all_offsets >> (run.delivery_count - few_from + 1))
            left = 1 if is_last_time else (most if few_most is None else max(taken + 1, min(most, few_most))) - taken
            if len(run) > left:
                batch.runs.insert(position + 1, run.cut_before(run.first + left))
            self._hand_out(run)
            self._told(run, joined=len(self.acquired) > told)
            if is_last_time:
                return

    # ------------------------------------------------------------------------------------------------------ what is new

    def _behind_window(self, base: int, last: int) -> None:
        window = self._window
        if not window.batches:
            window.begin_at(base)
        elif base > window.next_offset:  # compaction left nothing in between
            gap = Run(window.next_offset, base - 1, RecordState.ARCHIVED, 0)
            window.append(InFlightBatch([gap]))
            window.forget_done()
        new = InFlightBatch([Run(window.next_offset, last, RecordState.AVAILABLE, 0)], is_new=True)
        for batch in self._take_new(new, last):
            if not batch.is_new:  # what is left of it is not in flight
                window.append(batch)

    def _take_new(self, batch: InFlightBatch, last: int) -> list[InFlightBatch]:
        """Hand out the first records of a new batch: what becomes of it."""
        first, end, room = batch.first, min(batch.last, last), self._room - self._count
        if end - first + 1 > room:
            end = min(end, self._end_of_batch(first + room - 1))
        end = min(end, first + MOST_AT_ONCE - 1)
        made = [self._strict_batch(first, end, room)] if self._wish.strictly else self._split(first, end)
        for one in made:
            self._hand_out(one.runs[0])
            self._told(one.runs[0], joined=False)
        if end < batch.last:
            made.append(InFlightBatch([Run(end + 1, batch.last, RecordState.AVAILABLE, 0)], is_new=True))
        return made

    def _strict_batch(self, first: int, end: int, room: int) -> InFlightBatch:
        runs = [Run(first, min(end, first + room - 1), RecordState.AVAILABLE, 0)]
        if runs[0].last < end:
            runs.append(Run(runs[0].last + 1, end, RecordState.AVAILABLE, 0))
        return InFlightBatch(runs, in_parts=len(runs) > 1)

    def _split(self, first: int, end: int) -> list[InFlightBatch]:
        """Batches of about the size that the member wants, each of whole batches of the log."""
        begins = [first]
        if end - first + 1 > self._wish.batch_size:
            for batch in self._batches:
                if batch.first > end:
                    break
                if batch.first - begins[-1] >= max(1, self._wish.batch_size):
                    begins.append(batch.first)
        ends = [*(begin - 1 for begin in begins[1:]), end]
        return [
            InFlightBatch([Run(begin, last, RecordState.AVAILABLE, 0)])
            for begin, last in zip(begins, ends, strict=True)
        ]

    def _end_of_batch(self, offset: int) -> int:
        """Where the batch of the log ends that has this offset; the offset itself where none has."""
        for batch in self._batches:
            if batch.first <= offset <= batch.last:
                return batch.last
        return offset

    # ---------------------------------------------------------------------------------------------------------- details

    def _hand_out(self, run: Run) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = self._wish.member_id
        run.lock_until_ms = self._bounds.lock_until_ms
        self._count += len(run)

    def _told(self, run: Run, *, joined: bool) -> None:
        """Tell the member; parts of a batch that follow each other are told as one."""
        if joined:
            before = self.acquired[-1]
            if before.last_offset + 1 == run.first and before.delivery_count == run.delivery_count:
                before.last_offset = run.last
                return
        self.acquired.append(Acquired(run.first, run.last, run.delivery_count))
