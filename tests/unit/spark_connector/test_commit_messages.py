"""What the commit worker does with the messages of tasks, before it sends any request."""

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import StringType, StructField, StructType

from spark_connector.checkpoint_files import LocalFiles
from spark_connector.errors import BadOption, NotMicroBatches, NotOneWriter
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction
from spark_connector.sink.foreach_batch import eos_writer
from spark_connector.sink.kafka_eos import EosBatchWriter, EosStreamWriter, KafkaEos, Written
from spark_connector.sink.settings import SinkSettings
from tallystick.client.lease import Lease

SETTINGS = SinkSettings.of({"kafka.bootstrap.servers": "127.0.0.1:1", "sinkId": "s", "topic": "t"}, streaming=True)
MESSAGE = Written(Lease("s", 1, 1, True), BatchId("q", 3), {"t": {"0": 1}}, None)


class Asked(Exception):
    """The writer has begun its requests for this batch."""


class Watched(EosStreamWriter):
    """Sends no request."""

    def transaction(self, batch: BatchId, sink_id: str | None) -> BatchTransaction:
        raise Asked(batch)


def test_what_is_in_a_topic_is_not_overwritten() -> None:
    """Nor is it said to have been, as a batch job that appends would."""
    sink = KafkaEos({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})
    schema = StructType([StructField("value", StringType())])
    assert isinstance(sink.writer(schema, overwrite=False), EosBatchWriter)
    with pytest.raises(BadOption, match="append"):
        sink.writer(schema, overwrite=True)


@pytest.mark.parametrize(
    ("topic", "named", "words"),
    [
        ({"topic": "t"}, {"attempts": 0}, "attempts=0"),
        ({"topic": "t"}, {"tasks": 0}, "tasks=0"),
        ({}, {"topics": "invoices"}, r"topics=\['invoices'\]"),
        ({"topic": "t"}, {"topics": ["invoices"]}, "not both"),
        ({}, {}, "option topic, or the argument topics"),
    ],
)
def test_many_writers_are_not_told_what_would_lose_rows(topic: dict[str, str], named: Any, words: str) -> None:
    """With no attempt at all a batch would be noted as done, and its rows would be nowhere."""
    with pytest.raises(BadOption, match=words):
        eos_writer({"kafka.bootstrap.servers": "127.0.0.1:1", **topic}, **named)


def test_a_batch_without_tasks_has_nothing_to_decide() -> None:
    """It sends no request, unlike a batch with a task."""
    with pytest.raises(Asked) as raised:
        Watched(SETTINGS, LocalFiles()).commit([MESSAGE], 3)
    assert raised.value.args == (MESSAGE.batch,)
    Watched(SETTINGS, LocalFiles()).commit([], 3)


def test_rows_that_no_task_was_given_are_not_committed_over() -> None:
    """So Spark does in continuous mode: its epoch would be noted as done, and its rows would be lost."""
    with pytest.raises(NotMicroBatches, match="continuous"):
        EosStreamWriter(SETTINGS, LocalFiles()).commit([None], 3)
    with pytest.raises(NotMicroBatches):
        EosStreamWriter(SETTINGS, LocalFiles()).commit([MESSAGE, None], 3)


def test_two_writers_are_not_one_transaction() -> None:
    with pytest.raises(NotOneWriter, match=r"coalesce\(1\)"):
        EosStreamWriter(SETTINGS, LocalFiles()).commit([MESSAGE, MESSAGE], 3)
