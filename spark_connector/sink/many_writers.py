"""Mode An, the part of Spark's tasks: each turns its rows into record batches and writes them, to all partitions.

    rows -> WriteTask -> (task, attempt, records)

Nothing is shuffled: which task writes to a partition is a matter of turns (`turns`), one round of batches at a time.
A place is a partition of one of the topics (`places`); with one topic it is the partition.

Rule 1. A task's result counts only if it is the attempt's that wrote: `Turns.complete` compares them.
Rule 2. What stopped a task is its result where nobody can write under the lease any more; an attempt that was refused
        because of another one fails, for that one's result is the task's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import TaskContext

from spark_connector.errors import ConnectorError, TurnRefused, same_error
from spark_connector.lines import Address
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction
from spark_connector.sink.places import Places
from spark_connector.sink.record_batches import record_batches
from spark_connector.sink.settings import SinkSettings
from spark_connector.sink.turn_sender import TurnSender
from spark_connector.sink.turn_server import TurnsOfTask
from spark_connector.workers import keep_what_is_loaded
from tallystick.client.lease import Lease

RESULT = "task int, attempt long, records long, error string, message string"
"""What a task returns to the driver, in one row."""
_RESULT = pa.schema(
    [
        ("task", pa.int32()),
        ("attempt", pa.int64()),
        ("records", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Rows into Kafka, for `mapInArrow`. Pickled; everything with a connection is made where it runs."""

    settings: SinkSettings
    batch: BatchId
    lease: Lease
    address: Address
    token: str
    places: Places
    senders: ClassVar[type[TurnSender]] = TurnSender

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in a task"
        task, attempt = context.partitionId(), context.taskAttemptId()
        try:
            records = self._written(rows, task, attempt)
        except TurnRefused:
            raise  # Not an answer: it must not count as the task's result where another attempt goes on.
        except ConnectorError as error:
            yield _told(task, attempt, 0, error)
            return
        yield _told(task, attempt, records)
        keep_what_is_loaded("writer")

    def sender(self, transaction: BatchTransaction, turns: TurnsOfTask) -> TurnSender:
        settings = self.settings
        return self.senders(
            transaction.connection.client,
            self.lease,
            self.places.place_of,
            turns,
            patience_s=settings.patience_s,
            room_bytes=settings.room_bytes,
        )

    def _written(self, rows: Iterator[pa.RecordBatch], task: int, attempt: int) -> int:
        """How many records of this attempt the broker has acknowledged: all of them."""
        transaction = BatchTransaction(self.settings, self.batch, self.lease.transactional_id)
        transaction.look_anew(self.lease)
        turns = TurnsOfTask.of(self.address, self.token, task, attempt)
        sender = self.sender(transaction, turns)
        run, doing = transaction.connection.run, f"writing batch {self.batch.number}"
        try:
            for batches in record_batches(rows, self.settings, self._partitions_of, task + self.batch.number):
                run(sender.offer(batches), doing)
            run(sender.flush(), doing)
            run(turns.done(), doing)
        except TurnRefused:
            raise  # The other attempt may go on.
        except ConnectorError as error:
            run(turns.failed(error), doing)
            raise
        finally:
            run(sender.close(), doing)
            run(turns.close(), doing)
        return sum(totals.records for totals in sender.totals.values())

    def _partitions_of(self, topic: str) -> int:
        return self.places.begin_of(topic)[1]


def _told(task: int, attempt: int, records: int, error: ConnectorError | None = None) -> pa.RecordBatch:
    name, message = (None, None) if error is None else (type(error).__name__, str(error))
    row = (task, attempt, records, name, message)
    arrays = [pa.array([cell], field.type) for cell, field in zip(row, _RESULT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)


def results(rows: Iterable[Mapping[str, Any]]) -> dict[int, tuple[int, int]]:
    """By task its attempt and how much it wrote. Raises what stopped one."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        if row["error"] is not None:
            raise same_error(row["error"], row["message"])
        found[row["task"]] = (row["attempt"], row["records"])
    return found
