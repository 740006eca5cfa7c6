"""A compacted partition of thousands of small segments, with aborted transactions in all of them."""

import asyncio

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig
from storage.cleaner.compaction import MERGED_AT_ONCE
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.disk import SimulatedDisk
from tests.much.place import Place, told
from tests.unit.partition.rig import NOW_MS, Rig, in_transaction, plain

SEGMENTS = 5_000
FOLDER = "compacted-0"


def _compacted() -> CreatableTopic:
    policy = CreatableTopicConfig(name="cleanup.policy", value="compact")
    return CreatableTopic(name="compacted", num_partitions=1, replication_factor=1, assignments=[], configs=[policy])


def _written(disk: SimulatedDisk) -> int:
    """An aborted transaction in each segment; where the log ends."""
    log = SegmentLog.open(disk, FOLDER, LogConfig(), now_ms=lambda: NOW_MS, recovery=Recovery())
    rig = Rig(log=log)
    for number in range(SEGMENTS):
        rig.transact(in_transaction(8, 0, number))
        rig.end(8, 0, commit=False, version=0)
        log.roll()
    rig.produce(plain(b"the active segment", key=b"last"))
    rig.flush()
    rig.partition.close()
    return rig.partition.end_offset


def _segments(disk: SimulatedDisk) -> int:
    return sum(name.endswith(".log") for name in disk.list(FOLDER))


def test_a_log_of_thousands_of_segments_becomes_one_of_few() -> None:
    async def story(place: Place) -> None:
        await place.make(_compacted())
        with place.uncounted():
            place.broker.kill()
            end_offset = _written(place.broker.disk)
            assert _segments(place.broker.disk) == SEGMENTS + 1
        await place.restart()
        while _segments(place.broker.disk) > SEGMENTS // MERGED_AT_ONCE + 2:
            await asyncio.sleep(1)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=0, isolation_level=1, topics=[FetchTopic(topic="compacted", partitions=[wanted])]
        )
        (answer,) = (await place.ask(fetch, 11)).responses[0].partitions
        assert (answer.error_code, answer.last_stable_offset) == (0, end_offset)
        assert [one.producer_id for one in answer.aborted_transactions] == [8] * SEGMENTS

    assert told(story, **{"log.cleaner.backoff.ms": "1000", "log.cleaner.min.cleanable.ratio": "0"}) == []
