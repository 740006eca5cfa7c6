"""A transactional producer at the level of requests, for tests: nothing is hidden, everything may be overridden.

It speaks both protocols of transactions:
    TV2 (KIP-890): partitions join by Produce >= 12, offsets by TxnOffsetCommit >= 5, EndTxn >= 5 hands out a new epoch;
    TV0: AddPartitionsToTxn and AddOffsetsToTxn come first, versions stay below, the epoch stays the same.

Producer id, epoch and sequences are plain attributes, and each request takes others on demand, so that a test can be
a zombie, repeat itself or leave a gap. With `check=False` an error code comes back in the response instead of raised.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.messages.group_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.messages.produce import PartitionProduceResponse
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from protocol.records.record import NewRecord, build_batch
from tallystick.client.client import GROUP, TRANSACTION, Client
from tallystick.client.connection import Connection
from tallystick.client.errors import check as check_code

Partition = tuple[str, int]

HIGHEST: dict[int, dict[type, int]] = {
    2: {},
    0: {TxnOffsetCommitRequest: 4, EndTxnRequest: 4, AddPartitionsToTxnRequest: 3},
}
"""Versions above which a client of a transaction version does not go. AddPartitionsToTxn 4 and 5 are for brokers."""
_PRODUCE = {2: None, 0: 11}


class TransactionalProducer:
    """See the head of this file. Call `init` first; then `begin`, `produce`, `send_offsets`, `commit` or `abort`."""

    def __init__(
        self, client: Client, transactional_id: str, *, transaction_version: int = 2, timeout_ms: int = 60_000
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.transaction_version = transaction_version
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[Partition, int] = {}
        """The next sequence of each partition."""
        self.added: set[Partition] = set()
        """What this transaction has added at the coordinator (TV0)."""
        self.versions: dict[type, int] = {**HIGHEST[transaction_version]}
        """Version caps by request class; for tests that want a particular one."""
        self.produce_version = _PRODUCE[transaction_version]

    def version_of(self, connection: Connection, request: type) -> int:
        """The version to use: the highest common one, or the cap."""
        highest = connection.version_for(request)
        return min(highest, self.versions.get(request, highest))

    async def _ask_coordinator(self, request: object) -> Any:
        connection = await self.client.coordinator(self.transactional_id, TRANSACTION)
        return await connection.ask(request, self.version_of(connection, type(request)))

    # The life of a transaction.

    async def init(
        self, *, producer_id: int = -1, producer_epoch: int = -1, check: bool = True, patient: bool = True
    ) -> InitProducerIdResponse:
        """Get a producer id and epoch, fence their last owner. With an id and epoch: bump that epoch (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

        async def attempt() -> InitProducerIdResponse:
            answer: InitProducerIdResponse = await self._ask_coordinator(request)
            if check:
                check_code(answer.error_code)
            return answer

        answer = await (self.client.patiently(attempt) if patient else attempt())
        if not answer.error_code:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
            self.added.clear()
        return answer

    def begin(self) -> None:
        """Start a transaction: a matter of this side alone."""
        self.added.clear()

    async def add_partitions(
        self, partitions: Sequence[Partition], *, check: bool = True
    ) -> AddPartitionsToTxnResponse:
        """Add partitions to the transaction at the coordinator (TV0)."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=p) for name, p in by_topic.items()],
        )

        async def attempt() -> AddPartitionsToTxnResponse:
            answer: AddPartitionsToTxnResponse = await self._ask_coordinator(request)
            if check:
                for topic in answer.results_by_topic_v3_and_below:
                    for result in topic.results_by_partition:
                        check_code(result.partition_error_code, f"{topic.name}-{result.partition_index}")
            return answer

        answer = await self.client.patiently(attempt)
        for added in answer.results_by_topic_v3_and_below:
            good = [result for result in added.results_by_partition if not result.partition_error_code]
            self.added.update((added.name, result.partition_index) for result in good)
        return answer

    async def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[NewRecord | bytes],
        *,
        sequence: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        version: int | None = None,
        add: bool = True,
        compression: int = 0,
        check: bool = True,
    ) -> PartitionProduceResponse:
        """Write one batch in the transaction. TV0 adds the partition first, unless `add` is off."""
        where = (topic, partition)
        if add and self.transaction_version < 2 and where not in self.added:
            await self.add_partitions([where], check=check)
        base_sequence = self.sequences.get(where, 0) if sequence is None else sequence
        now_ms = int(time.time() * 1000)
        batch = build_batch(
            [r if isinstance(r, NewRecord) else NewRecord(value=r, timestamp_ms=now_ms) for r in records],
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
            base_sequence=base_sequence,
            transactional=True,
            compression=compression,
        )

        async def attempt() -> PartitionProduceResponse:
            leader = await self.client.leader(topic, partition)
            chosen = min(leader.versions[0][-1], self.produce_version or 13) if version is None else version
            answer = await self.client.produce(
                topic, partition, batch, transactional_id=self.transactional_id, version=chosen
            )
            if check:
                check_code(answer.error_code, answer.error_message)
            return answer

        answer = await (self.client.patiently(attempt) if check else attempt())
        if not answer.error_code and sequence is None:
            self.sequences[where] = (base_sequence + len(records)) & 0x7FFFFFFF
        return answer

    async def add_offsets(self, group: str, *, check: bool = True) -> AddOffsetsToTxnResponse:
        """Add the offsets of a group to the transaction at the coordinator (TV0)."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
        )

        async def attempt() -> AddOffsetsToTxnResponse:
            answer: AddOffsetsToTxnResponse = await self._ask_coordinator(request)
            if check:
                check_code(answer.error_code)
            return answer

        return await self.client.patiently(attempt)

    async def send_offsets(
        self,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        add: bool = True,
        check: bool = True,
    ) -> TxnOffsetCommitResponse:
        """Commit offsets in the transaction. TV0 adds the group first, unless `add` is off."""
        if add and self.transaction_version < 2:
            await self.add_offsets(group, check=check)
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=""
                )
            )
        topics = []
        connection = await self.client.coordinator(group, GROUP)
        version = self.version_of(connection, TxnOffsetCommitRequest)
        for name, partitions in by_topic.items():
            topic_id = (await self.client.topic(name)).topic_id if version >= 6 else bytes(16)
            topics.append(TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions))
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=group_instance_id,
            topics=topics,
        )

        async def attempt() -> TxnOffsetCommitResponse:
            answer: TxnOffsetCommitResponse = await connection.ask(request, version)
            if check:
                for topic in answer.topics:
                    for result in topic.partitions:
                        check_code(result.error_code, f"{topic.name}-{result.partition_index}")
            return answer

        return await (self.client.patiently(attempt) if check else attempt())

    async def commit(self, *, check: bool = True) -> EndTxnResponse:
        """End the transaction for good."""
        return await self.end(committed=True, check=check)

    async def abort(self, *, check: bool = True) -> EndTxnResponse:
        """End the transaction as if it had not been."""
        return await self.end(committed=False, check=check)

    async def end(
        self,
        *,
        committed: bool,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        check: bool = True,
    ) -> EndTxnResponse:
        """EndTxn. From version 5 on the answer brings the next epoch, and sequences begin anew."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
            committed=committed,
        )

        async def attempt() -> EndTxnResponse:
            answer: EndTxnResponse = await self._ask_coordinator(request)
            if check:
                check_code(answer.error_code)
            return answer

        answer = await (self.client.patiently(attempt) if check else attempt())
        if not answer.error_code and answer.producer_epoch >= 0:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        self.added.clear()
        return answer
