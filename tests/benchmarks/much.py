"""What a request costs a broker that has much of something, beside one that has little of it.

Processor time of the broker's process for one request, its threads included, in page-cache mode: of a small produce and
a fetch beside many partitions, producers, groups, connections, fetch sessions and a long log, and of what is done to
many partitions at once, for each of them. It ought to be the same, or 1.5 times as much at most. Clients here speak the
protocol themselves: no library has so many producers.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
)
from protocol.records.record import NewRecord, build_batch
from tallystick.client.connection import Connection
from tallystick.process import PACKAGES
from tests.benchmarks.footprint import Note
from tests.benchmarks.pairs import STAMP_MS, Broker, Topic, Writer, batch_of
from tests.benchmarks.rows import much_title
from tests.benchmarks.targets import PAGE_CACHE

TIMES, AT_ONCE = 400, 200
AT_A_TIME = 5_000
"""Partitions: one request makes fewer than ten thousand, as with Kafka."""
LARGE = 1_000_000
QUIET_LOOKS = 5
ALL = {"tallystick.producer.ids.max": "2000000", "max.connections": "20000"}
Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Much:
    """`grow(scene, count)` makes it so many; `works` are then measured. Where `each`, a work is for so many, and its
    cost is that of one."""

    of: str
    few: int
    many: int
    grow: Callable[["Scene", int], Awaitable[None]]
    works: Callable[["Scene", int], dict[str, Work]]
    each: bool = False


class Scene:
    """A broker, a topic that is written to and read, and what else there is."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.has = 0
        self.connections: list[Connection] = []

    async def begin(self) -> "Scene":
        self.topic = await Topic(self.broker).open()
        for _ in range(20):
            await self.topic.produce(batch_of(1000))
        return self

    async def many(self, requests: Iterator[Awaitable[object]]) -> None:
        """Some at a time."""
        while some := list(islice(requests, AT_ONCE)):
            await asyncio.gather(*some)

    async def connect(self) -> Connection:
        self.connections.append(await Connection.connect("127.0.0.1", self.broker.port))
        return self.connections[-1]

    async def completed(self, transactional_id: str) -> None:
        """Until the transaction before is: to be refused meanwhile costs as much as to be let in."""
        request, states = DescribeTransactionsRequest(transactional_ids=[transactional_id]), ("Empty", "Complete")
        while True:
            answer = await self.topic.connection.ask(request, 0)
            if answer.transaction_states[0].transaction_state.startswith(states):
                return
            await asyncio.sleep(0.02)

    async def rest(self) -> None:
        """Until what making it so many has left behind is done (a snapshot of the producers, checkpoints)."""
        quiet = 0
        while quiet < QUIET_LOOKS:
            before = self.broker.cpu_ns()
            await asyncio.sleep(0.2)
            quiet = quiet + 1 if self.broker.cpu_ns() - before < 4_000_000 else 0

    async def end(self) -> None:
        for connection in (*self.connections, self.topic.connection):
            await connection.close()

    async def cost(self, work: Work, times: int) -> float:
        """Microseconds of the broker for one: the median of five parts."""
        await work()
        parts = []
        for _ in range(5):
            before = self.broker.cpu_ns()
            for _ in range(max(1, times // 5)):
                await work()
            parts.append((self.broker.cpu_ns() - before) / max(1, times // 5) / 1000)
        return statistics.median(parts)


def usual(scene: Scene, _: int) -> dict[str, Work]:
    """What every client does."""
    batch = batch_of(100)
    return {"produce, 100 B": lambda: scene.topic.produce(batch), "fetch, 1 KB": lambda: scene.topic.fetch(3, 1000)}


# -- partitions, connections, sessions ---------------------------------------------------------------------------


async def more_partitions(scene: Scene, count: int) -> None:
    for number in range(scene.has, count, AT_A_TIME):
        await made(scene, f"from-{number}", min(AT_A_TIME, count - number))
    scene.has = count


async def made(scene: Scene, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    answer = await scene.topic.connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=120_000), 7)
    assert not answer.topics[0].error_code, answer


async def more_connections(scene: Scene, count: int) -> None:
    while len(scene.connections) < count:
        await asyncio.gather(*[scene.connect() for _ in range(min(AT_ONCE, count - len(scene.connections)))])


async def more_sessions(scene: Scene, count: int) -> None:
    for _ in range(count - scene.has):
        await session_of(scene)
    scene.has = count


async def session_of(scene: Scene) -> tuple[int, int]:
    """(its id, the next epoch)"""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic=scene.topic.name, partitions=[partition])]
    answer = await scene.topic.connection.ask(
        FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics), 12
    )
    assert answer.session_id
    return answer.session_id, 1


# -- producers, groups, a long log -------------------------------------------------------------------------------


async def more_producers(scene: Scene, count: int) -> None:
    ask, name = scene.topic.connection.ask, scene.topic.name
    numbers = range(1_000_000 + scene.has, 1_000_000 + count)
    await scene.many(ask(_of_producer(name, number), 9) for number in numbers)
    scene.has = count


def _of_producer(name: str, producer_id: int, sequence: int = 0) -> ProduceRequest:
    record = NewRecord(value=b"x", timestamp_ms=STAMP_MS)
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


