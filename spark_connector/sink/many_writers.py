"""Mode An, the part of Spark's tasks: rows come to the task of their Kafka partition, and each task writes its own.

Rule 1. A row's partition follows from the row alone (its `partition`, its key's murmur2, else a hash of its value), so
        a stage that Spark computes again gives every row the same place.
Rule 2. Without keys and named partitions nothing is shuffled: task t of n takes turns among the partitions t, t + n ...
Rule 3. A partition is claimed before its first row is written, whatever the plan promised.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_connector.errors import ClaimRefused, ConnectorError
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction
from spark_connector.sink.claims import Address, claim
from spark_connector.sink.columns import cells, named_partitions
from spark_connector.sink.partitioner import murmur2_all, partitions_for
from spark_connector.sink.settings import SinkSettings
from tallystick.client.lease import Lease

ACKNOWLEDGED = "attempt long, partition int, records long, error string, message string"
"""What a task tells the driver: a row per partition; or one row with the name and the words of what stopped it."""
_SCHEMA = pa.schema(
    [
        ("attempt", pa.int64()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What each task runs, for `mapInArrow`. Pickled; everything with a connection is made where it runs."""

    settings: SinkSettings
    batch: BatchId
    lease: Lease
    address: Address
    token: str
    partitions: int
    tasks: int

    def transaction(self) -> BatchTransaction:
        return BatchTransaction(self.settings, self.lease.transactional_id, self.batch)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in a task"
        attempt = context.taskAttemptId()
        try:
            counts = self.transaction().write(self.lease, self._claimed(rows, context.partitionId(), attempt))
        except ClaimRefused:
            raise  # Not an answer: it must not count as the task's result where another attempt goes on.
        except ConnectorError as error:
            yield _told(attempt, [(None, None, type(error).__name__, str(error))])
            return
        written = counts.get(self.settings.topic or "", {})
        yield _told(attempt, [(int(partition), records, None, None) for partition, records in written.items()])

    def _claimed(self, rows: Iterator[pa.RecordBatch], number: int, attempt: int) -> Iterator[pa.RecordBatch]:
        """The rows with a partition each, all of them claimed."""
        mine: set[int] = set()
        own = range(number % self.tasks, self.partitions, self.tasks)
        for turn, batch in enumerate(rows):
            placed = (
                batch if has_places(batch.schema.names) else _placed(batch, own[(self.batch.number + turn) % len(own)])
            )
            named = named_partitions(placed)
            assert named is not None, "every row has its partition by now"
            new = sorted({int(partition) for partition in np.unique(named)} - mine)
            if new:
                claim(self.address, self.token, attempt, new)
                mine.update(new)
            yield placed


def has_places(names: Sequence[str]) -> bool:
    return "partition" in names


def _placed(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    column = pa.array(np.full(batch.num_rows, partition, np.int32))
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "partition"])


def _told(attempt: int, rows: Sequence[tuple[int | None, int | None, str | None, str | None]]) -> pa.RecordBatch:
    columns = [[attempt] * len(rows), *(list(column) for column in zip(*rows, strict=True))] if rows else [[]] * 5
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def distributed(frame: DataFrame, partitions: int, tasks: int) -> DataFrame:
    """The rows where their task is: a task for every `tasks`-th partition."""
    if not {"key", "partition"} & set(frame.columns):
        return frame.coalesce(tasks)
    place = [F.col("partition")] if "partition" in frame.columns else []
    if "key" in frame.columns:
        place.append(_partition_of_key(partitions)(F.col("key").cast("binary")))
    place.append(F.pmod(F.xxhash64(F.col("value")), F.lit(partitions)).cast("int"))
    placed = frame.withColumn("partition", F.coalesce(*place))
    return placed.repartitionById(tasks, F.pmod(F.col("partition"), F.lit(tasks)))


def _partition_of_key(partitions: int) -> Callable[..., Any]:
    def places(keys: pa.Array) -> pa.Array:
        found = cells(pa.RecordBatch.from_arrays([keys], names=["key"]), "key")
        assert found is not None
        hashes = murmur2_all(np.frombuffer(found.data, np.uint8), found.offsets[:-1], found.offsets[1:])
        chosen = partitions_for(hashes, partitions).astype(np.int32)
        return pa.array(chosen, mask=None if found.valid is None else ~found.valid)

    # Spark takes a user's function for Arrow's by this name, not by hints that it would look up here.
    udf: Callable[..., Any] = F.arrow_udf(places, "int")
    return udf


def acknowledged(rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Which attempt wrote to each partition, by what the tasks told."""
    return {row["partition"]: row["attempt"] for row in rows}
