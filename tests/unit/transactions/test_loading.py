"""How shards load: a bounded piece of work per turn for all of them together, and nothing twice that is superseded."""

import asyncio
import errno
from typing import Any, cast

import pytest

from broker.config.topic_config import TopicConfig
from broker.coordination.coordinators import Shards
from broker.partitions.shard_log import PartitionShardLog
from broker.process.time_slice import SLICE_S, TimeSlice
from coordinator.loading import READ_BYTES, STEP_RECORDS, Entry, replaying
from coordinator.machine import Marker, Outcome, ProducerStamp, Record, ReplayedRecord
from coordinator.ports import AppendRefused
from protocol.errors import ErrorCode
from protocol.records.batch import headers_in
from protocol.records.record import NewRecord, build_batch
from protocol.schema import Buffer
from storage.log import LogDamaged
from tests.harness.memory_shard_log import MemoryShardLog
from tests.harness.work_clock import STEP_S, WorkClock
from tests.unit.partition.rig import NOW_MS, Rig

SHARDS = 40
BATCHES = 10
RECORDS_IN_A_BATCH = 50


class Machine:
    """Counts its calls in each turn of the loop."""

    turn = 0
    replayed: dict[int, int]
    fails = False

    def knows(self, key: bytes) -> bool:
        return True

    def replay(self, entry: Entry) -> None:
        assert not Machine.fails, "the log contradicts itself"
        Machine.replayed[Machine.turn] = Machine.replayed.get(Machine.turn, 0) + 1

    def loaded(self, now_ms: int) -> None:
        """Nothing begins."""

    def next_deadline_ms(self) -> int | None:
        return None

    def expire(self, now_ms: int) -> Outcome:
        raise AssertionError("it has no deadlines")


class Environment:
    """Time goes on by work."""

    def __init__(self) -> None:
        self._clock = WorkClock()

    def time_slice(self) -> TimeSlice:
        return TimeSlice(self._clock.now)

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


def filled(index: int) -> Any:
    """A partition with records of different keys."""
    rig = Rig()
    for number in range(BATCHES):
        keys = [f"{number}-{one}".encode() for one in range(RECORDS_IN_A_BATCH)]
        rig.partition.append_records(build_batch([NewRecord(key=key, value=b"v") for key in keys]), now_ms=NOW_MS)
    rig.partition.index = index
    return rig.partition


def loading(machine: type[Machine], shards: int) -> Shards[Machine]:
    made: Shards[Machine] = Shards(
        topic="t",
        partition_count=lambda: shards,
        make=lambda index: machine(),
        environment=cast(Any, Environment()),
        exists=lambda: True,
    )
    made.open([filled(index) for index in range(shards)])
    return made


def test_all_shards_share_one_slice_of_each_turn() -> None:
    """However many there are: a request waits for one slice, and not for one of each."""
    Machine.replayed = {}

    async def story() -> None:
        shards = loading(Machine, SHARDS)
        while not shards.all_loaded:
            Machine.turn += 1
            await asyncio.sleep(0)

    asyncio.run(story())
    assert sum(Machine.replayed.values()) == SHARDS * BATCHES * RECORDS_IN_A_BATCH
    assert max(Machine.replayed.values()) <= SLICE_S / STEP_S * STEP_RECORDS * 2
    assert len(Machine.replayed) > SHARDS


def test_a_log_that_contradicts_itself_keeps_no_other_shard_closed() -> None:
    class Fragile(Machine):
        made = 0

        def __init__(self) -> None:
            Fragile.made += 1
            self.number = Fragile.made

        def knows(self, key: bytes) -> bool:
            return True

        def replay(self, entry: Entry) -> None:
            assert self.number != 2, "the log contradicts itself"

    async def story() -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        shards = loading(Fragile, 3)
        with pytest.raises(AssertionError):
            await asyncio.wait_for(shards.wait_until_loaded(), 20)
        for index in (0, 2):
            await shards.wait_until_ready(index)
        assert reported == ["a coordinator could not be loaded"]

    asyncio.run(story())


def test_a_disk_that_fails_while_a_shard_loads_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    """It is named in one line, without a traceback, and the others are loaded."""

    class Unreadable(Machine):
        made = 0

        def __init__(self) -> None:
            Unreadable.made += 1
            self.number = Unreadable.made

        def knows(self, key: bytes) -> bool:
            return True

        def replay(self, entry: Entry) -> None:
            if self.number == 2:
                raise OSError(errno.EIO, "Input/output error")

    async def story() -> None:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        shards = loading(Unreadable, 3)
        with pytest.raises(OSError, match="Input/output"):
            await asyncio.wait_for(shards.wait_until_loaded(), 20)
        for index in (0, 2):
            await shards.wait_until_ready(index)
        assert reported == []

    asyncio.run(story())
    (said,) = caplog.records
    assert (said.message, said.exc_info) == ("a log cannot be read; nothing in it is served", None)


