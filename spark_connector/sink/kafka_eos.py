"""Format `kafka-eos`: each micro-batch becomes visible in Kafka exactly once, whole or not at all.

    spark.dataSource.register(KafkaEos)
    frame.writeStream.format("kafka-eos").option("kafka.bootstrap.servers", ...).option("topic", ...)

All tasks of the frame write, in turns, in one transaction: the first that comes takes the lease, and the driver's
Python process tells it to the others (`shared_batch`). Where there is no such process, or it cannot be reached, one
task writes alone, under a lease of its own.

Spark makes the data source and its writer in three processes: the planner (pickled there, before the tasks), the
commit worker, and, unpickled, each task. So nothing here has an effect before `write` and `commit`. `commit` may run
more than once per batch, a lost attempt of a task is never told, and `abort` follows a `commit` that raised.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_connector.checkpoint_files import Checkpoint, Files, LocalFiles
from spark_connector.errors import BadOption, ConnectorError, DriverAway, NotMicroBatches, NotOneWriter, TurnRefused
from spark_connector.metrics import BatchMetrics
from spark_connector.progress import Marker
from spark_connector.sink.batch_server import Part, Sharing, TurnsOfBatch, results_of
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, Opened, drain
from spark_connector.sink.columns import check_columns
from spark_connector.sink.lease_notes import Notes
from spark_connector.sink.settings import SinkSettings
from spark_connector.workers import keep_what_is_loaded
from tallystick.client.background import fresh_name, now_ms
from tallystick.client.lease import Lease

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_GRACE_S = 60.0
"""A task may wait twice for a broker that is away while it has a turn; after that, and this, the turn is lost."""
_ADVICE = (
    "make the format known with spark_connector.register.register(spark), and let executors reach the driver's Python "
    "process (a port of its choice at spark.driver.host); or put .coalesce(1) before the write. Under Spark Connect "
    "many tasks write with foreachBatch and spark_connector.sink.foreach_batch.eos_writer"
)


@dataclass
class Written(WriterCommitMessage):
    """What a task returns to the driver: under which lease it wrote, or that the batch was there already."""

    lease: Lease
    batch: BatchId
    counts: Counts
    done: Marker | None
    size_bytes: int = 0
    retries: int = 0
    shared_as: str = ""
    part: Part | None = None
    """What the driver knows the batch and this task by; none where the task wrote alone."""
    source: list[str] | None = None
    """What the checkpoint says of the source, where this task has read it."""

    @property
    def records(self) -> int:
        return sum(sum(partitions.values()) for partitions in self.counts.values())


class KafkaEos(DataSource):
    """The data source. Options: `spark_connector.options.SINK`."""

    files: Files = LocalFiles()
    """How the checkpoint is read; `register` gives its sessions the way through the driver."""
    notes: Notes | None = None
    """Where tasks tell their leases; `register` knows it."""
    sharing: Sharing | None = None
    """Where tasks share a batch; `register` knows it."""

    @classmethod
    def name(cls) -> str:
        return "kafka-eos"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "EosStreamWriter":
        settings = SinkSettings.of(self.options, streaming=True)
        _check(schema, settings)
        keep_what_is_loaded("planner")
        return EosStreamWriter(settings, self.files, self.notes, self.sharing)

    def writer(self, schema: StructType, overwrite: bool) -> "EosBatchWriter":
        if overwrite:
            raise BadOption('mode("overwrite"): what is in a topic is not replaced; use mode("append")')
        settings = SinkSettings.of(self.options, streaming=False)
        _check(schema, settings)
        return EosBatchWriter(settings, self.sharing)


def _check(schema: StructType, settings: SinkSettings) -> None:
    columns = [(column.name, column.dataType.simpleString()) for column in schema.fields]
    check_columns(columns, topic_named=settings.topic is not None)


class _Steps:
    """What streaming and batch have in common: a task's part and the driver's part."""

    def __init__(self, settings: SinkSettings, sharing: Sharing | None = None) -> None:
        self.settings = settings
        self.sharing = sharing
        self._name = fresh_name()
        """Made where the write is planned, and so the same for all of its tasks, and another one for the next run."""

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        """The steps for a batch; in the task the sink id is not known yet."""
        return BatchTransaction(self.settings, batch, sink_id)

    def identify(self, transaction: BatchTransaction) -> None:
        """Find the sink id, where it is not known yet."""

    def shared_as(self, batch: int) -> str:
        """How the name of a batch begins by which the driver knows it."""
        return ""

    def run_task(self, rows: Iterator[pa.RecordBatch], transaction: BatchTransaction) -> Written:
        """A task's part of a batch."""
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        task, attempt = context.partitionId(), context.taskAttemptId()
        if self.sharing is not None:
            name = f"{self.shared_as(transaction.batch.number)}{self._name}"
            with_others = self.sharing.task(name, task, attempt, 2 * self.settings.patience_s + _GRACE_S)
            try:
                return self._with_others(rows, transaction, name, with_others)
            except DriverAway:
                if task > 0:
                    raise
        if task > 0:
            raise NotOneWriter(f"this is task {task + 1} of the write; nothing was committed: {_ADVICE}")
        return self._alone(rows, transaction)

    def _with_others(
        self, rows: Iterator[pa.RecordBatch], transaction: BatchTransaction, name: str, turns: TurnsOfBatch
    ) -> Written:
        """Write under the lease of all tasks, in turns. Raises `DriverAway` before anything is drawn."""
        run, doing = transaction.connection.run, f"writing batch {transaction.batch.number}"
        ahead = None
        try:
            opened = run(turns.begin(), doing)
            if opened is None:
                self.identify(transaction)
                opened = self._opened(transaction)
                run(turns.opened(opened), doing)
                ahead = transaction.read_source_ahead() if opened.done is None else None
            if opened.done is not None:
                drain(rows)
                return Written(
                    opened.lease, transaction.batch, {}, opened.done, 0, transaction.retries, name, turns.part
                )
            transaction.share(opened.lease, turns, turns.part.task)
            counts = transaction.write(opened.lease, rows)
            run(turns.done(), doing)
        except TurnRefused:
            raise  # The batch may go on without this attempt.
        except ConnectorError as error:
            run(turns.failed(error), doing)
            raise
        finally:
            run(turns.close(), doing)
        keep_what_is_loaded("sink")
        size_bytes, retries = transaction.size_bytes, transaction.retries
        source = None if ahead is None else ahead.found()
        return Written(opened.lease, transaction.batch, counts, None, size_bytes, retries, name, turns.part, source)

    def _opened(self, transaction: BatchTransaction) -> Opened:
        opened = transaction.open()
        if opened.done is None:
            self.noted(opened.lease, transaction.batch)
        return opened

    def _alone(self, rows: Iterator[pa.RecordBatch], transaction: BatchTransaction) -> Written:
        """Write under a lease of this attempt's own."""
        self.identify(transaction)
        batch, opened = transaction.batch, self._opened(transaction)
        if opened.done is not None:
            drain(rows)
            return Written(opened.lease, batch, {}, opened.done)
        try:
            counts = transaction.write(opened.lease, rows)
            written = Written(opened.lease, batch, counts, None, transaction.size_bytes, transaction.retries)
        except BaseException:
            # A row, the source, the broker, or Spark that has given up this task: then nobody else knows the lease.
            transaction.give_up(opened.lease)
            raise
        keep_what_is_loaded("sink")
        return written

    def noted(self, lease: Lease, batch: BatchId) -> None:
        """Called before a task writes under its lease."""

    def decide(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote. No task at all, no rows: nothing to decide.

        A task that succeeded has a message in every micro-batch. In continuous mode Spark calls no task of a Python
        sink, drops the rows, and would commit its epochs over them.
        """
        if any(message is None for message in messages):
            raise NotMicroBatches(
                "a task wrote nothing at all: this is continuous mode, in which Spark drops the rows of Python sinks; "
                "nothing was committed: use trigger(processingTime=...) or trigger(availableNow=True)"
            )
        written = [message for message in messages if isinstance(message, Written)]
        if written:
            self._decide(written)
        keep_what_is_loaded("commit")

    def _decide(self, written: Sequence[Written]) -> None:
        began_ms = now_ms()
        chosen, counts = _of_one_lease(written), _together(written)
        transaction = self.transaction(chosen.batch, chosen.lease.transactional_id)
        transaction.source = next((one.source for one in written if one.source is not None), None)
        if chosen.done is not None:
            transaction.compare(chosen.done)
        elif chosen.batch.query is not None or counts:
            self._complete(transaction, chosen, written)
            transaction.mark(chosen.lease, counts)
            transaction.end(chosen.lease)
        self.committed(chosen, written, now_ms() - began_ms, transaction.retries)

    def _complete(self, transaction: BatchTransaction, chosen: Written, written: Sequence[Written]) -> None:
        """What Spark has the results of must be all that was written under the lease."""
        if chosen.part is None:
            return  # One task alone, under a lease of its own.
        assert self.sharing is not None, "known to the planner, which made the tasks' writer"
        results = results_of([(one.part, one.records) for one in written if one.part is not None])
        asking = self.sharing.complete(chosen.shared_as, chosen.part.life, results)
        transaction.connection.run(asking, f"completing batch {chosen.batch.number}")

    def _over(self, transaction: BatchTransaction, shared_as: str) -> list[Lease]:
        """End the batch for the driver; the leases that it knew of. Best effort."""
        if self.sharing is None or not shared_as:
            return []
        with suppress(ConnectorError):
            opened = transaction.connection.run(self.sharing.over(shared_as), "ending a batch")
            return [one.lease for one in opened if one.done is None]
        return []

    def committed(self, chosen: Written, written: Sequence[Written], commit_ms: int, retries: int) -> None:
        """Called when a batch is in Kafka."""

    def give_up(self, messages: Sequence[WriterCommitMessage | None], noted: Sequence[Lease], batch: BatchId) -> None:
        """What tasks wrote, where Spark gives up the batch: under the leases that they told, or that are `noted`. A
        task that wrote alone and failed has given up by itself.
        """
        written = [message for message in messages if isinstance(message, Written)]
        leases = {one.lease: None for one in written if one.done is None} | dict.fromkeys(noted)
        for lease in leases:
            # Of a stream nothing is known here but the batch's number, and the checkpoint is not asked for.
            BatchTransaction(self.settings, batch, lease.transactional_id).give_up(lease)


def _of_one_lease(written: Sequence[Written]) -> Written:
    """The task that stands for all: all rows were written under its lease. A task without rows may have had another
    one, where the batch began anew after its end.
    """
    with_rows = [one for one in written if one.counts]
    # Who writes alone has a lease of its own.
    leases = {(one.lease, None if one.part is not None else number) for number, one in enumerate(with_rows)}
    if len(leases) > 1 or (with_rows and any(one.done is not None for one in written)):
        raise NotOneWriter(
            f"{len(with_rows)} tasks have written, and not under one lease; nothing was committed: {_ADVICE}"
        )
    return max(with_rows or written, key=lambda one: (one.done is not None, -1 if one.part is None else one.part.life))


def _together(written: Sequence[Written]) -> Counts:
    counts: Counts = {}
    for one in written:
        for topic, partitions in one.counts.items():
            of_topic = counts.setdefault(topic, {})
            for partition, records in partitions.items():
                of_topic[partition] = of_topic.get(partition, 0) + records
    return {topic: dict(sorted(counts[topic].items(), key=lambda item: int(item[0]))) for topic in sorted(counts)}


class EosStreamWriter(_Steps, DataSourceStreamArrowWriter):
    """The streaming writer."""

    def __init__(
        self, settings: SinkSettings, files: Files, notes: Notes | None = None, sharing: Sharing | None = None
    ) -> None:
        super().__init__(settings, sharing)
        self.files = files
        self.notes = notes

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        return BatchTransaction(self.settings, batch, sink_id, self.checkpoint(batch))

    def checkpoint(self, batch: BatchId) -> Checkpoint:
        assert batch.query is not None, "a stream's batch"
        return Checkpoint(self.files, self.settings.checkpoint, batch.query)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        query, number = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query is not None and number is not None, "a streaming write knows its query and batch"
        return self.run_task(iterator, self.transaction(BatchId(query, int(number)), None))

    def identify(self, transaction: BatchTransaction) -> None:
        transaction.identify(is_sole=True)

    def noted(self, lease: Lease, batch: BatchId) -> None:
        if self.notes is not None and self._noted_as is not None:
            self.notes.keep(self._noted_as, batch.number, lease)

    def committed(self, chosen: Written, written: Sequence[Written], commit_ms: int, retries: int) -> None:
        if self.notes is not None and chosen.batch.query is not None:
            metrics = BatchMetrics(
                transactional_id=chosen.lease.transactional_id,
                batch=chosen.batch.number,
                records=sum(one.records for one in written),
                size_bytes=sum(one.size_bytes for one in written),
                retries=retries + sum(one.retries for one in written),
                commit_ms=commit_ms,
                is_replay=chosen.done is not None,
            )
            self.notes.committed(chosen.batch.query, metrics)

    @property
    def _noted_as(self) -> str | None:
        """What task and commit worker both know of the query; None where that is nothing of its own."""
        named = (self.settings.sink_id, self.settings.checkpoint)
        return "|".join(filter(None, named)) or None

    def shared_as(self, batch: int) -> str:
        return f"{self._noted_as or ''}|{batch}|"

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A task that Spark has given up has no message, but may have left its lease with the driver. Best effort: what
        is raised here would stand in the query's exception in the place of what the batch was given up for.
        """
        batch, noted = BatchId(None, batchId), list[Lease]()
        with suppress(ConnectorError):
            if self._noted_as is not None:
                noted = self._over(BatchTransaction(self.settings, batch, None), self.shared_as(batchId))
                if self.notes is not None:
                    noted += self.notes.of(self._noted_as, batchId)
            self.give_up(messages, noted, batch)


class EosBatchWriter(_Steps, DataSourceArrowWriter):
    """The batch writer: one job, one transaction. With `jobId` a job that is run again writes nothing."""

    def __init__(self, settings: SinkSettings, sharing: Sharing | None = None) -> None:
        super().__init__(settings, sharing)
        # Made where the job is planned, and so the same for all attempts of its tasks.
        self._sink_id = settings.sink_id or f"spark-job-{fresh_name()}"
        job = settings.job_id
        self._batch = BatchId(None if job is None else f"job:{job}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.run_task(iterator, self.transaction(self._batch, self._sink_id))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Best effort, too."""
        with suppress(ConnectorError):
            transaction = self.transaction(self._batch, self._sink_id)
            self.give_up(messages, self._over(transaction, self._name), self._batch)
