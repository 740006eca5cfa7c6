"""When a marker counts as written: I04 for partitions, I42 for groups."""

import asyncio
from types import SimpleNamespace
from typing import Any

from broker.coordination.marker_writer import LocalMarkerWriter
from broker.process.time_slice import TimeSlice
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS
from tests.harness.simulated_files import SimulatedFiles
from tests.harness.turns import CallsPerTurn
from tests.harness.work_clock import WorkClock
from tests.unit.groups.story import Story
from tests.unit.partition.rig import NOW_MS, in_transaction, on_disk

TOPIC_ID = bytes(range(16))
MANY = 2_000


def writer_to(
    name: str, *, partition: Any = None, shard: Any = None, clock: WorkClock | None = None
) -> LocalMarkerWriter:
    """A node with one topic, as far as a marker sees it."""
    topic = SimpleNamespace(name=name, topic_id=TOPIC_ID, partitions=SimpleNamespace(is_closed=lambda _: False))
    topics = SimpleNamespace(by_id=lambda _: topic, by_name=lambda _: topic, partition_by_id=lambda *_: partition)
    parts: dict[str, Any] = {
        "topics": topics,
        "environment": SimpleNamespace(
            wall_ms=lambda: NOW_MS, time_slice=lambda: TimeSlice((clock or WorkClock()).now)
        ),
        "groups": SimpleNamespace(shard=lambda _: shard, publish=lambda _: None),
    }
    return LocalMarkerWriter(**parts, publish=lambda _: None)


def test_a_marker_counts_as_written_when_it_is_durable() -> None:
    """I04: COMPLETE follows on this word; a power cut must not leave COMPLETE without its marker."""
    rig = on_disk(SimulatedFiles())
    rig.transact(in_transaction(7, 0, 0))
    rig.flush()

    async def story() -> None:
        said: list[ErrorCode] = []
        writer_to("t", partition=rig.partition).write("t", 0, TOPIC_ID, Marker(7, 1, True, 1, 2), said.append)
        assert rig.partition.end_offset == 2
        assert said == []
        rig.flush()
        assert said == [ErrorCode.NONE]

    asyncio.run(story())


def test_thousands_of_markers_of_one_sync_are_told_of_in_many_turns() -> None:
    """To each of them a COMPLETE is written: together that would be a turn of a tenth of a second."""
    rig = on_disk(SimulatedFiles())
    for producer in range(MANY):
        rig.transact(in_transaction(producer, 0, 0))
    rig.flush()

    async def story() -> None:
        clock = WorkClock()
        writer = writer_to("t", partition=rig.partition, clock=clock)
        told = CallsPerTurn(lambda _: clock.now())
        for producer in range(MANY):
            writer.write("t", 0, TOPIC_ID, Marker(producer, 1, True, 1, 2), told)
        rig.flush()
        assert 0 < told.total < MANY, "the first of them at once, for the next sync to take their COMPLETEs along"
        while told.total < MANY:
            await asyncio.sleep(0)
        assert told.most <= 100

    asyncio.run(story())


def test_a_group_marker_counts_once_its_offsets_are_durable() -> None:
    """I42, KAFKA-17507: the next transaction may begin on this word, and must find nothing of the last one staged."""

    async def told() -> None:
        story = Story(durable=False)
        story.submit_commit(5, producer=4)
        story.log.sync()
        said: list[ErrorCode] = []
        writer_to(CONSUMER_OFFSETS, shard=story.shard).write(
            CONSUMER_OFFSETS, 0, TOPIC_ID, Marker(4, 1, True, 1, 2), said.append
        )
        assert said == []
        story.log.sync()
        assert said == [ErrorCode.NONE]
        assert not story.shard.machine.ledger.offsets.staged

    asyncio.run(told())
