"""Batches into partitions under a lease: in order, each exactly once, with bounded memory.

Batches wait in one queue per partition. A round takes the first of every queue and sends them, one Produce per
leader; the next round begins when all of them are answered. So there is never more than one batch of a partition on
its way, and a batch that was not answered is sent again with the same sequence: the broker knows it by that (KIP-98).

Sequences begin at 0 with the lease. Two senders may share a lease only if they never write to the same partition: the
broker would take the second one's batches for repetitions of the first one's and drop them without a word.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batch import read_header, seal
from tallystick.client.client import Client
from tallystick.client.connection import Connection
from tallystick.client.errors import KafkaError
from tallystick.client.lease import Lease, NotYet, Partition, add_partitions, judge, persistently

_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qhi")
"""Producer id, epoch and base sequence in a batch header."""
_OLD_PRODUCE = 11
"""The highest Produce before partitions joined a transaction by being written to."""


@dataclass(slots=True)
class Totals:
    """What a sender has had acknowledged."""

    records: int = 0
    size_bytes: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True)
class Queued:
    """A batch that waits for its acknowledgement."""

    where: Partition
    batch: bytearray
    records: int


class Sender:
    """See the head of this file. For one event loop; `offer`, then `flush`."""

    def __init__(
        self, client: Client, lease: Lease, *, patience_s: float, room_bytes: int = 32 << 20, timeout_ms: int = 30_000
    ) -> None:
        self.client = client
        self.lease = lease
        self.totals: dict[Partition, Totals] = {}
        self._patience_s = patience_s
        self._room_bytes = room_bytes
        self._timeout_ms = timeout_ms
        self._queues: dict[Partition, deque[Queued]] = {}
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition] = set()
        self._waiting_bytes = 0
        self._moved = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def offer(self, batches: Iterable[tuple[Partition, bytearray]]) -> None:
        """Queue sealed or unsealed batches (producer, sequence and checksum are written here), and wait until there is
        room for more. Raises what stopped the sender, if something did.
        """
        for where, batch in batches:
            queued = Queued(where, batch, read_header(batch).last_offset_delta + 1)
            self._number(queued)
            self._queues.setdefault(where, deque()).append(queued)
            self._waiting_bytes += len(batch)
        if self._pump is None or (self._pump.done() and self._pump.exception() is None):
            self._pump = asyncio.create_task(self._send_all())
        while self._waiting_bytes > self._room_bytes and not self._pump.done():
            self._moved.clear()
            await self._moved.wait()
        if self._pump.done():
            self._pump.result()

    def _number(self, queued: Queued) -> None:
        """Give a batch the next sequence of its partition."""
        sequence = self._sequences.get(queued.where, 0)
        self._stamp(queued, sequence)
        self._sequences[queued.where] = (sequence + queued.records) & 0x7FFFFFFF

    def _stamp(self, queued: Queued, sequence: int) -> None:
        """Write producer, sequence and checksum into a batch."""
        _PRODUCER.pack_into(queued.batch, _PRODUCER_AT, self.lease.producer_id, self.lease.producer_epoch, sequence)
        seal(queued.batch)

    async def flush(self) -> None:
        """Wait until everything offered is acknowledged. Raises what stopped the sender."""
        if self._pump is not None:
            await asyncio.shield(self._pump)

    async def close(self) -> None:
        """Stop sending. What is on its way may still arrive; the transaction decides what becomes of it."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._waiting_bytes:
                heads = [queue[0] for queue in self._queues.values() if queue]
                if not self.lease.implicit:
                    await self._add(heads)
                await self._round(heads)
                self._moved.set()
        finally:
            self._moved.set()

    async def _add(self, heads: Sequence[Queued]) -> None:
        new = [queued.where for queued in heads if queued.where not in self._added]
        if new:
            await add_partitions(self.client, self.lease, new, patience_s=self._patience_s)
            self._added.update(new)

    async def _round(self, heads: Sequence[Queued]) -> None:
        """Send one batch to each of some partitions, until all are acknowledged."""
        left = {queued.where: queued for queued in heads}

        async def attempt() -> None:
            by_leader: dict[Connection, list[Queued]] = {}
            for queued in left.values():
                by_leader.setdefault(await self._leader(queued.where), []).append(queued)
            sent = [self._produce(leader, group) for leader, group in by_leader.items()]
            passing: NotYet | None = None
            for outcome in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(outcome, NotYet):
                    passing = outcome
                elif isinstance(outcome, BaseException):
                    raise outcome
            if passing is not None:
                raise passing

        async def produce_what_is_left() -> None:
            try:
                await attempt()
            finally:
                for where in [where for where, queued in left.items() if not self._is_head(queued)]:
                    del left[where]

        await persistently(self.client, produce_what_is_left, patience_s=self._patience_s)

    def _is_head(self, queued: Queued) -> bool:
        queue = self._queues[queued.where]
        return bool(queue) and queue[0] is queued

    async def _leader(self, where: Partition) -> Connection:
        try:
            return await self.client.leader(*where)
        except KafkaError as error:
            judge(error.code, str(error))
            raise

    async def _produce(self, leader: Connection, group: Sequence[Queued]) -> None:
        """One request. What was acknowledged leaves its queue; then raises the worst of what was not."""
        by_topic: dict[str, list[PartitionProduceData]] = {}
        ids: dict[bytes, str] = {}
        for queued in group:
            topic, partition = queued.where
            by_topic.setdefault(topic, []).append(PartitionProduceData(index=partition, records=queued.batch))
        topic_data = []
        for name, partitions in by_topic.items():
            topic_id = (await self.client.topic(name)).topic_id
            ids[topic_id] = name
            topic_data.append(TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions))
        highest = leader.version_for(ProduceRequest)
        answer: ProduceResponse = await leader.ask(
            ProduceRequest(
                transactional_id=self.lease.transactional_id or None,  # none: idempotent, in no transaction
                acks=-1,
                timeout_ms=self._timeout_ms,
                topic_data=topic_data,
            ),
            highest if self.lease.implicit else min(_OLD_PRODUCE, highest),
        )
        errors: list[tuple[int, str]] = []
        for topic_answer in answer.responses:
            name = topic_answer.name or ids[topic_answer.topic_id]
            for found in topic_answer.partition_responses:
                if found.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._acknowledged((name, found.index))
                else:
                    errors.append(
                        (found.error_code, ": ".join(filter(None, (f"{name}-{found.index}", found.error_message))))
                    )
        self._raise_worst(errors)

    @staticmethod
    def _raise_worst(errors: Sequence[tuple[int, str]]) -> None:
        """An error that does not pass goes before one that does."""
        passing: NotYet | None = None
        for code, message in errors:
            try:
                judge(code, message)
            except NotYet as not_yet:
                passing = not_yet
        if passing is not None:
            raise passing

    def _acknowledged(self, where: Partition) -> None:
        queued = self._queues[where].popleft()
        self._waiting_bytes -= len(queued.batch)
        totals = self.totals.setdefault(where, Totals())
        totals.records += queued.records
        totals.size_bytes += len(queued.batch)
        totals.batches += 1
