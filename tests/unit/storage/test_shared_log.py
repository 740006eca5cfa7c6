"""SharedLog is MemoryLog, whatever is done to both: appends, commits, trims, rolls, ends of the node, and reads of what
is no longer in memory.
"""

from collections.abc import Awaitable, Coroutine, Generator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.shared.bringing import tail_of
from protocol.records.batch import CorruptRecords
from protocol.schema import Buffer
from storage.log import LogConfig, LogDamaged, OffsetOutOfRange
from storage.memory_log import MemoryLog
from storage.producers.producer_state import ProducerState
from storage.segments.stamping import Placed
from storage.shared.beside import Beside
from storage.shared.checked_run import heads_crc
from storage.shared.kept_files import KeptFiles, KeptUnreadable
from storage.shared.memory_store import StoreInMemory
from storage.shared.parts import Part, due_parts, from_bytes, to_bytes
from storage.shared.read_memory import ReadMemory
from storage.shared.replacement import Replacement, runs_of
from storage.shared.shared_log import SharedLog
from storage.shared.store import Run, moved
from storage.steps import Steps
from storage.stretch import Stretch, stretch_of
from tests.unit.storage.batches import batch

T = TypeVar("T")
TOPIC = bytes(16)
CONFIG = LogConfig(segment_bytes=600, segment_ms=500)
FIRST_EPOCH = 1_000
"""Of an owner: no test writes under a later one than it has."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing, as those of the model."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


def finish_all(steps: Steps[T]) -> T:
    """Steps to their end, with what is awaited in between."""
    while True:
        try:
            step = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if callable(step):
            step()
        elif step is not None:
            assert list(step.__await__()) == []


class Arrived:
    """What has come already."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class Owner:
    """A node that owns one log in a store, and commits when it is told to."""

    def __init__(self, store: StoreInMemory, memory_bytes: int = 1 << 20) -> None:
        self.store = store
        self.who = at_once(store.join(1, b""))
        self.commits = 0
        owned = at_once(store.claim(self.who, TOPIC, 0, self.who.number * FIRST_EPOCH))
        beside = Beside(KeptFiles.from_bytes(owned.kept), owned.first_offset, 0)
        tail = at_once(tail_of(store, owned, beside.needed_from, "t-0"))
        self.memory = ReadMemory(memory_bytes, 1 << 30)
        self.log = SharedLog("t-0", owned, beside, tail, CONFIG, memory=self.memory, now_ms=lambda: 0)
        self.log.source = self

    def bring(self, offset: int) -> Awaitable[None]:
        owned = at_once(self.store.claim(self.who, TOPIC, 0, self.log.owned.owner_epoch))
        found: Stretch | LogDamaged
        try:
            found = at_once(tail_of(self.store, owned, offset, "t-0", enough_bytes=1))
        except LogDamaged as damaged:
            found = damaged
        self.log.arrived(offset, found)
        return Arrived()

    def forget_before(self, offset: int) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""

    def put(self, replacement: Replacement) -> Awaitable[None]:
        self.log.put(replacement)
        self.commit()
        return Arrived()

    def commit(self, *, closing: bool = False) -> None:
        flush = self.log.begin_flush(closing=closing)
        if flush is not None:
            self.commits += 1
            change = moved(flush.change, 0)
            refused = at_once(
                self.store.commit(self.who, self.who.number << 32 | self.commits, flush.batches, [change])
            )
            assert refused == frozenset()
            self.log.finish_flush(flush)


def batches() -> st.SearchStrategy[bytes]:
    one = st.builds(
        lambda timestamps, size: batch(*timestamps, value=b"v" * size),
        st.lists(st.integers(0, 1_000), min_size=1, max_size=4),
        st.integers(0, 120),
    )
    return st.lists(one, min_size=1, max_size=4).map(b"".join)