def of_a_producer(scene: Scene, count: int) -> dict[str, Work]:
    sequences = iter(range(1 << 30))

    async def produce() -> None:
        request = _of_producer(scene.topic.name, 10 * LARGE + count, next(sequences))
        answer = await scene.topic.connection.ask(request, 9)
        assert not answer.responses[0].partition_responses[0].error_code

    return {"produce, idempotent": produce}


async def more_groups(scene: Scene, count: int) -> None:
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["first"])
    while (await scene.topic.connection.ask(find, 4)).coordinators[0].error_code:
        await asyncio.sleep(0.1)
    await committed(scene, "first", 0)
    await scene.many(committed(scene, f"group-{number}", 1) for number in range(scene.has, count))
    scene.has = count


async def committed(scene: Scene, group: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name=scene.topic.name, partitions=[partition])]
    error = 14
    while error in (14, 16):  # the coordinator is still being made
        answer = await scene.topic.connection.ask(OffsetCommitRequest(group_id=group, member_id="", topics=topics), 8)
        error = answer.topics[0].partitions[0].error_code
    assert not error


def of_a_group(scene: Scene, _: int) -> dict[str, Work]:
    return {"commit an offset": lambda: committed(scene, "first", 7)}


async def longer_log(scene: Scene, megabytes: int) -> None:
    batch = batch_of(LARGE // 2)
    await scene.many(scene.topic.produce(batch, 1) for _ in range(2 * (megabytes - scene.has)))
    scene.has = megabytes


def of_a_log(scene: Scene, _: int) -> dict[str, Work]:
    when = ListOffsetsPartition(partition_index=0, timestamp=STAMP_MS)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=scene.topic.name, partitions=[when])])
    return usual(scene, 0) | {"look up a time": lambda: scene.topic.connection.ask(request, 7)}


# -- what is done to many partitions at once ---------------------------------------------------------------------


async def nothing(_: Scene, __: int) -> None:
    """The work itself is large."""


def of_topics(scene: Scene, count: int) -> dict[str, Work]:
    numbers = iter(range(1 << 30))

    async def make_and_delete() -> None:
        await made(scene, name := f"made-{count}-{next(numbers)}", count)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=120_000)
        answer = await scene.topic.connection.ask(request, 6)
        assert not answer.responses[0].error_code

    return {"make and delete a topic, for each partition": make_and_delete}


async def a_topic_of(scene: Scene, count: int) -> None:
    await made(scene, f"in-transactions-{count}", count)


def of_transactions(scene: Scene, count: int) -> dict[str, Work]:
    writer = Writer(scene.topic)

    async def transaction() -> None:
        ask = scene.topic.connection.ask
        if writer.producer_id < 0:
            writer.id = f"tx-{count}"
            await writer.begin()
        topics = [AddPartitionsToTxnTopic(name=f"in-transactions-{count}", partitions=list(range(count)))]
        await scene.completed(writer.id)
        error = 14
        while error == 14:  # logs are being opened
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=writer.id,
                v3_and_below_producer_id=writer.producer_id,
                v3_and_below_producer_epoch=writer.epoch,
                v3_and_below_topics=topics,
            )
            answer = await ask(request, 3)
            error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        assert not error
        end = EndTxnRequest(
            transactional_id=writer.id, producer_id=writer.producer_id, producer_epoch=writer.epoch, committed=True
        )
        assert not (await ask(end, 3)).error_code

    return {"a transaction, for each partition": transaction}


MUCH = (
    Much("many partitions", 10, 10_000, more_partitions, usual),
    Much("many connections", 10, 5_000, more_connections, usual),
    Much("many fetch sessions", 10, 900, more_sessions, usual),
    Much("many producers", 1_000, 1_000_000, more_producers, of_a_producer),
    Much("many groups", 100, 50_000, more_groups, of_a_group),
    Much("a long log", 10, 20_000, longer_log, of_a_log),
    Much("many at once", 100, AT_A_TIME, nothing, of_topics, each=True),
    Much("many at once", 100, AT_A_TIME, a_topic_of, of_transactions, each=True),
)


def much(scale: float, folder: Path, note: Note) -> None:
    """Each in a broker of its own; `scale` makes what there is much of less."""
    for number, one in enumerate(MUCH):
        broker = Broker(folder / f"much-{number}", PACKAGES, ALL, "page-cache").start()
        try:
            asyncio.run(_measure(broker, one, max(one.few, int(one.many * scale)), note))
        finally:
            broker.close()


async def _measure(broker: Broker, one: Much, many: int, note: Note) -> None:
    scene = await Scene(broker).begin()
    taken: dict[str, list[float]] = {}
    for count in (one.few, many):
        await one.grow(scene, count)
        await scene.rest()
        for name, work in one.works(scene, count).items():
            times = max(5, TIMES // count) if one.each else TIMES
            cost = await scene.cost(work, times)
            taken.setdefault(name, []).append(cost / count if one.each else cost)
    for name, (few, much) in taken.items():
        figures = {f"µs, {one.few:,}".replace(",", " "): few, f"µs, {many:,}".replace(",", " "): much}
        note(much_title(name, one.of), PAGE_CACHE, figures | {"of what few cost": much / few})
    await scene.end()