def keys_replayed(log: MemoryShardLog, max_bytes: int, *, compacted: bool) -> list[tuple[bytes, int]]:
    seen: list[tuple[bytes, int]] = []

    def replay(entry: Entry) -> None:
        assert isinstance(entry, ReplayedRecord)
        seen.append((entry.key, entry.offset))

    for _ in replaying(log, replay, max_bytes=max_bytes, compacted=compacted):
        pass
    return seen


def test_what_a_later_record_supersedes_is_not_replayed() -> None:
    """As compaction may have removed it; but nothing of a transaction, whose marker decides, and nothing in a log that
    is not compacted by key."""
    log = MemoryShardLog()
    stamp = ProducerStamp(5, 0)
    for keys, of in (("ab", None), ("a", stamp), ("ca", None)):
        log.append([Record(key.encode(), b"v") for key in keys], stamp=of, now_ms=1)
    everything = [(b"a", 0), (b"b", 1), (b"a", 2), (b"c", 3), (b"a", 4)]
    assert keys_replayed(log, 1 << 20, compacted=True) == everything[1:]
    assert keys_replayed(log, 1 << 20, compacted=False) == everything
    assert keys_replayed(log, 1, compacted=True) == everything, "only what was read together is known to be superseded"


def test_reads_are_small_and_supersede_each_other() -> None:
    """A read with its look at the checksums cannot be interrupted: 1 MB of small commits took 26 ms. What is held in
    memory is more than one read, so that as many records are passed over as before."""

    class Watched(MemoryShardLog):
        def read(self, offset: int, max_bytes: int) -> list[Buffer]:
            sizes.append(max_bytes)
            return super().read(offset, max_bytes)

    sizes: list[int] = []
    log = Watched()
    for value in (b"1", b"2", b"3"):
        log.append([Record(b"a", value * (READ_BYTES - 1000))], stamp=None, now_ms=1)
    assert keys_replayed(log, 1 << 20, compacted=True) == [(b"a", 2)]
    assert len(sizes) == 3
    assert max(sizes) <= READ_BYTES


def test_a_window_takes_no_more_than_it_may() -> None:
    log = MemoryShardLog()
    for value in (b"1", b"2", b"3"):
        log.append([Record(b"a", value * 1000)], stamp=None, now_ms=1)
    assert keys_replayed(log, 1500, compacted=True) == [(b"a", 1), (b"a", 2)]


@pytest.mark.parametrize("length", [-1, 0, 10])
def test_a_batch_of_no_length_is_damage_and_not_the_end_of_the_log(length: int) -> None:
    """What follows would not be replayed, and a coordinator would answer without it."""
    rig = Rig()
    for value in (b"a", b"b"):
        rig.produce(build_batch([NewRecord(value, b"k", NOW_MS)]))
    log = PartitionShardLog(rig.partition)
    [data] = [bytearray(b"".join(log.read(0, 1 << 20)))]
    second = len(data) // 2
    data[second + 8 : second + 12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(LogDamaged) as caught:
        log._check(data, 0)
    assert (caught.value.offset, str(caught.value).startswith("t-0/")) == (1, True)


def test_what_a_partition_refuses_the_shard_is_told_of() -> None:
    rig = Rig(config=TopicConfig(max_message_bytes=150))
    log = PartitionShardLog(rig.partition)
    rig.end(5, 3, commit=True)
    for refused, error in (
        (lambda: log.append([Record(b"k", bytes(200))], stamp=None, now_ms=NOW_MS), ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: log.append_marker(Marker(5, 2, True, 0, 2), now_ms=NOW_MS), ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(AppendRefused) as caught:
            refused()
        assert (caught.value.error, log.end_offset) == (error, 1)
    assert log.append([Record(b"k", b"v")], stamp=ProducerStamp(5, 4), now_ms=NOW_MS) == 1
    assert rig.partition.derived.producers.has_open_transaction(5, 4), "offsets of a transaction are in one"
    assert log.append([Record(b"k", b"v")], stamp=ProducerStamp(5, 4), now_ms=NOW_MS) == 2
    headers = [header for data in log.read(1, 1 << 20) for _, header in headers_in(data)]
    said = [(one.producer_id, one.producer_epoch, one.base_sequence, one.is_transactional) for one in headers]
    assert said == [(5, 4, 0, True)] * 2, "each begins at 0, as Kafka's do"
