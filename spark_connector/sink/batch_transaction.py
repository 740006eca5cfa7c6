"""One micro-batch, one Kafka transaction: the steps, in order.

    in the task    1 open   take the lease on the sink's id, which settles every earlier try; then read the marker
                   2 write  the rows, until all are acknowledged
    on the driver  3 mark   the source's offsets (option groupId) and the marker, in the same transaction
                   4 end    EndTxn: this alone decides

Rule 1. Any doubt (a crash, a timeout, a fence, a lost answer) is settled by a replay: the next `open` makes the old
        transaction committed or aborted for good, and the marker says which.
Rule 2. A replay of a committed batch writes nothing; its rows are still drawn, so that Spark's state moves on.
Rule 3. One attempt per lease and partition. Here a lease belongs to one task attempt, and each attempt takes its own.
Rule 4. A replay is compared with what was committed: topics, and the source's offsets in the checkpoint. What cannot be
        compared is refused, when the marker is written already: a replay that is skipped unseen may lose rows.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from crc32c import crc32c

from spark_connector.checkpoint import kafka_offsets
from spark_connector.checkpoint_files import Checkpoint
from spark_connector.connections import Cluster, cluster
from spark_connector.errors import BadRows, CheckpointWentBack, ConnectorError, SinkChanged, SourceOffsetsUnknown
from spark_connector.inspection import Inspector
from spark_connector.progress import Marker, ProgressTopic, progress_key
from spark_connector.sink.identity import Known, Writer, id_by_path, sink_id_of
from spark_connector.sink.record_batches import Addressed, record_batches
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.turn_sender import TurnSender
from spark_connector.sink.turn_server import TurnsOfTask
from tallystick.client.background import now_ms
from tallystick.client.errors import KafkaError, UnsupportedByBroker
from tallystick.client.lease import Lease, commit_offsets, end_transaction, persistently, take_lease
from tallystick.client.sender import Sender

Counts = dict[str, dict[str, int]]
"""Records by topic and partition; the partition as text, for JSON."""

_progress: dict[tuple[int, str], ProgressTopic] = {}
"""What this process has read of control topics, by connection and topic."""
_identified: dict[tuple[int, str, Writer], str] = {}
"""The sink ids that this process has found, by connection and control topic."""
_looked: dict[int, tuple[Lease, "BatchId"]] = {}
"""For which batch this process has looked at the cluster's topics last, by connection."""
_GIVING_UP_S = 5.0
"""How long a broker is waited for when nothing but the wait of readers depends on it."""


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
    """The steps. Made anew for each batch; connections are the process's.

    Without a sink id it is found with the first step. `checkpoint` is the query's; a batch job has none.
    """

    def __init__(
        self, settings: SinkSettings, batch: BatchId, sink_id: str | None, checkpoint: Checkpoint | None = None
    ) -> None:
        self.settings = settings
        self.batch = batch
        self.sink_id = sink_id or ""
        self.checkpoint = checkpoint
        self.size_bytes = 0
        """What has been sent and acknowledged."""
        self.turns: TurnsOfTask | None = None
        """Where others write under the same lease: who says when this task may."""
        self.task = 0
        """Which of them this is."""
        self.source: list[str] | None = None
        """The source's offsets for this batch, where somebody has read them in the checkpoint already."""
        self.connection: Cluster = cluster(settings.access, patience_s=settings.patience_s)
        self._retries_before = self.connection.client.retries

    @property
    def retries(self) -> int:
        """How often something of this batch was tried again in this process."""
        return self.connection.client.retries - self._retries_before

    @property
    def progress(self) -> ProgressTopic:
        key = (id(self.connection), self.settings.progress_topic)
        if key not in _progress:
            _progress[key] = ProgressTopic(self.connection.client, key[1], self.settings.patience_s)
        return _progress[key]

    def identify(self, *, is_sole: bool, others: Collection[str] = ()) -> None:
        """Find the sink id of a stream's writer (`identity`). `others` are those of the other writers of this run.

        A writer that has no marker yet may have had another id: what that has left open is settled first.
        """
        assert self.batch.query is not None, "a stream's batch"
        writer = Writer(self.batch.query, self.settings.sink_id, self.settings.topic, is_sole)
        key = (id(self.connection), self.settings.progress_topic, writer)
        if key not in _identified:
            known = self._known(writer.query)
            own = sink_id_of(writer, known, self.batch.number, others)
            if own not in known:
                for earlier in self._earlier_ids(writer, known, others):
                    self._take(earlier)
                own = sink_id_of(writer, self._known(writer.query), self.batch.number, others)
            _identified[key] = own
        self.sink_id = _identified[key]

    def share(self, lease: Lease, turns: TurnsOfTask, task: int) -> None:
        """From here on write under a lease that others have, too, and that any of them may have taken."""
        self.sink_id, self.turns, self.task = lease.transactional_id, turns, task

    def _known(self, query: str) -> Known:
        return self.connection.run(self.progress.of_query(query), f"reading the markers of query {query}")

    def _earlier_ids(self, writer: Writer, known: Known, others: Collection[str]) -> list[str]:
        """Ids that this writer may have had: by another name, or by the checkpoint's path in a query's first batch."""
        fitting = [
            sink_id
            for sink_id, marker in known.items()
            if sink_id not in others and (writer.is_sole or marker is None or marker.is_of(writer.topic))
        ]
        if self.settings.checkpoint is not None and writer.named is None and self.batch.number == 0:
            by_path = id_by_path(self.settings.checkpoint)
            with suppress(KafkaError, UnsupportedByBroker):
                found = self.connection.ask(self._inspector().transaction(by_path))
                if found is not None and found.is_open:
                    fitting.append(by_path)
        return fitting

    def _take(self, sink_id: str) -> Lease:
        settings = self.settings
        taking = take_lease(
            self.connection.client,
            sink_id,
            timeout_ms=settings.transaction_timeout_ms,
            patience_s=settings.patience_s,
        )
        return self.connection.run(taking, f"taking the lease on {sink_id}")

    def open(self) -> Opened:
        """Step 1. Raises `CheckpointWentBack` for a batch that lies behind the last one, and `SinkChanged` for one that
        was written to another topic.
        """
        assert self.sink_id, "identified"
        lease = self._take(self.sink_id)
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
        done = last if last is not None and last.batch == self.batch.number else None
        if done is not None and not done.is_of(self.settings.topic):
            there = " and ".join(done.topics or sorted(done.records)) or "the topics that its rows named"
            raise SinkChanged(
                f"sink {self.sink_id} has written batch {done.batch} of {self.batch.query} to {there}, and is now to "
                f"write it to {self.settings.topic or 'the topics that its rows name'}: name the old topic, or write "
                "under another name (sinkId of another writer in foreachBatch, jobId of another job)"
            )
        return Opened(lease, done)

    def write(self, lease: Lease, rows: Iterable[pa.RecordBatch]) -> Counts:
        """Step 2. Returns when every record is acknowledged; nothing is visible yet."""
        self.look_anew(lease)
        # Rows without keys take turns over partitions from batch to batch and from task to task, too.
        first_turn = crc32c(self.sink_id.encode()) + self.batch.number + self.task
        return self.send(lease, record_batches(rows, self.settings, self._partitions_of_rows, first_turn))

    def look_anew(self, lease: Lease) -> None:
        """Topics may have grown or moved since the last batch. The tasks of one look once in each process."""
        what = lease, self.batch
        if _looked.get(id(self.connection)) != what:
            self.connection.client.forget()
            _looked[id(self.connection)] = what

    def send(self, lease: Lease, groups: Iterable[list[Addressed]]) -> Counts:
        """Step 2 for rows that are batches already."""
        sender = self._sender(lease)
        doing = f"writing batch {self.batch.number}"
        try:
            for batches in groups:
                self.connection.run(sender.offer(batches), doing)
            self.connection.run(sender.flush(), doing)
        finally:
            self.connection.run(sender.close(), doing)
        counts: Counts = {}
        for (topic, partition), totals in sorted(sender.totals.items()):
            self.size_bytes += totals.size_bytes
            counts.setdefault(topic, {})[str(partition)] = totals.records
        return counts

    def _sender(self, lease: Lease) -> Sender:
        client, patience_s, room_bytes = self.connection.client, self.settings.patience_s, self.settings.room_bytes
        if self.turns is None:
            return Sender(client, lease, patience_s=patience_s, room_bytes=room_bytes)
        return TurnSender(client, lease, _name_of, self.turns, patience_s=patience_s, room_bytes=room_bytes)

    def _partitions_of_rows(self, topic: str) -> int:
        """Of a topic that rows name."""
        if topic == self.settings.progress_topic:
            raise BadRows(f"a row names the control topic {topic}: its records are the sink's own")
        return self.partitions_of(topic)

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has now."""
        client = self.connection.client
        asking = persistently(client, lambda: client.topic(topic), patience_s=self.settings.patience_s)
        return len(self.connection.run(asking, f"asking about topic {topic}").partitions)

    def mark(self, lease: Lease, counts: Counts) -> None:
        """Step 3."""
        client, settings = self.connection.client, self.settings
        source = self._source()
        if settings.group_id is not None:
            offsets = kafka_offsets(source)
            if not offsets:
                raise SourceOffsetsUnknown(f"batch {self.batch.number} has no Kafka source: leave option groupId out")
            committing = commit_offsets(client, lease, settings.group_id, offsets, patience_s=settings.patience_s)
            self.connection.run(committing, f"committing offsets to group {settings.group_id}")
        if self.batch.query is None:
            return
        topics = [] if settings.topic is None else [settings.topic]
        marker = Marker(self.batch.number, source, counts, now_ms(), topics)
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

    def give_up(self, lease: Lease) -> None:
        """Abort now, so that readers need not wait for the transaction's timeout. A batch that is decided stays so.

        Best effort: what stays open is settled by the next lease, or by its timeout.
        """
        with suppress(ConnectorError):
            self.connection.run(self._given_up(lease), f"aborting batch {self.batch.number}")

    async def _given_up(self, lease: Lease) -> None:
        """EndTxn(abort) where it moves the epoch. Under the old rules it does not, and a batch that is still under way
        would begin a transaction that nobody ends (KAFKA-14402); there the next lease aborts, if this one is the last:
        InitProducerId itself would not look at the epoch of what is open (KIP-360), and fence a successor.
        """
        client = self.connection.client
        if lease.implicit:
            await end_transaction(client, lease, commit=False, patience_s=_GIVING_UP_S)
            return
        found = await self._inspector().transaction(lease.transactional_id)
        is_ours = found is not None and (found.producer_id, found.producer_epoch) == (
            lease.producer_id,
            lease.producer_epoch,
        )
        if is_ours and found is not None and found.is_open and not found.is_decided:
            timeout_ms = self.settings.transaction_timeout_ms
            await take_lease(client, lease.transactional_id, timeout_ms=timeout_ms, patience_s=_GIVING_UP_S)

    def _inspector(self) -> Inspector:
        return Inspector(self.connection.client, self.settings.progress_topic, _GIVING_UP_S)

    def compare(self, done: Marker) -> None:
        """Whether a replayed batch is the one that was committed. Raises `CheckpointWentBack`, and
        `SourceOffsetsUnknown` where that cannot be said.
        """
        if self.checkpoint is None:
            return
        plan = self.checkpoint.planned(self.batch.number)
        source = plan.sources
        # Older builds left out offsets that they could not read: the batch was planned before its marker then.
        is_same = source == done.source if done.source else plan.planned_ms <= done.written_ms
        if not is_same:
            raise CheckpointWentBack(
                f"sink {self.sink_id} has committed batch {done.batch} of this query with the source offsets "
                f"{done.source}, the checkpoint now has {source} for it: it is an older copy that has been run on. "
                "Bring back the newest one; to write everything again on purpose, start with an empty checkpoint folder"
            )

    def _source(self) -> list[str]:
        """The source's offsets from the checkpoint; a batch job has none. Raises `SourceOffsetsUnknown`."""
        if self.source is None:
            self.source = [] if self.checkpoint is None else self.checkpoint.planned(self.batch.number).sources
        return self.source

    def read_source_ahead(self) -> "SourceAhead | None":
        """Begin to read what the marker will say of the source, while rows are written: Spark has planned the batch
        before it runs a task, and reading a file through the driver's JVM takes longer than all else of a commit.
        """
        return None if self.checkpoint is None else SourceAhead(self._source)


class SourceAhead:
    """Offsets that are being read. What cannot be read is read, and refused, when the batch is decided."""

    def __init__(self, read: Callable[[], list[str]]) -> None:
        self._read = read
        self._found: list[str] | None = None
        self._thread = threading.Thread(target=self._run, name="spark-eos-checkpoint", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(ConnectorError):
            self._found = self._read()

    def found(self) -> list[str] | None:
        """Wait for them; None where they could not be read."""
        self._thread.join()
        return self._found


def _name_of(where: tuple[str, int]) -> str:
    """What tasks call a partition when they ask for their turn: any topic may come, so there is no numbering."""
    return f"{where[0]}/{where[1]}"


def drain(rows: Iterator[pa.RecordBatch]) -> None:
    """Draw all rows and forget them (rule 2)."""
    for _ in rows:
        pass
