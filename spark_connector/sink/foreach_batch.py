"""Mode An for users: a function for `foreachBatch` that writes each micro-batch with many tasks, in one transaction.

    frame.writeStream.foreachBatch(eos_writer({
        "kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "invoices", "checkpointLocation": "/data/invoices",
    })).option("checkpointLocation", "/data/invoices").start()

The steps are those of mode A1, and all but the second are the driver's:

    1 open   the lease, then the marker. A batch that is there already is only computed, so that Spark's state moves on
    2 write  the tasks, under this lease, to partitions that each claims for itself
    3 mark   the source's offsets and the marker
    4 end    EndTxn: this alone decides

Rule 1. Whatever fails in 2 or 3, the batch is tried again as a whole, from step 1: the new lease fences the tasks of
        the old one. No EndTxn(abort) before that: under the old rules it would leave the epoch as it is, and with it
        the right of a late task to write.
Rule 2. What a task claimed it must acknowledge; a claim without an acknowledgement means that rows may be missing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_connector.errors import BadOption, BatchIncomplete, ConnectorError, TransactionAborted
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts
from spark_connector.sink.claims import Claims, ClaimServer
from spark_connector.sink.columns import check_columns
from spark_connector.sink.many_writers import (
    ACKNOWLEDGED,
    EncodeTask,
    WriteTask,
    acknowledged,
    is_shuffled,
    same_error,
    shuffled,
)
from spark_connector.sink.settings import SinkSettings
from tallystick.client.lease import Lease

_QUERY_ID = "sql.streaming.queryId"
_AGAIN = (TransactionAborted, BatchIncomplete, PySparkException, Py4JError)
"""What another try may cure. A fence is not among them: another query has the sink."""


def eos_writer(
    options: Mapping[str, str], *, tasks: int | None = None, attempts: int = 3
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`. Options as for format `kafka-eos`; `topic` is needed, all rows go there.

    `tasks` is how many write at a time, by default as many as Spark has cores for, and never more than the topic has
    partitions. `attempts` is how often a batch is tried before the query fails.
    """
    settings = SinkSettings.of(options, streaming=True)
    if settings.topic is None:
        raise BadOption("many writers need option topic: their transaction is shared out by the topic's partitions")
    return EosWriter(settings, tasks, attempts)


@dataclass
class EosWriter:
    """See the head of this file."""

    settings: SinkSettings
    tasks: int | None
    attempts: int
    _server: ClaimServer | None = field(default=None, init=False, repr=False)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        check_columns([(c.name, c.dataType.simpleString()) for c in frame.schema.fields], topic_named=True)
        transaction = self.transaction(BatchId(_query_of(frame.sparkSession), batch_id))
        for left in range(self.attempts, 0, -1):
            opened = transaction.open()
            if opened.done is not None:
                self.replay(frame, transaction, opened.done)
                return
            try:
                transaction.mark(opened.lease, self.write(frame, transaction, opened.lease))
            except _AGAIN as error:
                if left == 1 or _is_stopped(error):
                    raise
                continue
            transaction.end(opened.lease)
            return

    def transaction(self, batch: BatchId) -> BatchTransaction:
        return BatchTransaction(self.settings, self.settings.sink_id, batch)

    def write_task(self, batch: BatchId, lease: Lease, claims: Claims, encode: EncodeTask | None) -> WriteTask:
        """What the writing tasks run; `encode` where they encode as well."""
        assert self._server is not None
        return WriteTask(self.settings, batch, lease, self._server.address, claims.token, encode)

    def replay(self, frame: DataFrame, transaction: BatchTransaction, done: Marker) -> None:
        """The batch is there. Its plan runs all the same: stateful operators must reach this batch's version."""
        transaction.compare(done)
        frame.write.format("noop").mode("overwrite").save()

    def write(self, frame: DataFrame, transaction: BatchTransaction, lease: Lease) -> Counts:
        """Step 2: the tasks write. Returns when every row is acknowledged."""
        assert self.settings.topic is not None
        session = frame.sparkSession
        partitions = transaction.partitions_of(self.settings.topic)
        cores = session.sparkContext.defaultParallelism
        tasks = max(1, min(self.tasks or cores, partitions))
        encode = EncodeTask(self.settings, transaction.batch, partitions, tasks)
        with self._claim_server(session).opened() as claims:
            if is_shuffled(frame, tasks):
                batches = shuffled(frame, encode, max(tasks, cores))
                task = self.write_task(transaction.batch, lease, claims, None)
            else:
                batches = frame.coalesce(tasks)
                task = self.write_task(transaction.batch, lease, claims, encode)
            rows = batches.mapInArrow(task, ACKNOWLEDGED).collect()
            for row in rows:
                if row["error"] is not None:
                    raise same_error(row["error"], row["message"])
            if acknowledged(rows) != claims.holders:
                raise BatchIncomplete(
                    f"batch {transaction.batch.number}: tasks claimed the partitions {sorted(claims.holders)} and "
                    f"acknowledged {sorted(acknowledged(rows))}: an attempt was lost. Nothing of the batch is visible"
                )
        return {self.settings.topic: {str(row["partition"]): row["records"] for row in sorted(rows)}} if rows else {}

    def _claim_server(self, session: SparkSession) -> ClaimServer:
        if self._server is None:
            configured = session.sparkContext.getConf()
            host = configured.get("spark.driver.host", "127.0.0.1")
            self._server = ClaimServer(configured.get("spark.driver.bindAddress", host), host)
        return self._server


def _query_of(session: SparkSession) -> str:
    """The query's id, which is the checkpoint's; Spark keeps it where its jobs can see it."""
    query = session.sparkContext.getLocalProperty(_QUERY_ID)
    if query is None:
        raise ConnectorError("eos_writer is for foreachBatch of a streaming query: for a batch job use kafka-eos")
    return str(query)


def _is_stopped(error: Exception) -> bool:
    """Whether the user stops the query: Spark cancels its job, and says so in words only."""
    return not isinstance(error, ConnectorError) and bool(re.search("(?i)cancell?ed|interrupted", str(error)))
