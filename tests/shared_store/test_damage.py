"""Bytes in the store that somebody has changed: nobody passes them over, and nobody else is disturbed."""

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.partitions.errors import storage_error
from broker.process.time_slice import TimeSlice
from broker.shared.bringing import LogSource, tail_of
from broker.shared.reading.ahead import ReadingAhead
from storage.log import LogConfig, LogDamaged
from storage.segments.stamping import stamp
from storage.shared.beside import Beside
from storage.shared.kept_files import KeptFiles
from storage.shared.read_memory import ReadMemory
from storage.shared.shared_log import SharedLog
from storage.shared.store import Incarnation, LogChange, OwnedLog, moved
from tests.shared_store.engines import TOPIC, Engine, Shared, born, object_of
from tests.unit.storage.batches import batch

EPOCH = 5
THREE = (batch(1, 2), batch(3), batch(4, 5))
"""At the offsets 0 to 4, one behind the other."""
FIRST, MIDDLE, LAST = (sum(map(len, THREE[:number])) for number in range(3))
END = sum(map(len, THREE))
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT = 8, 12, 16, 17


def test_no_command_is_named_where_none_helps(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        storage_error(LogDamaged("t-0", None, 3, "a checksum is wrong"))
    (record,) = caplog.records
    assert vars(record)["fields"] == {}


def written(form: str, at: int, value: int) -> Callable[[bytes], bytes]:
    """A number in the place of another."""

    def change(data: bytes) -> bytes:
        made = struct.pack(form, value)
        assert data[at : at + len(made)] != made, "it changes something"
        return data[:at] + made + data[at + len(made) :]

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "the first base is too high": written(">q", FIRST, 77),
    "the first base is one more": written(">q", FIRST, 1),
    "the first base is too low": written(">q", FIRST, -1),
    "the middle base is too high": written(">q", MIDDLE, 77),
    "the middle base is one more": written(">q", MIDDLE, 3),
    "the middle base is that of the first": written(">q", MIDDLE, 0),
    "the last base is too high": written(">q", LAST, 77),
    "the last base is one less": written(">q", LAST, 2),
    "the epoch of the first is later than any": written(">i", FIRST + EPOCH_AT, 1_000),
    "the epoch of the middle is later than any": written(">i", MIDDLE + EPOCH_AT, 1_000),
    "the epoch of the last is later than any": written(">i", LAST + EPOCH_AT, 1_000),
    "the epoch of the last is an earlier one": written(">i", LAST + EPOCH_AT, EPOCH - 1),
    "the middle has another magic": written(">b", MIDDLE + MAGIC_AT, 1),
    "the middle has another checksum": written(">I", MIDDLE + CRC_AT, 7),
    "the middle has no length": written(">i", MIDDLE + LENGTH_AT, 3),
    "the middle has a negative length": written(">i", MIDDLE + LENGTH_AT, -200),
    "the last is longer than the run": written(">i", LAST + LENGTH_AT, 100_000),
    "the first is as long as the run": written(">i", FIRST + LENGTH_AT, END - 12),
    "a byte of a record": written(">b", END - 1, 0x55),
    "the run ends within its last batch": lambda data: data[: END - 1],
    "the run ends with its middle batch": lambda data: data[:LAST],
    "the run ends within a head": lambda data: data[: LAST + 20],
    "nothing is left": lambda data: b"",
    "two batches have changed places": lambda data: THREE[1] + THREE[0] + data[LAST:],
}
ONLY_WITH_CHECKSUMS: dict[str, Callable[[bytes], bytes]] = {
    "all epochs are earlier ones": lambda data: _all(data, ">i", EPOCH_AT, [1, 1, 1]),
    "batches lie otherwise": lambda data: _placed(batch(1), batch(2, 3), batch(4, 5)),
}


def _all(data: bytes, form: str, at: int, values: list[int]) -> bytes:
    for place, value in zip((FIRST, MIDDLE, LAST), values, strict=True):
        data = written(form, place + at, value)(data)
    return data


def _placed(*batches: bytes) -> bytes:
    """What may have been written there as well."""
    pieces, _ = stamp(b"".join(batches), 0, EPOCH)
    return b"".join(pieces)


def _turns() -> TimeSlice:
    return TimeSlice(lambda: 0.0)


