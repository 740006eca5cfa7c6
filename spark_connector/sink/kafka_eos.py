"""Format `kafka-eos`: each micro-batch becomes visible in Kafka exactly once, whole or not at all.

    spark.dataSource.register(KafkaEos)
    frame.coalesce(1).writeStream.format("kafka-eos").option("kafka.bootstrap.servers", ...).option("topic", ...)

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

from spark_connector.errors import ConnectorError, NotMicroBatches, NotOneWriter
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, drain
from spark_connector.sink.columns import check_columns
from spark_connector.sink.settings import SinkSettings
from spark_connector.workers import keep_what_is_loaded
from tallystick.client.background import fresh_name
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


class KafkaEos(DataSource):
    """The data source. Options: `spark_connector.options.SINK`."""

    @classmethod
    def name(cls) -> str:
        return "kafka-eos"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "EosStreamWriter":
        settings = SinkSettings.of(self.options, streaming=True)
        _check(schema, settings)
        keep_what_is_loaded("planner")
        return EosStreamWriter(settings)

    def writer(self, schema: StructType, overwrite: bool) -> "EosBatchWriter":
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
        self.sink_id = settings.sink_id

    def transaction(self, batch: BatchId) -> BatchTransaction:
        return BatchTransaction(self.settings, self.sink_id, batch)

    def run_task(self, rows: Iterator[pa.RecordBatch], batch: BatchId) -> Written:
        transaction = self.transaction(batch)
        opened = transaction.open()
        if opened.done is not None:
            drain(rows)
            return Written(opened.lease, batch, {}, opened.done)
        written = Written(opened.lease, batch, transaction.write(opened.lease, rows), None)
        keep_what_is_loaded("sink")
        return written

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
            transaction = self.transaction(message.batch)
            if message.done is not None:
                transaction.compare(message.done)
            elif message.batch.query is not None or message.counts:
                transaction.mark(message.lease, message.counts)
                transaction.end(message.lease)
        keep_what_is_loaded("commit")

    def give_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Best effort: whatever stays open is settled by the next lease, or by its timeout.

        Not under the old rules: an abort leaves the epoch as it is there, and leaders before Kafka 3.6 would take a
        marker that is still under way for the begin of a transaction that is never ended (KAFKA-14402).
        """
        for message in messages:
            if isinstance(message, Written) and message.done is None and message.lease.implicit:
                with suppress(ConnectorError):
                    self.transaction(message.batch).abort(message.lease)


def _task(*, expected: str) -> TaskContext:
    context = TaskContext.get()
    assert context is not None, expected
    if context.partitionId() > 0:
        raise NotOneWriter(f"this is task {context.partitionId() + 1} of the write; nothing was committed: {_ADVICE}")
    return context


class EosStreamWriter(_Steps, DataSourceStreamArrowWriter):
    """The streaming writer."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = _task(expected="write runs in a task")
        query, number = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        assert query is not None and number is not None, "a streaming write knows its query and batch"
        return self.run_task(iterator, BatchId(query, int(number)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.give_up(messages)


class EosBatchWriter(_Steps, DataSourceArrowWriter):
    """The batch writer: one job, one transaction. With `jobId` a job that is run again writes nothing."""

    def __init__(self, settings: SinkSettings) -> None:
        super().__init__(settings)
        if not self.sink_id:
            # Made where the job is planned, and so the same for all attempts of its task.
            self.sink_id = f"spark-job-{fresh_name()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        _task(expected="write runs in a task")
        job = self.settings.job_id
        return self.run_task(iterator, BatchId(None if job is None else f"job:{job}", 0))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.decide(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.give_up(messages)
