"""Mode An, the part of Spark's tasks: rows become record batches where they are, the batches come to the task of their
Kafka partition, and each task writes its own.

    rows -> EncodeTask -> (place, batch) -> shuffle -> WriteTask -> (attempt, place, records)

A place is a partition of one of the topics (`places`); with one topic it is the partition.

What is shuffled is a few large binaries, not many small rows: that costs Spark's JVM next to nothing.

Rule 1. A row's partition follows from the row alone (its `partition`, its key's murmur2, else a hash of its value), so
        a stage that Spark computes again gives every row the same place.
Rule 2. Without keys, named partitions and topics nothing is shuffled: task t of n takes turns among the partitions t,
        t + n ... With one task nothing is shuffled either.
Rule 3. A partition is claimed before its first batch is written, whatever the plan promised.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_connector import errors
from spark_connector.errors import ClaimRefused, ConnectorError
from spark_connector.lines import Address
from spark_connector.sink.batch_transaction import Addressed, BatchId, BatchTransaction
from spark_connector.sink.claims import claim
from spark_connector.sink.columns import rows_by_topic
from spark_connector.sink.encode import Encoder
from spark_connector.sink.places import Places
from spark_connector.sink.settings import SinkSettings
from spark_connector.workers import keep_what_is_loaded
from tallystick.client.background import now_ms
from tallystick.client.lease import Lease

ACKNOWLEDGED = "attempt long, place int, records long, error string, message string"
"""What a task returns to the driver: a row per place; or one row with the error's name and message."""
ENCODED = "place int, batch binary"
"""What an `EncodeTask` hands on. In place -1: the name and the words of what stopped it, as JSON."""
_ACKNOWLEDGED = pa.schema(
    [
        ("attempt", pa.int64()),
        ("place", pa.int32()),
        ("records", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)
_ENCODED = pa.schema([("place", pa.int32()), ("batch", pa.binary())])
_STOPPED = -1
_MOST_BYTES = 16 << 20
"""Handed on at a time."""


@dataclass(frozen=True, slots=True)
class EncodeTask:
    """Rows into record batches, for `mapInArrow`. Without effect on anything: Spark may repeat it as it likes."""

    settings: SinkSettings
    batch: BatchId
    places: Places
    tasks: int

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in a task"
        encoder = Encoder(self.settings.codec, self.settings.batch_bytes, by_value=True)
        own = range(context.partitionId() % self.tasks, self.places.total, self.tasks)
        try:
            for turn, arrived in enumerate(rows):
                for topic, part in rows_by_topic(arrived, self.settings.topic) if arrived.num_rows else ():
                    begin, count = self.places.begin_of(topic)
                    mine = own if count == self.places.total else range(count)
                    placed = _placed(part, mine[(self.batch.number + turn) % len(mine)])
                    partitions, batches = encoder.columns(placed, count, now_ms())
                    yield from _in_pieces([begin + partition for partition in partitions], batches)
        except ConnectorError as error:
            failure = json.dumps([type(error).__name__, str(error)]).encode()
            yield pa.RecordBatch.from_arrays([pa.array([_STOPPED], pa.int32()), pa.array([failure])], schema=_ENCODED)
        keep_what_is_loaded("encode")


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Record batches into Kafka, for `mapInArrow`. Pickled; everything with a connection is made where it runs.

    `encode` goes before where rows need not change their task.
    """

    settings: SinkSettings
    batch: BatchId
    lease: Lease
    address: Address
    token: str
    encode: EncodeTask | None
    places: Places

    def transaction(self) -> BatchTransaction:
        return BatchTransaction(self.settings, self.batch, self.lease.transactional_id)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in a task"
        attempt = context.taskAttemptId()
        try:
            transaction = self.transaction()
            transaction.connection.client.forget()
            batches = rows if self.encode is None else self.encode(rows)
            counts = transaction.send(self.lease, self._claimed(batches, attempt))
        except ClaimRefused:
            raise  # Not an answer: it must not count as the task's result where another attempt goes on.
        except ConnectorError as error:
            yield _told(attempt, [(None, None, type(error).__name__, str(error))])
            return
        written = {
            self.places.begin_of(topic)[0] + int(partition): records
            for topic, by_partition in counts.items()
            for partition, records in by_partition.items()
        }
        yield _told(attempt, [(place, records, None, None) for place, records in sorted(written.items())])
        keep_what_is_loaded("writer")

    def _claimed(self, encoded: Iterator[pa.RecordBatch], attempt: int) -> Iterator[list[Addressed]]:
        """The batches with their partitions, all of them claimed."""
        mine: set[int] = set()
        for arrived in encoded:
            places, column = arrived.column(0).to_pylist(), arrived.column(1)
            if _STOPPED in places:
                raise same_error(*json.loads(column[places.index(_STOPPED)].as_py()))
            new = sorted(set(places) - mine)
            if new:
                claim(self.address, self.token, attempt, new)
                mine.update(new)
            yield [
                (self.places.where(place), bytearray(memoryview(batch.as_buffer())))
                for place, batch in zip(places, column, strict=True)
            ]


def _placed(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """The rows as they are where something in them says their partition, else all in this one."""
    if {"key", "partition"} & set(batch.schema.names):
        return batch
    column = pa.array(np.full(batch.num_rows, partition, np.int32))
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*batch.schema.names, "partition"])


def _in_pieces(places: Sequence[int], batches: Any) -> Iterator[pa.RecordBatch]:
    """Some at a time, for Arrow's binaries end at 2 GiB."""
    begin = size = 0
    for end, length in enumerate([*pc.binary_length(batches).to_pylist(), _MOST_BYTES]):
        size += length
        if size >= _MOST_BYTES and end > begin:
            columns = [pa.array(places[begin:end], pa.int32()), batches[begin:end].cast(pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=_ENCODED)
            begin, size = end, length


def _told(attempt: int, rows: Sequence[tuple[int | None, int | None, str | None, str | None]]) -> pa.RecordBatch:
    columns = [[attempt] * len(rows), *(list(column) for column in zip(*rows, strict=True))] if rows else [[]] * 5
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ACKNOWLEDGED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ACKNOWLEDGED)


def is_shuffled(frame: DataFrame, tasks: int, topics: int) -> bool:
    """Whether rows may have to change their task (rule 2)."""
    return tasks > 1 and (topics > 1 or bool({"key", "partition"} & set(frame.columns)))


def shuffled(frame: DataFrame, encode: EncodeTask, most_tasks: int) -> DataFrame:
    """The rows as record batches where their task is: a task for every `tasks`-th place."""
    batches = frame.coalesce(most_tasks).mapInArrow(encode, ENCODED)
    return batches.repartitionById(encode.tasks, F.pmod(F.col("place"), F.lit(encode.tasks)))


def acknowledged(rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Which attempt wrote to each place, by the results of the tasks."""
    return {row["place"]: row["attempt"] for row in rows}


def same_error(name: str, message: str) -> ConnectorError:
    """What a task raised, with the type it had there."""
    kind = getattr(errors, name, ConnectorError)
    assert issubclass(kind, ConnectorError)
    error: ConnectorError = kind(message)
    return error
