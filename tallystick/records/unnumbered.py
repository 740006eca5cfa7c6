"""Batches into partitions without sequences: acks 0, which nobody answers, and 1. What was not answered is not sent
again, since it might then stand there twice; it ends the sending.
"""

from collections.abc import Iterable

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import read_header
from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.client.lease import Partition
from tallystick.client.sender import Totals

_TIMEOUT_MS = 30_000


class UnnumberedSender:
    """`offer`, then `flush`, as a `Sender`."""

    def __init__(self, client: Client, *, acks: int) -> None:
        assert acks in (0, 1)
        self.totals: dict[Partition, Totals] = {}
        self._client = client
        self._acks = acks

    async def offer(self, batches: Iterable[tuple[Partition, bytearray]]) -> None:
        """Send each and, with acks 1, wait for its answer. Raises `KafkaError`."""
        for where, batch in batches:
            if self._acks:
                answer = await self._client.in_time(self._client.produce(*where, batch, acks=self._acks))
                check(answer.error_code, answer.error_message or f"{where[0]}-{where[1]}")
            else:
                await self._tell(where, batch)
            totals = self.totals.setdefault(where, Totals())
            totals.records += read_header(batch).records_count
            totals.size_bytes += len(batch)
            totals.batches += 1

    async def _tell(self, where: Partition, batch: bytearray) -> None:
        topic, partition = where
        leader = await self._client.leader(*where)
        topic_id = (await self._client.topic(topic)).topic_id
        data = [PartitionProduceData(index=partition, records=batch)]
        leader.tell(
            ProduceRequest(
                transactional_id=None,
                acks=0,
                timeout_ms=_TIMEOUT_MS,
                topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)],
            )
        )

    async def flush(self) -> None:
        """Wait until all that was written has left: a question that is answered comes behind it."""
        for where in self.totals if not self._acks else ():
            leader = await self._client.leader(*where)
            await self._client.in_time(leader.negotiate())

    async def close(self) -> None:
        """Nothing is under way."""
