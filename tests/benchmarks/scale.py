"""`python -m tests.benchmarks.scale`: what a request costs a broker that has much of something.

Processor time of the broker's process for one request, its threads included, where there are few and where there are
many partitions. It ought to be the same, or to grow with what is sent. Clients here speak the protocol themselves:
librdkafka has no fetch sessions (KIP-227).

--tree OTHER   the broker of another work tree     --times 100   requests of each kind
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tallystick.client.connection import Connection
from tests.benchmarks.pairs import Broker, batch_of

COUNTS = (10, 100, 1000, 5000)
PRODUCE, FETCH, METADATA = 11, 12, 12
BATCH = batch_of(100)


class Load:
    """One topic, a connection that writes to its first partition and one that reads all of them in a session."""

    def __init__(self, broker: Broker, writer: Connection, reader: Connection, partitions: int) -> None:
        self._broker, self._writer, self._reader = broker, writer, reader
        self._partitions = partitions
        self._topic = f"of-{partitions}"
        self._offset = self._session = self._epoch = 0

    async def begin(self) -> None:
        topic = CreatableTopic(
            name=self._topic, num_partitions=self._partitions, replication_factor=1, assignments=[], configs=[]
        )
        answer = await self._writer.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert not answer.topics[0].error_code, answer
        for _ in range(2):  # one that tells of all of them, one that finds nothing more to tell
            await self.fetch(range(self._partitions) if not self._epoch else (), wait_ms=0)

    async def fetch(self, named: range | tuple[int, ...], wait_ms: int) -> int:
        partitions = [
            FetchPartition(partition=index, fetch_offset=0 if index else self._offset, partition_max_bytes=1 << 20)
            for index in named
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=self._session,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic=self._topic, partitions=partitions)] if partitions else [],
        )
        answer = await self._reader.ask(request, FETCH)
        assert not answer.error_code
        self._session, self._epoch = answer.session_id, self._epoch + 1
        return sum(len(partition.records) for topic in answer.responses for partition in topic.partitions)

    async def one_record(self) -> None:
        """Written while its reader waits."""
        read = asyncio.ensure_future(self.fetch((0,), wait_ms=5000))
        await asyncio.sleep(0)
        data = TopicProduceData(
            name=self._topic, partition_data=[PartitionProduceData(index=0, records=memoryview(BATCH))]
        )
        answer = await self._writer.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), PRODUCE)
        assert not answer.responses[0].partition_responses[0].error_code
        assert await read == len(BATCH)
        self._offset += 1

    async def looked_up(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        answer = await self._writer.ask(request, METADATA)
        assert len(answer.topics[0].partitions) == self._partitions

    async def measured(self, times: int) -> tuple[float, float]:
        """Microseconds of the broker: a record through a session, a Metadata."""
        await self.begin()
        taken = []
        for load in (self.one_record, self.looked_up):
            await load()
            before = self._broker.cpu_ns()
            for _ in range(times):
                await load()
            taken.append((self._broker.cpu_ns() - before) / times / 1000)
        return taken[0], taken[1]


async def run(broker: Broker, times: int) -> None:
    writer, reader = [await Connection.connect("127.0.0.1", broker.port) for _ in range(2)]
    print(f"{'partitions':>10}  {'a record, written and read in a session, µs':>45}  {'Metadata, µs':>14}")
    for count in COUNTS:
        record, metadata = await Load(broker, writer, reader, count).measured(times)
        print(f"{count:10}  {record:45.0f}  {metadata:14.0f}", flush=True)
    await writer.close()
    await reader.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--times", type=int, default=100)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), chosen.tree, {}, "page-cache").start()
        try:
            asyncio.run(run(broker, chosen.times))
        finally:
            broker.close()


if __name__ == "__main__":
    main()
