"""`python -m tests.benchmarks.pairs OTHER`: what a request costs this tree's broker and that of another work tree.

OTHER is the folder of a work tree with its own `.venv` (`make install`). Both brokers run side by side and get requests
in turns; what counts is the processor time of each broker's process, threads included, per request, and the median of
the ratios of each pair. That is steady where times are not, on a machine that does other things.

--rounds 5   pairs of each row     --requests 2000   in a round     --rows "1 KB;fetch"   only rows with these words
--acls       this tree's broker has an authorizer and ten thousand ACLs; with OTHER this tree, too: what they cost
--pure       OTHER's broker runs the sources; with OTHER this tree, where it is a compiled one: what that gains
--starts     starts of both instead: processor time and time until one serves, and its memory at rest
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from protocol.records import compression
from protocol.records.record import NewRecord, build_batch
from tallystick.client.connection import Connection
from tallystick.process import PACKAGES, BrokerProcess
from tests.benchmarks import acls

PRODUCE, PRODUCE_IN_TRANSACTION, FETCH = 11, 12, 12
STAMP_MS = 1_700_000_000_000
TRANSACTION = 1
WRITTEN_MB = 8


class Broker(BrokerProcess):
    """The broker of one work tree, with that tree's interpreter."""

    def __init__(
        self, folder: Path, tree: Path, settings: Mapping[str, str], durability: str, *, pure: bool = False
    ) -> None:
        chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        super().__init__(folder, options=["--durability", durability, *chosen], start_seconds=120)
        self.tree = tree
        self.environment = {"PYTHONPATH": str(tree), "TALLYSTICK_PURE": "1" if pure else "0"}

    def _command(self, ready: Path) -> list[str]:
        # Without -P the folder we are in, which is always this tree, would come first.
        return [str(self.tree / ".venv/bin/python"), "-P", *super()._command(ready)[1:]]

    def cpu_ns(self) -> int:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


class Topic:
    """A fresh topic of one partition, and a connection to write and read it by."""

    connection: Connection

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = f"pairs-{uuid.uuid4().hex[:8]}"

    async def open(self) -> "Topic":
        self.connection = await Connection.connect("127.0.0.1", self.broker.port)
        topic = CreatableTopic(name=self.name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        await self.connection.ask(CreateTopicsRequest(topics=[topic]), 7)
        await self.connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.name)]), 12)
        return self

    async def produce(self, batch: bytes, acks: int = -1, transactional_id: str | None = None) -> None:
        data = TopicProduceData(
            name=self.name, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))]
        )
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=[data])
        version = PRODUCE if transactional_id is None else PRODUCE_IN_TRANSACTION
        error = ErrorCode.CONCURRENT_TRANSACTIONS
        while error == ErrorCode.CONCURRENT_TRANSACTIONS:  # the one before is not complete
            answer = await self.connection.ask(request, version)
            error = answer.responses[0].partition_responses[0].error_code
        assert not error, answer

    async def fetch(self, offset: int, size: int) -> None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
        topics = [FetchTopic(topic=self.name, partitions=[partition])]
        answer = await self.connection.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), FETCH)
        assert len(answer.responses[0].partitions[0].records) > 0


