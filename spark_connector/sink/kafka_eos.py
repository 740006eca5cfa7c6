"""Format `kafka-eos`: each micro-batch becomes visible in Kafka exactly once, whole or not at all.

    spark.dataSource.register(KafkaEos)
    frame.coalesce(1).writeStream.format("kafka-eos").option("kafka.bootstrap.servers", ...).option("topic", ...)

Spark makes the data source and its writer in three processes: the planner (pickled there, before the tasks), the
commit worker, and, unpickled, each task. So nothing here has an effect before `write` and `commit`. `commit` may run
more than once per batch, a lost attempt of a task is never told, and `abort` follows a `commit` that raised.
"""

from collections.abc import Iterator, Sequence
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
from spark_connector.errors import BadOption, NotMicroBatches, NotOneWriter
from spark_connector.metrics import BatchMetrics
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, drain
from spark_connector.sink.columns import check_columns
from spark_connector.sink.lease_notes import Notes
from spark_connector.sink.settings import SinkSettings
from spark_connector.workers import keep_what_is_loaded
from tallystick.client.background import fresh_name, now_ms
from tallystick.client.lease import Lease

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_ADVICE = (
    "put .coalesce(1) before the write: the sink writes each micro-batch with one task, in one transaction; for many "
    "writers use foreachBatch with spark_connector.sink.foreach_batch.eos_writer"
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


class KafkaEos(DataSource):
    """The data source. Options: `spark_connector.options.SINK`."""

    files: Files = LocalFiles()
    """How the checkpoint is read; `register` gives its sessions the way through the driver."""
    notes: Notes | None = None
    """Where tasks tell their leases; `register` knows it."""

    @classmethod
    def name(cls) -> str:
        return "kafka-eos"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "EosStreamWriter":
        settings = SinkSettings.of(self.options, streaming=True)
        _check(schema, settings)
        keep_what_is_loaded("planner")
        return EosStreamWriter(settings, self.files, self.notes)

    def writer(self, schema: StructType, overwrite: bool) -> "EosBatchWriter":
        if overwrite:
            raise BadOption('mode("overwrite"): what is in a topic is not replaced; use mode("append")')
        settings = SinkSettings.of(self.options, streaming=False)
        _check(schema, settings)
        return EosBatchWriter(settings)


def _check(schema: StructType, settings: SinkSettings) -> None:
    columns = [(column.name, column.dataType.simpleString()) for column in schema.fields]
    check_columns(columns, topic_named=settings.topic is not None)


class _Steps:
    """What streaming and batch have in common: a task's part and the driver's part."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        """The steps for a batch; in the task the sink id is not known yet."""
        return BatchTransaction(self.settings, batch, sink_id)

    def run_task(self, rows: Iterator[pa.RecordBatch], transaction: BatchTransaction) -> Written:
        batch, opened = transaction.batch, transaction.open()
        if opened.done is not None:
            drain(rows)
            return Written(opened.lease, batch, {}, opened.done)
        self.noted(opened.lease, batch)
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
        """Commit what the one task wrote. No task at all, no rows: nothing to decide.

        A task that succeeded has a message in every micro-batch. In continuous mode Spark calls no task of a Python
        sink, drops the rows, and would commit its epochs over them.
        """
        if any(message is None for message in messages):
            raise NotMicroBatches(
                "a task wrote nothing at all: this is continuous mode, in which Spark drops the rows of Python sinks; "
                "nothing was committed: use trigger(processingTime=...) or trigger(availableNow=True)"
            )
        written = [message for message in messages if isinstance(message, Written)]
        if len(written) > 1:
            raise NotOneWriter(f"{len(written)} tasks have written; nothing was committed: {_ADVICE}")
        for message in written:
            began_ms = now_ms()
            transaction = self.transaction(message.batch, message.lease.transactional_id)
            if message.done is not None:
                transaction.compare(message.done)
            elif message.batch.query is not None or message.counts:
                transaction.mark(message.lease, message.counts)
                transaction.end(message.lease)
            self.committed(message, now_ms() - began_ms, message.retries + transaction.retries)
        keep_what_is_loaded("commit")

    def committed(self, written: Written, commit_ms: int, retries: int) -> None:
        """Called when a batch is in Kafka."""

    def give_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks wrote, where Spark gives up the batch; a task that failed has given up by itself."""
        for message in messages:
            if isinstance(message, Written) and message.done is None:
                self.transaction(message.batch, message.lease.transactional_id).give_up(message.lease)


def _task(*, expected: str) -> TaskContext:
    context = TaskContext.get()
    assert context is not None, expected
    if context.partitionId() > 0:
        raise NotOneWriter(f"this is task {context.partitionId() + 1} of the write; nothing was committed: {_ADVICE}")
    return context


class EosStreamWriter(_Steps, DataSourceStreamArrowWriter):
    """The streaming writer."""

    def __init__(self, settings: SinkSettings, files: Files, notes: Notes | None = None) -> None:
        super().__init__(settings)
        self.files = files
        self.notes = notes

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        return BatchTransaction(self.settings, batch, sink_id, self.checkpoint(batch))

    def checkpoint(self, batch: BatchId) -> Checkpoint:
        assert batch.query is not None, "a stream's batch"
        return Checkpoint(self.files, self.settings.checkpoint, batch.query)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = _task(expected="write runs in a task")
        query, number = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query is not None and number is not None, "a streaming write knows its query and batch"
        transaction = self.transaction(BatchId(query, int(number)), None)
        transaction.identify(is_sole=True)
        return self.run_task(iterator, transaction)

    def noted(self, lease: Lease, batch: BatchId) -> None:
        if self.notes is not None and self._noted_as is not None:
            self.notes.keep(self._noted_as, batch.number, lease)

    def committed(self, written: Written, commit_ms: int, retries: int) -> None:
        if self.notes is not None and written.batch.query is not None:
            metrics = BatchMetrics(
                transactional_id=written.lease.transactional_id,
                batch=written.batch.number,
                records=sum(sum(partitions.values()) for partitions in written.counts.values()),
                size_bytes=written.size_bytes,
                retries=retries,
                commit_ms=commit_ms,
                is_replay=written.done is not None,
            )
            self.notes.committed(written.batch.query, metrics)

    @property
    def _noted_as(self) -> str | None:
        """What task and commit worker both know of the query; None where that is nothing of its own."""
        named = (self.settings.sink_id, self.settings.checkpoint)
        return "|".join(filter(None, named)) or None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A task that Spark has given up has no message, but may have left its lease with the driver."""
        self.give_up(messages)
        if self.notes is not None and self._noted_as is not None:
            for lease in self.notes.of(self._noted_as, batchId):
                BatchTransaction(self.settings, BatchId(None, batchId), lease.transactional_id).give_up(lease)


class EosBatchWriter(_Steps, DataSourceArrowWriter):
    """The batch writer: one job, one transaction. With `jobId` a job that is run again writes nothing."""

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__(settings)
        # Made where the job is planned, and so the same for all attempts of its task.
        self._sink_id = settings.sink_id or f"spark-job-{fresh_name()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        _task(expected="write runs in a task")
        job = self.settings.job_id
        return self.run_task(
            iterator, self.transaction(BatchId(None if job is None else f"job:{job}", 0), self._sink_id)
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.give_up(messages)
