"""Fetches of many partitions of one leader at a time, without a session."""

from collections.abc import Mapping

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tallystick.client.client import Client
from tallystick.client.connection import Connection
from tallystick.client.errors import check

Place = tuple[str, int]


async def fetch_many(
    client: Client,
    leader: Connection,
    offsets: Mapping[Place, int],
    *,
    read_committed: bool,
    max_wait_ms: int,
    max_bytes: int = 16 << 20,
    partition_max_bytes: int = 1 << 20,
) -> dict[Place, PartitionData]:
    """What each of some partitions has from an offset on. Those in front are served first, and one batch at least of
    the first that has one. Error codes of partitions are the caller's to look at."""
    topics: dict[str, FetchTopic] = {}
    ids: dict[bytes, str] = {}
    for (name, number), offset in offsets.items():
        if name not in topics:
            topic_id = (await client.topic(name)).topic_id
            topics[name], ids[topic_id] = FetchTopic(topic=name, topic_id=topic_id, partitions=[]), name
        topics[name].partitions.append(
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        )
    answer: FetchResponse = await leader.ask(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            topics=list(topics.values()),
        )
    )
    check(answer.error_code)
    return {
        (topic.topic or ids[topic.topic_id], one.partition_index): one
        for topic in answer.responses
        for one in topic.partitions
    }