def batch_of(size: int, *, count: int = 1, codec: int = compression.NONE) -> bytes:
    value = bytes(range(256)) * (size // 256) + bytes(size % 256)
    return build_batch([NewRecord(value=value, timestamp_ms=STAMP_MS)] * count, compression=codec)


Load = Callable[[Broker, int], Awaitable[float]]
"""Sends so many requests; returns nanoseconds of the broker for one."""


def producing(batch: bytes, acks: int) -> Load:
    async def load(broker: Broker, requests: int) -> float:
        topic = await Topic(broker).open()
        await topic.produce(batch, acks)
        before = broker.cpu_ns()
        for _ in range(requests):
            await topic.produce(batch, acks)
        taken = broker.cpu_ns() - before
        await topic.connection.close()
        return taken / requests

    return load


def fetching(size: int) -> Load:
    """One batch for each request: with larger answers it is the kernel that is measured."""

    async def load(broker: Broker, requests: int) -> float:
        topic = await Topic(broker).open()
        count = max(1, WRITTEN_MB * 1_000_000 // size // 10)
        for _ in range(count):
            await topic.produce(batch_of(size))
        before = broker.cpu_ns()
        for number in range(requests):
            await topic.fetch(number % count, size)
        taken = broker.cpu_ns() - before
        await topic.connection.close()
        return taken / requests

    return load


def transacting(producers: int) -> Load:
    """A transaction of transaction version 2: one small produce and EndTxn."""

    async def load(broker: Broker, requests: int) -> float:
        each = max(1, requests // 4 // producers)
        stories = [Writer(await Topic(broker).open()) for _ in range(producers)]
        for story in stories:
            await story.begin()
            await story.transaction()
        before = broker.cpu_ns()
        await asyncio.gather(*[story.transactions(each) for story in stories])
        taken = broker.cpu_ns() - before
        for story in stories:
            await story.topic.connection.close()
        return taken / (each * producers)

    return load


class Writer:
    """A transactional producer."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.id = topic.name
        self.producer_id = self.epoch = -1

    async def begin(self) -> None:
        ask = self.topic.connection.ask
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.id])
        while (await ask(find, 4)).coordinators[0].error_code:
            await asyncio.sleep(0.1)
        while (
            claimed := await ask(InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000), 4)
        ).error_code:
            await asyncio.sleep(0.1)
        self.producer_id, self.epoch = claimed.producer_id, claimed.producer_epoch

    async def transactions(self, count: int) -> None:
        for _ in range(count):
            await self.transaction()

    async def transaction(self) -> None:
        record = NewRecord(value=b"x" * 100, timestamp_ms=STAMP_MS)
        batch = build_batch(
            [record],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        await self.topic.produce(batch, -1, self.id)
        end = EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=True
        )
        ended = await self.topic.connection.ask(end, 5)
        assert ended.error_code == 0, ended
        self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch


PAGE_CACHE, DURABLE = "page-cache", "fsync"
ROWS: dict[str, tuple[str, Load]] = {
    "produce, 100 B, acks=1": (PAGE_CACHE, producing(batch_of(100), 1)),
    "produce, 100 B, acks=all": (PAGE_CACHE, producing(batch_of(100), -1)),
    "produce, 10 KB, acks=all": (PAGE_CACHE, producing(batch_of(10_000), -1)),
    "produce, 10 x 1 KB, acks=all": (PAGE_CACHE, producing(batch_of(1000, count=10), -1)),
    "produce, 10 x 1 KB, lz4": (PAGE_CACHE, producing(batch_of(1000, count=10, codec=compression.LZ4), -1)),
    "produce, 10 x 1 KB, zstd": (PAGE_CACHE, producing(batch_of(1000, count=10, codec=compression.ZSTD), -1)),
    "fetch, 1 KB": (PAGE_CACHE, fetching(1000)),
    "fetch, 10 KB": (PAGE_CACHE, fetching(10_000)),
    "transaction, 1 producer": (PAGE_CACHE, transacting(1)),
    "transaction, 8 producers": (PAGE_CACHE, transacting(8)),
    "produce, 100 B, acks=all, durable": (DURABLE, producing(batch_of(100), -1)),
    "transaction, 1 producer, durable": (DURABLE, transacting(1)),
    "transaction, 8 producers, durable": (DURABLE, transacting(8)),
}


async def measure(pairs: dict[str, list[Broker]], rows: list[str], rounds: int, requests: int) -> None:
    for row in rows:
        mode, load = ROWS[row]
        taken: list[list[float]] = []
        for number in range(-1, rounds):
            order = pairs[mode] if number % 2 else pairs[mode][::-1]
            of_broker = {broker: await load(broker, requests // (4 if number < 0 else 1)) for broker in order}
            if number >= 0:
                taken.append([of_broker[broker] / 1000 for broker in pairs[mode]])
        _show(row, taken, "us ")


def measure_starts(pair: list[Broker], rounds: int) -> None:
    """Starts in turns, each on a folder that the broker knows."""
    figures: dict[str, list[list[float]]] = {"start, processor ms": [], "start, ms": [], "at rest, MB": []}
    for number in range(-1, rounds):
        taken: dict[Broker, tuple[float, float, float]] = {}
        for broker in pair if number % 2 else pair[::-1]:
            began = time.perf_counter()
            broker.start()
            took_s = time.perf_counter() - began
            resident = Path(f"/proc/{broker.pid}/statm").read_text().split()[1]
            taken[broker] = broker.cpu_ns() / 1e6, 1000 * took_s, int(resident) * os.sysconf("SC_PAGE_SIZE") / 1e6
            broker.stop(seconds=60)
        if number >= 0:
            for at, of_row in enumerate(figures.values()):
                of_row.append([taken[broker][at] for broker in pair])
    for row, found in figures.items():
        _show(row, found)


def _show(row: str, taken: list[list[float]], unit: str = "") -> None:
    ours, theirs = (statistics.median(side) for side in zip(*taken, strict=True))
    ratios = sorted(here / there for here, there in taken)
    print(
        f"{row:36} {unit}here {ours:7.1f}  there {theirs:7.1f}  "
        f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pairs", description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rows", default="")
    parser.add_argument("--acls", action="store_true")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--starts", action="store_true")
    chosen = parser.parse_args()
    rows = [row for row in ROWS if any(part in row for part in chosen.rows.split(";"))]
    with tempfile.TemporaryDirectory(prefix="tallystick-pairs-") as folder:
        sides = [(PACKAGES, acls.SWITCHED_ON if chosen.acls else {}), (chosen.other.resolve(), {})]
        modes = sorted({ROWS[row][0] for row in rows})
        pairs = {
            mode: [
                Broker(Path(folder, mode, str(at)), *side_of, mode, pure=chosen.pure and at == 1)
                for at, side_of in enumerate(sides)
            ]
            for mode in modes
        }
        brokers = [broker for pair in pairs.values() for broker in pair]
        try:
            if chosen.starts:
                measure_starts(pairs[PAGE_CACHE], chosen.rounds)
                return 0
            for broker in brokers:
                broker.start()
            if chosen.acls:
                for with_acls, _ in pairs.values():
                    asyncio.run(acls.grant(with_acls.port))
            asyncio.run(measure(pairs, rows, chosen.rounds, chosen.requests))
        finally:
            for broker in brokers:
                broker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