class TwoLogs(RuleBasedStateMachine):
    """Every step is done to both, every answer compared."""

    def __init__(self) -> None:
        super().__init__()
        self.store = StoreInMemory(lambda: 0)
        self.memory = MemoryLog(CONFIG)
        self.owner = Owner(self.store)
        self.epoch = 0

    @property
    def shared(self) -> SharedLog:
        return self.owner.log

    @rule(data=batches(), bump=st.booleans())
    def append(self, data: bytes, bump: bool) -> None:
        self.epoch += bump
        assert self.shared.append(data, leader_epoch=self.epoch) == self.memory.append(data, leader_epoch=self.epoch)

    @rule()
    def commit(self) -> None:
        self.owner.commit()
        assert self.shared.durable_offset == self.memory.flush_now()

    @rule()
    def roll(self) -> None:
        self.shared.roll()

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        start, end = self.memory.start_offset, self.memory.durable_offset
        if start < end:
            offset = start + int(share * (end - start))
            self.shared.trim(offset)
            self.memory.trim(offset)

    @rule()
    def write_anew(self) -> None:
        """A part in one run, as compaction does it where runs are many."""
        self.commit()
        compactor = self.shared.compactor(_NoProducers(), report=lambda _: None)
        for part in self.shared.parts[:-1]:
            part.runs = 1_000
        planned = finish_all(compactor.due(self.shared.durable_offset, 0, lambda: False))
        if planned is not None:
            finish_all(compactor.run(planned, 0))
            assert self.shared.parts[0].runs < 1_000

    @rule(how=st.sampled_from(["closed", "killed"]), memory_bytes=st.sampled_from([1, 500, 1 << 20]))
    def end(self, how: str, memory_bytes: int) -> None:
        if how == "closed":
            self.owner.commit(closing=True)
            self.memory.flush_now()
        else:
            self.memory.truncate(self.memory.durable_offset)
        start = at_once(self.store.claim(self.owner.who, TOPIC, 0, self.shared.owned.owner_epoch)).start_offset
        if start < self.memory.start_offset:  # a start that was not committed goes back
            self.trim_back(start)
        self.shared.abandon()
        assert self.owner.memory.pending_bytes == 0
        self.owner = Owner(self.store, memory_bytes)

    def trim_back(self, start: int) -> None:
        self.memory.start_offset = start
        self.memory._epochs = MemoryLog(CONFIG)._epochs
        for header, _ in self.memory.replay(0):
            self.memory._epochs.assign(header.leader_epoch, header.base_offset)
        self.memory._epochs.truncate_start(start)

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 2_000), bound=st.floats(0, 1), at_least_one=st.booleans())
    def read(self, share: float, max_bytes: int, bound: float, at_least_one: bool) -> None:
        offset, end_offset = int(share * (self.memory.end_offset + 1)), int(bound * (self.memory.end_offset + 1))
        bounds = {"end_offset": end_offset, "at_least_one": at_least_one}
        try:
            expected = self.memory.read(offset, max_bytes, **bounds)
        except OffsetOutOfRange:
            with pytest.raises(OffsetOutOfRange):
                self.shared.read(offset, max_bytes, **bounds)
            return
        found = self._read_on(offset, max_bytes, bounds, len(expected))
        assert found == expected

    def _read_on(self, offset: int, max_bytes: int, bounds: dict[str, Any], count: int) -> list[Buffer]:
        """A read ends where what is in memory ends: as a reader goes on, until it has as much."""
        found: list[Buffer] = []
        while True:
            if (away := self.shared.away(offset)) is not None:
                assert list(away.__await__()) == []
            left = max_bytes - sum(map(len, found))
            more = self.shared.read_slice(
                offset, left, **{**bounds, "at_least_one": bounds["at_least_one"] and not found}
            )
            found += more.batches
            if not more.batches or len(found) >= count:
                return found
            offset = more.next_offset

    @rule(timestamp_ms=st.integers(-1, 1_001), bound=st.floats(0, 1))
    def look_up_a_time(self, timestamp_ms: int, bound: float) -> None:
        end_offset = int(bound * (self.memory.end_offset + 1))
        assert finish_all(self.shared.offset_for_timestamp(timestamp_ms, end_offset=end_offset)) == finish_all(
            self.memory.offset_for_timestamp(timestamp_ms, end_offset=end_offset)
        )
        assert finish_all(self.shared.max_timestamp()) == finish_all(self.memory.max_timestamp())

    @invariant()
    def they_agree(self) -> None:
        shared, memory = self.shared, self.memory
        assert (shared.start_offset, shared.end_offset) == (memory.start_offset, memory.end_offset)
        assert shared.durable_offset == memory.durable_offset
        assert shared.latest_epoch() == memory.latest_epoch()
        for epoch in range(self.epoch + 2):
            assert shared.epoch_end(epoch) == memory.epoch_end(epoch)


class _NoProducers:
    """What follows from a log without producers."""

    def __init__(self) -> None:
        self.aborted = MemoryLog().aborted_index()
        self.producers = ProducerState(0)

    def compaction_begins(self, end_offset: int) -> Steps[None]:
        yield from ()

    def segments_compacted(self, bases: Sequence[int], index: Any) -> Steps[None]:
        yield from ()


TestTwoLogs = TwoLogs.TestCase
TwoLogs.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_files_beside_a_log_come_back_as_they_were_or_not_at_all() -> None:
    files = KeptFiles()
    files.write_whole("log/a", b"one", b"two")
    files.open("log/b", create=True).append([b"x", b"y"])
    files.write_whole("log/ä", b"")
    data = files.to_bytes()
    again = KeptFiles.from_bytes(data)
    assert again.list("log") == ["a", "b", "ä"]
    assert again.open("log/a").read(0, 100) == b"onetwo"
    assert again.open("log/b").read(1, 1) == b"y"
    assert KeptFiles.from_bytes(b"").list("log") == []
    for cut in range(1, len(data)):
        with pytest.raises(KeptUnreadable):
            KeptFiles.from_bytes(data[:cut])
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(KeptUnreadable):
            KeptFiles.from_bytes(bytes(changed))


