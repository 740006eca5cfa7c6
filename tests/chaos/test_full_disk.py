"""A disk that fills up under load: the broker stops, loses nothing it acknowledged, and goes on once there is room.

A real file system, small and in memory, where this user may mount one. (Chaos runs make the
fault point `log.before-append` say ENOSPC, which needs no file system.)
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tests.chaos.forked_broker import ForkedBroker
from tests.chaos.look import look, verdict
from tests.chaos.story import Story
from tests.chaos.test_fault_points import SETTINGS, prepare
from tests.harness.small_disk import small_disk
from tests.simulation.history import History

SIZE_BYTES = 4 << 20
FILLER = "filler"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE_BYTES) as folder:
        yield folder


async def fill(broker: ForkedBroker) -> None:
    """Write until the broker says that it cannot, or is gone."""
    client = await Client.connect(broker.bootstrap)
    try:
        await client.create_topic(FILLER)
        batch = build_batch([NewRecord(value=bytes(200_000), timestamp_ms=1)])
        while not (error := (await client.produce(FILLER, 0, batch)).error_code):
            pass
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
    finally:
        await client.close()


async def last_look(broker: ForkedBroker, history: History) -> list[str]:
    client = await Client.connect(broker.bootstrap)
    try:
        await look(client, history, [("t", 0), ("t", 1)], ["g"])
    finally:
        await client.close()
    return verdict(history)


def run_story(broker: ForkedBroker, room: Path) -> None:
    """A transaction is open while the disk fills up; its client ends it when there is room again."""
    history = History()
    committed = Story(history, "before", transaction_version=2, comes_back=True)
    story = Story(history, "open", transaction_version=2, comes_back=True, offset=2)
    broker.start()
    asyncio.run(prepare(broker))
    assert asyncio.run(committed.run(broker.bootstrap))
    assert asyncio.run(story.run(broker.bootstrap, until=3))
    with contextlib.suppress(ConnectionLost, ConnectionError):
        asyncio.run(fill(broker))
    assert broker.wait_until_dead() == 1, "a full disk ends the process"
    assert "No space left on device" in broker.log_end()
    room.unlink()
    assert broker.start(), broker.log_end()
    assert asyncio.run(story.run(broker.bootstrap))
    assert asyncio.run(last_look(broker, history)) == []
    assert committed.is_visible and story.is_visible


def test_a_disk_that_is_full(disk: Path, tmp_path: Path) -> None:
    """Nothing acknowledged is lost, nothing is torn, the next start serves (KAFKA_STORAGE_ERROR meanwhile)."""
    room = disk / "room"
    room.write_bytes(bytes(SIZE_BYTES // 4))
    broker = ForkedBroker(tmp_path, SETTINGS)
    broker.data = disk / "data"
    try:
        run_story(broker, room)
    finally:
        broker.kill()
