"""One micro-batch, one Kafka transaction: the steps, in order.

    in the task    1 open   take the lease on the sink's id, which settles every earlier try; then read the marker
                   2 write  the rows, until all are acknowledged
    on the driver  3 mark   the source's offsets (option groupId) and the marker, in the same transaction
                   4 end    EndTxn: this alone decides

Rule 1. Any doubt (a crash, a timeout, a fence, a lost answer) is settled by a replay: the next `open` makes the old
        transaction committed or aborted for good, and the marker says which.
Rule 2. A replay of a committed batch writes nothing; its rows are still drawn, so that Spark's state moves on.
Rule 3. One attempt per lease and partition. Here a lease belongs to one task attempt, and each attempt takes its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_connector.checkpoint import end_offsets, source_lines
from spark_connector.connections import Cluster, cluster
from spark_connector.errors import CheckpointWentBack, SourceOffsetsUnknown
from spark_connector.progress import Marker, ProgressTopic, progress_key
from spark_connector.sink.columns import rows_by_topic
from spark_connector.sink.encode import Encoder
from spark_connector.sink.settings import SinkSettings
from tallystick.client.background import now_ms
from tallystick.client.lease import Lease, commit_offsets, end_transaction, persistently, take_lease
from tallystick.client.sender import Sender

Counts = dict[str, dict[str, int]]
"""Records by topic and partition; the partition as text, for JSON."""

Addressed = tuple[tuple[str, int], bytearray]
"""A record batch, and the topic and partition it goes to."""

_progress: dict[tuple[int, str], ProgressTopic] = {}
"""What this process has read of control topics, by connection and topic."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """Which batch of which query. A batch job without `jobId` has none: nothing remembers it."""

    query: str | None
    number: int


@dataclass(frozen=True, slots=True)
class Opened:
    """What `open` found: a lease to write under, or that the batch is there already."""

    lease: Lease
    done: Marker | None


class BatchTransaction:
    """The steps. Made anew for each batch; connections are the process's."""

    def __init__(self, settings: SinkSettings, sink_id: str, batch: BatchId) -> None:
        self.settings = settings
        self.sink_id = sink_id
        self.batch = batch
        self.connection: Cluster = cluster(settings.bootstrap, settings.client_id, patience_s=settings.patience_s)

    @property
    def progress(self) -> ProgressTopic:
        key = (id(self.connection), self.settings.progress_topic)
        if key not in _progress:
            _progress[key] = ProgressTopic(self.connection.client, key[1], self.settings.patience_s)
        return _progress[key]

    def open(self) -> Opened:
        """Step 1. Raises `CheckpointWentBack` for a batch that lies behind the last one."""
        settings = self.settings
        taking = take_lease(
            self.connection.client,
            self.sink_id,
            timeout_ms=settings.transaction_timeout_ms,
            patience_s=settings.patience_s,
        )
        lease = self.connection.run(taking, f"taking the lease on {self.sink_id}")
        if self.batch.query is None:
            return Opened(lease, None)
        key = progress_key(self.sink_id, self.batch.query)
        last = self.connection.run(self.progress.last(key), f"reading the marker of {key}")
        if last is not None and last.batch > self.batch.number:
            raise CheckpointWentBack(
                f"sink {self.sink_id} has committed batch {last.batch} of this query, the checkpoint asks for batch "
                f"{self.batch.number}: it is an older copy. Bring back the newest one; to write everything again on "
                "purpose, start with an empty checkpoint folder"
            )
        return Opened(lease, last if last is not None and last.batch == self.batch.number else None)

    def write(self, lease: Lease, rows: Iterable[pa.RecordBatch]) -> Counts:
        """Step 2. Returns when every record is acknowledged; nothing is visible yet."""
        self.connection.client.forget()
        encoder = Encoder(self.settings.codec, self.settings.batch_bytes)
        known: dict[str, int] = {}
        return self.send(lease, (self._encoded(arrived, encoder, known) for arrived in rows if arrived.num_rows))

    def send(self, lease: Lease, groups: Iterable[list[Addressed]]) -> Counts:
        """Step 2 for rows that are batches already."""
        client, settings = self.connection.client, self.settings
        sender = Sender(client, lease, patience_s=settings.patience_s, room_bytes=settings.room_bytes)
        doing = f"writing batch {self.batch.number}"
        try:
            for batches in groups:
                self.connection.run(sender.offer(batches), doing)
            self.connection.run(sender.flush(), doing)
        finally:
            self.connection.run(sender.close(), doing)
        counts: Counts = {}
        for (topic, partition), totals in sorted(sender.totals.items()):
            counts.setdefault(topic, {})[str(partition)] = totals.records
        return counts

    def _encoded(self, arrived: pa.RecordBatch, encoder: Encoder, known: dict[str, int]) -> list[Addressed]:
        """Batches for the sender. `known` holds how many partitions a topic has: as many as when it was first met."""
        written: list[Addressed] = []
        for topic, rows in rows_by_topic(arrived, self.settings.topic):
            if topic not in known:
                known[topic] = self.partitions_of(topic)
            batches = encoder.batches(rows, known[topic], now_ms())
            written += [((topic, partition), batch) for partition, batch in batches]
        return written

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has now."""
        client = self.connection.client
        asking = persistently(client, lambda: client.topic(topic), patience_s=self.settings.patience_s)
        return len(self.connection.run(asking, f"asking about topic {topic}").partitions)

    def mark(self, lease: Lease, counts: Counts) -> None:
        """Step 3."""
        client, settings = self.connection.client, self.settings
        if settings.group_id is not None:
            assert settings.checkpoint is not None, "refused with the options"
            offsets = end_offsets(settings.checkpoint, self.batch.number)
            committing = commit_offsets(client, lease, settings.group_id, offsets, patience_s=settings.patience_s)
            self.connection.run(committing, f"committing offsets to group {settings.group_id}")
        if self.batch.query is None:
            return
        marker = Marker(self.batch.number, self._source(), counts, now_ms())
        placed = self.progress.batch(progress_key(self.sink_id, self.batch.query), marker)
        sender = Sender(client, lease, patience_s=settings.patience_s)

        async def send() -> None:
            await sender.offer([placed])
            await sender.flush()

        self.connection.run(send(), f"writing the marker of batch {self.batch.number}")

    def end(self, lease: Lease) -> None:
        """Step 4. Returns when the batch is committed."""
        ending = end_transaction(self.connection.client, lease, commit=True, patience_s=self.settings.patience_s)
        self.connection.run(ending, f"committing batch {self.batch.number}")

    def abort(self, lease: Lease) -> None:
        """Give the transaction up. After a commit that took effect the broker refuses this, as it must."""
        ending = end_transaction(self.connection.client, lease, commit=False, patience_s=self.settings.patience_s)
        self.connection.run(ending, f"aborting batch {self.batch.number}")

    def compare(self, done: Marker) -> None:
        """Whether a replayed batch is the one that was committed. Raises `CheckpointWentBack`."""
        source = self._source()
        if source and done.source and source != done.source:
            raise CheckpointWentBack(
                f"sink {self.sink_id} has committed batch {done.batch} of this query with the source offsets "
                f"{done.source}, the checkpoint now has {source} for it: it is an older copy that has been run on. "
                "Bring back the newest one; to write everything again on purpose, start with an empty checkpoint folder"
            )

    def _source(self) -> list[str]:
        """The source's offsets from the checkpoint, where that can be read from here; else nothing."""
        if self.settings.checkpoint is None:
            return []
        try:
            return source_lines(self.settings.checkpoint, self.batch.number)
        except SourceOffsetsUnknown:
            return []


def drain(rows: Iterator[pa.RecordBatch]) -> None:
    """Draw all rows and forget them (rule 2)."""
    for _ in rows:
        pass
