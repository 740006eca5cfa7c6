"""What a cluster knows of a sink: its last committed batch, its open transaction, how far its sources are read.

Rule 1. Needs no Spark: it is used by people at a terminal, on any machine.
Rule 2. Looking changes nothing. A lease is taken by `abort_open` alone, and fences the sink as its next batch would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from protocol.messages.transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from spark_connector.checkpoint import kafka_offsets
from spark_connector.progress import Marker, ProgressTopic
from tallystick.client.client import GROUP, LATEST, TRANSACTION, Client
from tallystick.client.errors import UnsupportedByBroker
from tallystick.client.lease import judge, persistently, take_lease

_DECIDING = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_GROUPS = range(8, 10)
"""Versions of OffsetFetch that speak of groups, and of topics by name."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the coordinator says of the sink's transactional id."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """-1 where nothing is open."""
    partitions: list[str]

    @property
    def is_open(self) -> bool:
        """Whether readers of committed records are held."""
        return self.state == "Ongoing" or self.is_decided

    @property
    def is_decided(self) -> bool:
        """Decided, but its markers are still being written."""
        return self.state in _DECIDING


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where a partition was read, and where it ends."""

    topic: str
    partition: int
    offset: int
    end: int | None
    """None where the topic is not on this cluster."""

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class QueryState:
    """The last committed batch of one query (a checkpoint has one query id for its life; a batch job is `job:<id>`)."""

    query: str
    batch: int
    written_ms: int
    records: dict[str, dict[str, int]]
    source: list[Position]


@dataclass(frozen=True, slots=True)
class SinkState:
    """Everything together."""

    sink_id: str
    transaction: Transaction | None
    """None where the coordinator does not know the id."""
    queries: list[QueryState]
    """The one that wrote last comes first."""
    group: list[Position]


class Inspector:
    """Asks one cluster. Raises what `tallystick.client` raises, and `UnsafeProgressTopic`."""

    def __init__(self, client: Client, progress_topic: str, patience_s: float) -> None:
        self._client = client
        self.progress_topic = progress_topic
        self._patience_s = patience_s

    async def sinks(self) -> dict[str, list[tuple[str, Marker]]]:
        """Every sink of the control topic: its queries and their last committed markers, the newest first."""
        progress = ProgressTopic(self._client, self.progress_topic, self._patience_s)
        found: dict[str, list[tuple[str, Marker]]] = {}
        for key, marker in sorted((await progress.committed()).items(), key=lambda item: -item[1].written_ms):
            sink_id, _, query = key.partition("|")
            found.setdefault(sink_id, []).append((query, marker))
        return found

    async def state(self, sink_id: str, group: str | None = None) -> SinkState | None:
        """All that is known of a sink; None for an unknown one."""
        transaction = await self.transaction(sink_id)
        markers = (await self.sinks()).get(sink_id, [])
        if transaction is None and not markers:
            return None
        queries = [
            QueryState(query, marker.batch, marker.written_ms, marker.records, await self._source(marker))
            for query, marker in markers
        ]
        return SinkState(sink_id, transaction, queries, await self._group(group) if group else [])

    async def transaction(self, sink_id: str) -> Transaction | None:
        """What DescribeTransactions says (KIP-664)."""
        request = DescribeTransactionsRequest(transactional_ids=[sink_id])

        async def attempt() -> Transaction | None:
            coordinator = await self._client.coordinator(sink_id, TRANSACTION)
            answer: DescribeTransactionsResponse = await coordinator.ask(request)
            (found,) = answer.transaction_states
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            judge(found.error_code)
            partitions = [f"{topic.topic}-{number}" for topic in found.topics for number in topic.partitions]
            return Transaction(
                state=found.transaction_state,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                timeout_ms=found.transaction_timeout_ms,
                started_ms=found.transaction_start_time_ms,
                partitions=sorted(partitions),
            )

        return await persistently(self._client, attempt, patience_s=self._patience_s)

    async def abort_open(self, sink_id: str) -> Transaction | None:
        """Settle what is open and fence its holder; what was open. None: nothing was, and nothing was done.

        Returns when the end is written everywhere: readers are free. A query that still runs fails with its next
        request and may be started again; its checkpoint and the marker agree as after any crash.
        """
        found = await self.transaction(sink_id)
        if found is None or not found.is_open:
            return None
        await take_lease(self._client, sink_id, timeout_ms=found.timeout_ms, patience_s=self._patience_s)
        return found

    async def _source(self, marker: Marker) -> list[Position]:
        return await self._positions(kafka_offsets(marker.source))

    async def _group(self, group: str) -> list[Position]:
        """The committed offsets of a group, all of them."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])

        async def attempt() -> dict[tuple[str, int], int]:
            coordinator = await self._client.coordinator(group, GROUP)
            version = min(_GROUPS[-1], coordinator.version_for(OffsetFetchRequest))
            if version not in _GROUPS:
                raise UnsupportedByBroker("OffsetFetch by group")
            answer: OffsetFetchResponse = await coordinator.ask(request, version)
            (found,) = answer.groups
            judge(found.error_code)
            return {
                (topic.name, partition.partition_index): partition.committed_offset
                for topic in found.topics
                for partition in topic.partitions
                if partition.committed_offset >= 0
            }

        return await self._positions(await persistently(self._client, attempt, patience_s=self._patience_s))

    async def _positions(self, offsets: dict[tuple[str, int], int]) -> list[Position]:
        ends = await self._ends(sorted(offsets))
        return [Position(*where, offset, ends.get(where)) for where, offset in sorted(offsets.items())]

    async def _ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where partitions end; those that this cluster does not have are left out: a source may be on another one."""
        topics = sorted({topic for topic, _ in partitions})
        if not topics:
            return {}
        answer = await self._client.metadata(topics)
        here = {topic.name: len(topic.partitions) for topic in answer.topics if not topic.error_code}
        ends: dict[tuple[str, int], int] = {}
        for topic, number in partitions:
            if number < here.get(topic or "", 0):
                ends[topic, number] = await self._client.offset_at(topic, number, LATEST)
        return ends
