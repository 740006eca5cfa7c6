"""The records in flight of a share partition against a small model: every offset is in one state and has one owner."""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.partitions.share.acknowledging import (
    Acknowledgement,
    AcknowledgementRefused,
    Renewal,
    Staged,
    acknowledge,
    give_back,
)
from broker.partitions.share.acquiring import Acquisition, Bounds, Wish
from broker.partitions.share.fetched_batches import FetchedBatch
from broker.partitions.share.states import TERMINAL, RecordState
from broker.partitions.share.window import Window
from coordinator.share_state.port import StateBatch
from storage.steps import finish

MEMBERS = ("ada", "bob", "cyd")
MOST_DELIVERIES = 4
MAX_IN_FLIGHT = 40
LOCK_MS = 100


@dataclass
class Record:
    """One offset, as the model knows it. `target`: what it will be once that is written."""

    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    owner: str = ""
    lock_until_ms: int = 0
    target: RecordState | None = None

    def done(self) -> bool:
        return self.target is None and self.state in TERMINAL

    def become(self, state: RecordState) -> None:
        self.state, self.owner, self.lock_until_ms, self.target = state, "", 0, None


class Model:
    """A share partition, offset by offset, next to the window that is tried."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ms = 1_000
        self.start = random.randrange(5)
        self.next = self.start
        self.records: dict[int, Record] = {}
        self.kept: dict[int, tuple[int, int]] = {}
        self.log: list[tuple[int, int]] = []
        self.log_end = self.start
        self.window = Window(self.start)
        self.staged: list[tuple[Staged, list[int]]] = []

    # ---------------------------------------------------------------------------------------------------------- actions

    def append(self) -> None:
        """The log grows; now and then compaction has left offsets out."""
        first = self.log_end + (self.random.randrange(1, 4) if self.random.random() < 0.1 else 0)
        last = first + self.random.choice((0, 0, 1, 3, 9))
        self.log.append((first, last))
        self.log_end = last + 1

    def acquire(self) -> None:
        wish = Wish(
            self.random.choice(MEMBERS),
            max_records=self.random.choice((1, 2, 5, 30)),
            batch_size=self.random.choice((1, 4, 50)),
            strictly=self.random.random() < 0.4,
        )
        fetch_offset = self.window.next_fetch_offset()
        assert fetch_offset == min(
            (at for at, record in self.records.items() if self.available(record)), default=self.next
        )
        read = [(first, last) for first, last in self.log if last >= fetch_offset][: self.random.randrange(1, 6)]
        batches = [FetchedBatch(first, last, 0, 0, 61, -1, False) for first, last in read]
        bounds = Bounds(MAX_IN_FLIGHT, MOST_DELIVERIES, self.now_ms + LOCK_MS)
        before = len(self.window)
        acquired = Acquisition(self.window, batches, wish, bounds).run(fetch_offset)
        if read:
            self.missing(fetch_offset, read[0][0])
        told = sorted(acquired, key=lambda one: one.first_offset)
        assert told == acquired
        count = 0
        for one in acquired:
            for offset in range(one.first_offset, one.last_offset + 1):
                record = self.records.setdefault(offset, Record())
                assert self.available(record), (offset, record)
                record.state, record.owner = RecordState.ACQUIRED, wish.member_id
                record.delivery_count += 1
                record.lock_until_ms = bounds.lock_until_ms
                assert record.delivery_count == one.delivery_count
                count += 1
        if acquired:
            self.filled(acquired[-1].last_offset if not wish.strictly else self.window.next_offset - 1)
        assert count <= wish.max_records or not wish.strictly
        assert len(self.window) <= max(before, MAX_IN_FLIGHT + 14)
        self.forget_done()

    def missing(self, first: int, end: int) -> None:
        """Offsets that the log has not are archived, if they are in flight or come before others that are."""
        for offset in range(first, end):
            record = self.records.get(offset)
            if record is not None and self.available(record):
                record.become(RecordState.ARCHIVED)
        self.forget_done()
        if end > self.next and self.window.next_offset > end - 1:
            for offset in range(self.next, end):
                self.records.setdefault(offset, Record(RecordState.ARCHIVED))
            self.next = max(self.next, end)
            self.forget_done()

    def filled(self, last: int) -> None:
        for offset in range(self.next, last + 1):
            self.records.setdefault(offset, Record())
        self.next = max(self.next, last + 1)

    def acknowledge(self) -> None:
        if not self.records:
            return
        member = self.random.choice(MEMBERS)
        mine = [at for at, record in self.records.items() if record.owner == member and record.target is None]
        offsets = sorted(mine or self.records)
        first = self.random.choice(offsets)
        last = min(first + self.random.randrange(6), self.next - 1 + self.random.randrange(2))
        last = max(first, last)
        types = [self.random.randrange(5)]
        if self.random.random() < 0.5:
            types = [self.random.randrange(5) for _ in range(last - first + 1)]
        wanted = {at: types[at - first] if len(types) > 1 else types[0] for at in range(first, last + 1)}
        right = last < self.next and all(
            (record := self.records[at]).state is RecordState.ACQUIRED
            and record.owner == member
            and record.target is None
            for at in wanted
        )
        try:
            said = [Acknowledgement(first, last, types)]
            staged = finish(acknowledge(self.window, member, said, Renewal(self.now_ms + 500), MOST_DELIVERIES))
        except AcknowledgementRefused:
            assert not right
            return
        assert right
        states = (RecordState.ARCHIVED, RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVED)
        for at, kind in wanted.items():
            if kind == 4:
                self.records[at].lock_until_ms = self.now_ms + 500
            else:
                self.stage(at, states[kind])
        self.staged.append((staged, [at for at, kind in wanted.items() if kind != 4]))

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        self.give_back(
            give_back(self.window, lambda run: run.member_id == member, MOST_DELIVERIES),
            [at for at, record in self.records.items() if record.owner == member],
        )

    def time_out(self) -> None:
        self.now_ms += self.random.randrange(80)
        now_ms = self.now_ms
        self.give_back(
            give_back(self.window, lambda run: run.lock_until_ms <= now_ms, MOST_DELIVERIES),
            [at for at, record in self.records.items() if record.owner and record.lock_until_ms <= now_ms],
        )

    def give_back(self, staged: Staged, offsets: list[int]) -> None:
        given = [at for at in offsets if self.records[at].target is None]
        for at in given:
            self.stage(at, RecordState.AVAILABLE)
        self.staged.append((staged, given))

    def end_write(self) -> None:
        if not self.staged:
            return
        staged, offsets = self.staged.pop(self.random.randrange(len(self.staged)))
        if self.random.random() < 0.7:
            for batch in staged.batches():
                for at in range(batch.first_offset, batch.last_offset + 1):
                    self.kept[at] = (batch.delivery_state, batch.delivery_count)
            finish(staged.complete())
            for at in offsets:
                if at in self.records:
                    record = self.records[at]
                    assert record.target is not None
                    record.become(record.target)
        else:
            finish(staged.take_back())
            for at in offsets:
                if at in self.records:
                    self.records[at].target = None
        self.forget_done()

    def move_start(self) -> None:
        if self.random.random() < 0.9:
            return
        to = min(self.start + self.random.randrange(4), self.log_end)
        self.log = [(first, last) for first, last in self.log if last >= to]
        self.window.move_start(to)
        if to > self.start:
            self.records = {at: record for at, record in self.records.items() if at >= to}
            self.start = to
            self.next = max(self.next, to)
            self.forget_done()

    def restart(self) -> None:
        """What was kept is there again; what was acquired is available, its deliveries forgotten if none was kept."""
        if self.random.random() < 0.95:
            return
        self.staged.clear()
        kept = {at: state for at, state in sorted(self.kept.items()) if at >= self.start}
        self.window = Window.restored(self.start, [StateBatch(at, at, *state) for at, state in kept.items()])
        self.next = max(kept, default=self.start - 1) + 1
        self.records = {at: Record() for at in range(self.start, self.next)}
        for at, (state, count) in kept.items():
            self.records[at] = Record(RecordState(state), count)
        self.forget_done()

    # ---------------------------------------------------------------------------------------------------------- details

    @staticmethod
    def available(record: Record) -> bool:
        return record.state is RecordState.AVAILABLE and record.target is None

    def stage(self, offset: int, state: RecordState) -> None:
        record = self.records[offset]
        too_often = state is RecordState.AVAILABLE and record.delivery_count >= MOST_DELIVERIES
        record.target = RecordState.ARCHIVED if too_often else state

    def forget_done(self) -> None:
        while self.start in self.records and self.records[self.start].done():
            del self.records[self.start]
            self.start += 1
        self.next = max(self.next, self.start)
        if not self.records and self.window.start_offset == self.window.next_offset:
            self.start = self.next = self.window.start_offset  # the log may have left out what comes next

    def compare(self) -> None:
        """The window says of every offset what the model says, and its batches leave no gap."""
        offset = self.window.start_offset
        for batch in self.window.batches:
            assert batch.runs
            for run in batch.runs:
                assert run.first == offset
                for at in range(run.first, run.last + 1):
                    record = self.records[at]
                    seen = (run.state, run.delivery_count, run.member_id, run.lock_until_ms, run.target)
                    known = (record.state, record.delivery_count, record.owner, record.lock_until_ms, record.target)
                    assert seen == known, at
                offset = run.last + 1
            assert batch.in_parts or len(batch.runs) == 1
        assert offset == self.window.next_offset == self.next
        assert self.window.start_offset == self.start
        assert len(self.records) == len(self.window)
        done = sum((record.target or record.state) in TERMINAL for record in self.records.values())
        assert self.window.delivery_complete_count() == done


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_every_offset_is_in_one_state_and_has_one_owner(seed: int) -> None:
    random = Random(seed)
    model = Model(random)
    actions = [
        *[model.append] * 4, *[model.acquire] * 5, *[model.acknowledge] * 6, model.leave, model.time_out,
        *[model.end_write] * 5, model.move_start, model.restart,
    ]  # fmt: skip
    for _ in range(80):
        random.choice(actions)()
        model.compare()


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(-3, 30), st.integers(1, 8))
def test_batches_of_a_range_are_those_that_have_offsets_of_it(sizes: list[int], first: int, length: int) -> None:
    """Also of one that lies before or behind the window, or reaches beyond it."""
    window = Window(5)
    for size in sizes:
        window.append_new(window.next_offset + size - 1)
    last = first + length - 1
    wanted = [batch for batch in window.batches if batch.first <= last and first <= batch.last]
    assert window.covering(first, last) == wanted