class OwnedByOne:
    """A log and the node that leads it, which holds as little of it in memory as it can."""

    def __init__(self, shared: Shared, who: Incarnation, index: int) -> None:
        self._shared, self._who, self._index = shared, who, index

    async def begin(self, first_object: int, *, with_checksums: bool) -> "OwnedByOne":
        """Three batches in one object, one more in another."""
        store, self.object_id = self._shared.store, object_of(self._who, first_object)
        self.owned = await store.claim(self._who, TOPIC, self._index, EPOCH)
        beside = Beside(KeptFiles.from_bytes(self.owned.kept), 0, 0)
        tail = await tail_of(store, self.owned, 0, self.name)
        memory = ReadMemory(1, 1 << 30)
        self.log = SharedLog(self.name, self.owned, beside, tail, LogConfig(), memory=memory, now_ms=lambda: 0)
        self.log.source = LogSource(self.log, ReadingAhead(store, memory, 0, asyncio.ensure_future, _turns))
        for number, data in enumerate((b"".join(THREE), batch(6))):
            self.log.append(data, leader_epoch=EPOCH)
            flush = self.log.begin_flush()
            assert flush is not None
            change = moved(flush.change, 0) if with_checksums else _without_checksums(flush.change)
            assert not await store.commit(self._who, self.object_id + number, flush.batches, [change])
            self.log.finish_flush(flush)
        return self

    @property
    def name(self) -> str:
        return f"t-{self._index}"

    async def read(self, offset: int) -> int:
        """As a fetch does: what a reader would ask for next. Raises `LogDamaged`."""
        if (away := self.log.away(offset)) is not None:
            await away
        return self.log.read_slice(offset, 1 << 20, end_offset=6).next_offset

    async def taken_over(self, who: Incarnation, from_offset: int) -> OwnedLog:
        """By another node, which reads what was written since a checkpoint there. Raises `LogDamaged`."""
        owned = await self._shared.store.claim(who, TOPIC, self._index, None)
        tail = await tail_of(self._shared.store, owned, from_offset, self.name)
        assert [placed.last_offset for placed in tail.placed] == [last for last in (1, 2, 4, 5) if last >= from_offset]
        return owned


def _without_checksums(change: LogChange) -> LogChange:
    """As the version before has committed it."""
    return replace(change, runs=tuple(replace(run, heads_crc=None) for run in change.runs))


async def damaged_everywhere(
    shared: Shared, damages: dict[str, Callable[[bytes], bytes]], *, with_checksums: bool
) -> None:
    """Each damage is that of a log of its own; one log has none."""
    who = await born(shared.store)
    whole = await OwnedByOne(shared, who, 0).begin(1, with_checksums=with_checksums)
    logs = {
        what: await OwnedByOne(shared, who, number).begin(10 * number, with_checksums=with_checksums)
        for number, what in enumerate(damages, 1)
    }
    for what, one in logs.items():
        assert [await one.read(offset) for offset in (0, 2)] == [6, 6], what
        await shared.rewrite(one.object_id, damages[what])
        one.log._here.forget_before(5)
    silent: list[str] = []
    for what, one in logs.items():
        for offset in (0, 1, 2, 3, 4):
            try:
                silent.append(f"{what}: a reader at {offset} is sent to {await one.read(offset)}")
            except LogDamaged as damaged:
                assert f"{one.name} is damaged at offset {offset}: " in str(damaged), what
                assert damaged.next_offset == 5, what
        assert await one.read(5) == 6, what
    other = await shared.store.join(2, b"")
    for what, one in logs.items():
        for offset in (0, 2):
            try:
                await one.taken_over(other, offset)
                silent.append(f"{what}: a takeover from {offset} is given something")
            except LogDamaged:
                pass
        assert await one.taken_over(other, 5), "what lies behind can be read"
    assert silent == []
    assert [await whole.read(offset) for offset in range(6)] == [6] * 6
    assert await whole.taken_over(other, 0)


@pytest.mark.parametrize("with_checksums", [True, False], ids=["with-checksums", "as-before"])
def test_what_is_changed_in_a_run_is_passed_over_by_nobody(engine: Engine, with_checksums: bool) -> None:
    damages = DAMAGES | (ONLY_WITH_CHECKSUMS if with_checksums else {})
    engine.tell(lambda shared: damaged_everywhere(shared, damages, with_checksums=with_checksums))