def test_what_was_written_beside_another_moment_is_refused() -> None:
    kept = KeptFiles()
    kept.write_whole("log/parts", to_bytes([Part(5)], 9))
    with pytest.raises(ValueError, match="not of one commit"):
        Beside(kept, 4, 0)
    with pytest.raises(ValueError, match="not the parts of a log"):
        from_bytes(b"0\n9\n2\n5 0 0 -1 0 0 -1\n")


def test_runs_end_where_they_are_large_and_where_something_else_begins() -> None:
    placed = [Placed(2, 3, 400_000, 5), Placed(6, 6, 400_000, 9), Placed(7, 9, 400_000, 1), Placed(12, 12, 10, 2)]
    batches = [bytes([number]) * 30 for number in range(4)]
    first, second = heads_crc(batches[:2]), heads_crc(batches[2:])
    assert runs_of(0, 20, batches, placed) == (
        Run(0, 6, 0, 800_000, 9, first),
        Run(7, 19, 800_000, 400_010, 2, second),
    )
    assert [run.base_offset for run in runs_of(0, 20, batches, placed, [6, 12])] == [0, 4, 10]
    assert runs_of(0, 4, batches[:1], placed[:1]) == (Run(0, 3, 0, 400_000, 5, heads_crc([batches[0][:21]])),)


@pytest.mark.parametrize(
    ("config", "due"),
    [
        (LogConfig(retention_ms=50), 1),
        (LogConfig(retention_ms=5), 3),
        (LogConfig(retention_ms=-1, retention_bytes=150), 1),
        (LogConfig(retention_ms=-1, retention_bytes=0), 3),
        (LogConfig(retention_ms=-1), 0),
        (LogConfig(retention_ms=5, cleanup_delete=False), 0),
    ],
)
def test_parts_have_their_time_as_segments_do(config: LogConfig, due: int) -> None:
    parts = [Part(0, 100, 1, 40), Part(10, 100, 1, 60), Part(20, 100, 1, 80)]
    offsets = {"start_offset": 0, "end_offset": 30}
    assert due_parts(parts, config, 100, **offsets, high_watermark=30) == due
    assert due_parts(parts, config, 100, **offsets, high_watermark=19) == min(due, 1)
    assert due_parts([*parts, Part(30)], config, 100, start_offset=20, end_offset=30, high_watermark=30) == max(due, 2)


def test_what_is_damaged_in_the_store_is_no_batch() -> None:
    data = batch(1, value=b"v" * 50)
    with pytest.raises(CorruptRecords):
        stretch_of([data[:-1] + b"w"])


def test_a_log_that_waits_for_too_much_takes_no_writes() -> None:
    owner = Owner(StoreInMemory(lambda: 0))
    owner.memory._pending_limit_bytes = 100
    assert owner.log.takes_writes
    owner.log.append(batch(1, value=b"v" * 100), leader_epoch=0)
    assert not owner.log.takes_writes
    owner.commit()
    assert owner.log.takes_writes
    assert owner.memory.pending_bytes == 0


def test_a_part_is_over_after_so_many_runs() -> None:
    """However small they are: whoever opens the log has to bring each."""
    owner = Owner(StoreInMemory(lambda: 0))
    owner.log._part_runs = 3
    for _ in range(8):
        owner.log.append(batch(1), leader_epoch=0)
        owner.commit()
    assert owner.log.segment_bases() == [0, 3, 6]


def test_a_replay_of_what_is_not_in_memory_is_refused() -> None:
    store = StoreInMemory(lambda: 0)
    owner = Owner(store, memory_bytes=1)
    for _ in range(3):
        owner.log.append(batch(1), leader_epoch=0)
        owner.commit()
    assert list(owner.log.replay(2))
    with pytest.raises(LogDamaged):
        owner.log.replay(0)


def test_what_was_committed_after_a_look_is_not_of_it() -> None:
    """Who follows a log would take it twice: with this look, and with the next one."""
    store = StoreInMemory(lambda: 0)
    owner = Owner(store)
    for count in (2, 1):
        owner.log.append(batch(*range(count)), leader_epoch=0)
        owner.commit()
    found = at_once(store.look(owner.who, TOPIC, 0, with_kept=True))
    assert found is not None and found.log.next_offset == 3
    owner.log.append(batch(1), leader_epoch=0)
    owner.commit()
    tail = at_once(tail_of(store, found.log, 0, "t-0"))
    assert [placed.last_offset for placed in tail.placed] == [1, 2]
