"""Mode An for users: a function for `foreachBatch` that writes each micro-batch with many tasks, in one transaction.

    frame.writeStream.foreachBatch(eos_writer({
        "kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "invoices", "checkpointLocation": "/data/invoices",
    })).option("checkpointLocation", "/data/invoices").start()

The steps are those of mode A1, and all but the second are the driver's:

    1 open   the lease, then the marker. A batch that is there already is only computed, so that Spark's state moves on
    2 write  the tasks, under this lease, to all partitions, each task in its turn
    3 mark   the source's offsets and the marker
    4 end    EndTxn: this alone decides

Rule 1. Whatever fails in 2 or 3, the batch is tried again as a whole, from step 1: the new lease fences the tasks of
        the old one. No EndTxn(abort) before that: under the old rules it would leave the epoch as it is, and with it
        the right of a late task to write.
        Only a writer that tries no more gives its transaction up, in a way by which the epoch moves in any case.
Rule 2. What was written must be what Spark has the results of; else an attempt was lost, and rows may be missing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_connector.checkpoint_files import Checkpoint
from spark_connector.errors import (
    BadOption,
    BatchIncomplete,
    CalledTwice,
    ConnectorError,
    TransactionAborted,
)
from spark_connector.progress import Marker
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts
from spark_connector.sink.columns import check_columns
from spark_connector.sink.many_writers import RESULT, WriteTask, results
from spark_connector.sink.places import Places
from spark_connector.sink.running_query import RunningQuery, running_query
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.turn_server import TurnServer
from spark_connector.sink.turns import Turns
from tallystick.client.lease import Lease

_OF_SPARK = (PySparkException, Py4JError)
_AGAIN = (TransactionAborted, BatchIncomplete, *_OF_SPARK)
"""What another try may cure. A fence is not among them: another query has the sink."""
_runs: dict[str, tuple[str, dict[str, int]]] = {}
"""By query its run in this process, and the last batch of each of its sink ids."""
_GRACE_S = 60.0
"""A task may wait twice for a broker that is away while it has a turn; after that, and this, the turn is lost."""


def eos_writer(
    options: Mapping[str, str], *, topics: Sequence[str] = (), tasks: int | None = None, attempts: int = 3
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`. Options as for format `kafka-eos`. All rows go to option `topic`; or each says in
    its column `topic` which of `topics`, and all of these are written in one transaction.

    All tasks of the frame write; `tasks` makes them fewer, if they are more (`coalesce`). `attempts` is how often a
    batch is tried before the query fails.
    """
    settings = SinkSettings.of(options, streaming=True)
    if isinstance(topics, str):
        raise BadOption(f"topics is a list of topics: topics=[{topics!r}]")
    if attempts < 1 or (tasks is not None and tasks < 1):
        raise BadOption(f"attempts={attempts}, tasks={tasks}: both are 1 or more")
    if (settings.topic is None) == (not topics):
        raise BadOption(
            "many writers need option topic, or the argument topics, and not both: their transaction is shared out by "
            "the topics' partitions"
        )
    if settings.progress_topic in topics:
        raise BadOption(f"topic {settings.progress_topic} is the control topic: choose another one")
    return EosWriter(settings, tasks, attempts, tuple(dict.fromkeys(topics)))


@dataclass
class EosWriter:
    """See the head of this file."""

    settings: SinkSettings
    tasks: int | None
    attempts: int
    topics: tuple[str, ...] = ()
    """Those that rows may name; none where option `topic` says it."""
    _server: TurnServer | None = field(default=None, init=False, repr=False)
    _running: RunningQuery | None = field(default=None, init=False, repr=False)
    """Where this process is made for it."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        columns = [(column.name, column.dataType.simpleString()) for column in frame.schema.fields]
        check_columns(columns, topic_named=not self.topics)
        running = self._running_query(frame.sparkSession)
        done = _batches_of(running)
        transaction = self.transaction(BatchId(running.query, batch_id), running.checkpoint)
        transaction.identify(is_sole=False, others=done)
        if done.get(transaction.sink_id) == batch_id:
            raise CalledTwice(
                f"sink {transaction.sink_id} has written its part of batch {batch_id} already: two eos_writers of one "
                "foreachBatch need topics of their own, or each its option sinkId; or give one of them all rows (union)"
            )
        self._write_once(frame, transaction)
        done[transaction.sink_id] = batch_id

    def _running_query(self, session: SparkSession) -> RunningQuery:
        running = self._running or running_query(session, self.settings.checkpoint)
        if self._server is None:
            self._server = TurnServer(running.bind, running.host)
        if running.is_only_one:
            self._running = running
        return running

    def _write_once(self, frame: DataFrame, transaction: BatchTransaction) -> None:
        for left in range(self.attempts, 0, -1):
            opened = transaction.open()
            if opened.done is not None:
                self.replay(frame, transaction, opened.done)
                return
            try:
                transaction.mark(opened.lease, self.write(frame, transaction, opened.lease))
            except _AGAIN as error:
                if left > 1 and not _is_stopped(error):
                    continue
                transaction.give_up(opened.lease)
                raise
            except BaseException:
                transaction.give_up(opened.lease)
                raise
            transaction.end(opened.lease)
            return

    def transaction(self, batch: BatchId, checkpoint: Checkpoint) -> BatchTransaction:
        return BatchTransaction(self.settings, batch, None, checkpoint)

    def write_task(self, transaction: BatchTransaction, lease: Lease, turns: Turns, places: Places) -> WriteTask:
        """What the tasks run."""
        assert self._server is not None
        return WriteTask(self.settings, transaction.batch, lease, self._server.address, turns.token, places)

    def replay(self, frame: DataFrame, transaction: BatchTransaction, done: Marker) -> None:
        """The batch is there. Its plan runs all the same: stateful operators must reach this batch's version."""
        transaction.compare(done)
        frame.write.format("noop").mode("overwrite").save()

    def write(self, frame: DataFrame, transaction: BatchTransaction, lease: Lease) -> Counts:
        """Step 2: the tasks write. Returns when every row is acknowledged."""
        topics = self.topics or (self.settings.topic or "",)
        places = Places([(topic, transaction.partitions_of(topic)) for topic in topics])
        written = frame if self.tasks is None else frame.coalesce(self.tasks)
        assert self._server is not None
        with self._server.opened(2 * self.settings.patience_s + _GRACE_S) as turns:
            task = self.write_task(transaction, lease, turns, places)
            try:
                rows = written.mapInArrow(task, RESULT).collect()
            except _OF_SPARK:
                if turns.failure is not None and not isinstance(turns.failure, BatchIncomplete):
                    raise turns.failure from None  # What stopped a task, and not that others were refused then.
                raise
            return places.by_topic(turns.complete(results(rows)))


def _batches_of(running: RunningQuery) -> dict[str, int]:
    """The last batch of each sink id in this run of the query; a new run begins with none."""
    if running.query not in _runs or _runs[running.query][0] != running.run:
        _runs[running.query] = (running.run, {})
    return _runs[running.query][1]


def _is_stopped(error: Exception) -> bool:
    """Whether the user stops the query: Spark cancels its job, and says so in words only."""
    return not isinstance(error, ConnectorError) and bool(re.search("(?i)cancell?ed|interrupted", str(error)))
