"""What a cluster knows of a sink: its last committed batch, its open transaction, how far its sources are read.

Rule 1. Needs no Spark: it is used by people at a terminal, on any machine.
Rule 2. Looking changes nothing. A lease is taken by `abort_open` alone, and fences the sink as its next batch would.

What any client may ask of a cluster is asked by `tallystick.inspection`, with the patience of a sink.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connector.checkpoint import kafka_offsets
from spark_connector.progress import Marker, ProgressTopic
from tallystick.client.client import LATEST, Client
from tallystick.client.lease import persistently, take_lease
from tallystick.inspection.groups import committed
from tallystick.inspection.places import Place, existing, offsets_at
from tallystick.inspection.transactions import DECIDED, ONGOING, Described, described


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
        return self.state == ONGOING or self.is_decided

    @property
    def is_decided(self) -> bool:
        """Decided, but its markers are still being written."""
        return self.state in DECIDED

    @classmethod
    def of(cls, found: Described) -> "Transaction":
        started_ms = -1 if found.started_ms is None else found.started_ms
        partitions = sorted(f"{topic}-{number}" for topic, number in found.places)
        return cls(found.state, found.producer_id, found.producer_epoch, found.timeout_ms, started_ms, partitions)


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
        """None where the coordinator does not know it."""
        found = await persistently(self._client, lambda: described(self._client, sink_id), patience_s=self._patience_s)
        return None if found is None else Transaction.of(found)

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
        found = await persistently(self._client, lambda: committed(self._client, group), patience_s=self._patience_s)
        return await self._positions(found)

    async def _positions(self, offsets: Mapping[Place, int]) -> list[Position]:
        """Partitions that this cluster does not have are without an end: a source may be on another one."""
        here = await existing(self._client, sorted(offsets))
        ends = await offsets_at(self._client, here, LATEST)
        return [Position(*where, offset, ends.get(where)) for where, offset in sorted(offsets.items())]
