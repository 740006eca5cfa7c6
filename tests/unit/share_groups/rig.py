"""A node in memory whose share partitions are kept in memory too, and members of a share group that talk to it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from broker.api.context import ConnectionInfo, RequestContext
from broker.api.handlers.share.acknowledge import share_acknowledge
from broker.api.handlers.share.fetch import share_fetch
from broker.api.services import Services
from broker.api.share_sessions import ShareSession, ShareSessions
from broker.config.listeners import Endpoint
from broker.partitions.partition import Partition
from broker.partitions.share.settings import ShareGroupSettings, StartAt
from broker.partitions.share.share_partitions import SharePartitions
from coordinator.share_state.port import PartitionState, StateBatch
from protocol.errors import ErrorCode
from protocol.messages.share import acknowledge as said
from protocol.messages.share import fetch as asked
from protocol.records.record import NewRecord, build_batch
from tests.unit.transactions.node_rig import in_a_node, partitions_of

GROUP = "g"
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
Key = tuple[str, bytes, int]


class MemoryPersister:
    """Keeps what share partitions are. Writes wait for `may_write`; `refusals` are what the next ones are answered."""

    def __init__(self) -> None:
        self.kept: dict[Key, dict[int, tuple[int, int]]] = {}
        self.starts: dict[Key, int] = {}
        self.epoch = 0
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.refusals: list[ErrorCode] = []
        self.reads = 0
        self.complete_count = -1
        self.leader_epochs: list[int] = []
        """Of all reads and writes."""

    async def read_state(
        self, group_id: str, topic_id: bytes, partition: int, leader_epoch: int
    ) -> PartitionState | ErrorCode:
        await asyncio.sleep(0)
        self.reads += 1
        self.leader_epochs.append(leader_epoch)
        if self.refusals:
            return self.refusals.pop(0)
        key = (group_id, topic_id, partition)
        start = self.starts.get(key, -1)
        kept = {at: state for at, state in sorted(self.kept.get(key, {}).items()) if at >= start}
        batches = tuple(
            StateBatch(run[0], run[-1], *state)
            for (state, _), group in groupby(enumerate(kept), key=lambda one: (kept[one[1]], one[1] - one[0]))
            if (run := [at for _, at in group])
        )
        return PartitionState(self.epoch, start, -1, batches)

    async def write_state(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        await self.may_write.wait()
        self.leader_epochs.append(leader_epoch)
        if state_epoch < self.epoch:
            return ErrorCode.FENCED_STATE_EPOCH
        if self.refusals:
            return self.refusals.pop(0)
        key = (group_id, topic_id, partition)
        self.starts[key] = start_offset
        self.complete_count = delivery_complete_count
        for batch in batches:
            for at in range(batch.first_offset, batch.last_offset + 1):
                self.kept.setdefault(key, {})[at] = (batch.delivery_state, batch.delivery_count)
        return ErrorCode.NONE


class ShareNode:
    """The services of a node, and those of share groups beside them."""

    def __init__(self, node: Services, settings: ShareGroupSettings) -> None:
        self._node = node
        self.nodes: Any = node.nodes
        self.settings = settings
        self.slots = 10
        self.persister = MemoryPersister()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.share_partitions = SharePartitions(
            persister=self.persister, settings_of=lambda _: self.settings, environment=node.environment, own=self.own
        )
        self.share_sessions = ShareSessions(
            slots=lambda: self.slots, most_partitions=lambda: 100, on_end=lambda one: self.own(self._ended(one))
        )

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        return {"PLAINTEXT": Endpoint("PLAINTEXT", "broker", 9092)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def own(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _ended(self, session: ShareSession) -> None:
        await self.share_partitions.session_ended(session.group_id, session.member_id, session.wanted)
        if not self.share_sessions.has_any_of(session.group_id):
            self.share_partitions.let_go_group(session.group_id)

    async def quiet(self) -> None:
        """Until nothing is under way that no request waits for."""
        while self.tasks:
            await asyncio.gather(*self.tasks)

    @property
    def partition(self) -> Partition:
        found: Partition = partitions_of(self._node)[0]
        return found

    def append(
        self,
        *counts: int,
        value: bytes = b"v",
        producer: tuple[int, int] | None = None,
        timestamp_ms: int = 1,
        index: int = 0,
    ) -> None:
        """Batches of so many records each, committed."""
        partition = partitions_of(self._node)[index]
        for count in counts:
            records = [NewRecord(value=value, timestamp_ms=timestamp_ms) for _ in range(count)]
            if producer is None:
                data = build_batch(records)
            else:
                producer_id, sequence = producer
                data = build_batch(
                    records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
                )
            partition.append(
                memoryview(data),
                transactional_id=None if producer is None else "t",
                verification=False,
                now_ms=timestamp_ms,
            )
        self.commit(index)

    def commit(self, index: int = 0) -> None:
        """What was appended is on the disk."""
        partition = partitions_of(self._node)[index]
        flush = partition.log.begin_flush()
        flush.run()
        partition.log.finish_flush(flush)
        partition.committed_moved()


class Member:
    """A member of the share group, with a session of its own."""

    def __init__(self, node: ShareNode, name: str, connection_id: int = 1, group: str = GROUP) -> None:
        self.node = node
        self.name = name
        self.group = group
        self.epoch = 0
        self.connection = ConnectionInfo(connection_id, "PLAINTEXT", "127.0.0.1", 1)

    def context(self, key: int, version: int) -> RequestContext:
        return RequestContext(self.connection, key, version, 1, self.name)

    async def request(self, *acks: tuple[int, int, list[int]], version: int = 2, **fields: Any) -> Any:
        """A ShareFetch as it is answered."""
        values: dict[str, Any] = {
            "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500,
            "share_session_epoch": self.epoch, "forgotten_topics_data": [],
        } | fields  # fmt: skip
        batches = [asked.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=c) for a, b, c in acks]
        topic = asked.FetchTopic(
            topic_id=self.node.partition.topic_id,
            partitions=[asked.FetchPartition(partition_index=0, acknowledgement_batches=batches)],
        )
        values.setdefault("topics", [topic] if acks or self.epoch == 0 else [])
        request = asked.ShareFetchRequest(group_id=self.group, member_id=self.name, **values)
        answer = await share_fetch(self.node, self.context(78, version), request)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = request.share_session_epoch + 1
        return answer

    async def fetch(self, *acks: tuple[int, int, list[int]], **fields: Any) -> list[tuple[int, int, int]]:
        """(first, last, delivery count) of what it is handed."""
        answer = await self.request(*acks, **fields)
        assert answer.error_code == ErrorCode.NONE
        partitions = [one for topic in answer.responses for one in topic.partitions]
        assert all(one.error_code == one.acknowledge_error_code == ErrorCode.NONE for one in partitions)
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for partition in partitions
            for one in partition.acquired_records
        ]

    async def say(self, *acks: tuple[int, int, list[int]], **fields: Any) -> ErrorCode:
        """A ShareAcknowledge; the error of the partition, or of the whole."""
        batches = [said.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=c) for a, b, c in acks]
        partition = said.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = said.AcknowledgeTopic(topic_id=self.node.partition.topic_id, partitions=[partition])
        values: dict[str, Any] = {"share_session_epoch": self.epoch, "topics": [topic] if acks else []} | fields
        request = said.ShareAcknowledgeRequest(group_id=self.group, member_id=self.name, **values)
        answer = await share_acknowledge(self.node, self.context(79, 2), request)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code) if answer.responses else ErrorCode.NONE

    async def leave(self) -> None:
        assert await self.say(share_session_epoch=-1) is ErrorCode.NONE
        await self.node.quiet()


FROM_THE_START = ShareGroupSettings(start_at=StartAt.EARLIEST)


def in_a_share_node(story: Callable[[ShareNode], Coroutine[Any, Any, None]], tmp_path: Any, **settings: Any) -> None:
    """Run a story against a node with one topic `t`, whose share groups begin at its start."""

    async def run(node: Services) -> None:
        share_node = ShareNode(node, replace(FROM_THE_START, **settings))
        await story(share_node)
        await share_node.quiet()

    in_a_node(run, tmp_path)
