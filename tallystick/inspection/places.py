"""Partitions of a cluster: which there are, who leads them, where they begin and end. One request a leader."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tallystick.client.client import EARLIEST, LATEST, Client
from tallystick.client.connection import Connection
from tallystick.client.errors import KafkaError, check

Place = tuple[str, int]
"""Topic, partition."""
Failed = dict[Place, KafkaError]
"""Partitions that nothing is known of, and why: one that is offline must not hide what is to be said of all others."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Offsets of one partition."""

    start: int
    last_stable_offset: int
    """Up to here readers of committed records may read."""
    high_watermark: int


async def places(client: Client, topics: Sequence[str] | None = None, partition: int | None = None) -> list[Place]:
    """The partitions of some topics, or of all that are not internal; in order. Raises `KafkaError` where there is no
    such topic or partition."""
    answer = await client.metadata(topics)
    found = []
    for topic in answer.topics:
        check(topic.error_code, topic.name)
        assert topic.name is not None, "asked by name"
        if topics is None and topic.is_internal:
            continue
        numbers = [one.partition_index for one in topic.partitions]
        if partition is not None and partition not in numbers:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{partition}")
        found += [(topic.name, number) for number in numbers if partition in (None, number)]
    return sorted(found)


async def existing(client: Client, wanted: Collection[Place]) -> list[Place]:
    """Those of some partitions that this cluster has."""
    topics = sorted({topic for topic, _ in wanted})
    answer = await client.metadata(topics) if topics else None
    sizes = {one.name: len(one.partitions) for one in answer.topics if not one.error_code} if answer else {}
    return [place for place in wanted if place[1] < sizes.get(place[0], 0)]


def settle(place: Place, code: int, message: str | None, failed: Failed | None) -> bool:
    """Whether a partition was answered for. An error is noted for its partition or, where nobody notes, raised."""
    if code == ErrorCode.NONE:
        return True
    error = KafkaError(code, message or f"{place[0]}-{place[1]}")
    if failed is None:
        raise error
    failed[place] = error
    return False


async def by_leader(
    client: Client, wanted: Iterable[Place], failed: Failed | None = None
) -> AsyncIterator[tuple[Connection, list[Place]]]:
    """The partitions that each node leads. One without a leader is a failed one."""
    led: dict[int, tuple[Connection, list[Place]]] = {}
    for place in wanted:
        try:
            leader = await client.leader(*place)
        except KafkaError as error:
            settle(place, error.code, None, failed)
            continue
        led.setdefault(id(leader), (leader, []))[1].append(place)
    for leader, its in led.values():
        yield leader, its


async def ends_of(client: Client, wanted: Collection[Place], failed: Failed | None = None) -> dict[Place, Ends]:
    """Where partitions begin and end. The last stable offset is asked for first: it is never beyond the end."""
    stable = await offsets_at(client, wanted, LATEST, failed, read_committed=True)
    high = await offsets_at(client, stable, LATEST, failed)
    start = await offsets_at(client, high, EARLIEST, failed)
    return {place: Ends(start[place], stable[place], high[place]) for place in start}


async def offsets_at(
    client: Client,
    wanted: Collection[Place],
    timestamp: int,
    failed: Failed | None = None,
    *,
    read_committed: bool = False,
) -> dict[Place, int]:
    """The offset for a timestamp, `EARLIEST` or `LATEST`, in each partition; -1 where nothing is as young. Waits for
    leaders that have just begun or moved."""

    async def attempt(failed: Failed | None) -> dict[Place, int]:
        found: dict[Place, int] = {}
        async for leader, its in by_leader(client, wanted, failed):
            answer: ListOffsetsResponse = await leader.ask(_list_offsets(its, timestamp, read_committed=read_committed))
            for topic in answer.topics:
                for one in topic.partitions:
                    place = topic.name, one.partition_index
                    if settle(place, one.error_code, None, failed):
                        found[place] = one.offset
        return found

    try:
        return await client.patiently(lambda: attempt(None))
    except KafkaError:
        if failed is None:
            raise
        return await attempt(failed)


def _list_offsets(wanted: Iterable[Place], timestamp: int, *, read_committed: bool) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=of, timestamp=timestamp) for of in numbers],
            )
            for name, numbers in by_topic(wanted).items()
        ],
        timeout_ms=30_000,
    )


def by_topic(wanted: Iterable[Place]) -> dict[str, list[int]]:
    """Topic -> partitions, as requests name them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in wanted:
        topics.setdefault(topic, []).append(partition)
    return topics
