"""What the commit worker does with the messages of tasks, before it sends any request."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import StringType, StructField, StructType

from spark_connector.checkpoint_files import LocalFiles
from spark_connector.errors import BadOption, BatchIncomplete, NotMicroBatches, NotOneWriter, SourceOffsetsUnknown
from spark_connector.progress import Marker
from spark_connector.sink.batch_server import Part
from spark_connector.sink.batch_transaction import BatchId, BatchTransaction, Counts, SourceAhead
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


@dataclass(frozen=True)
class Known:
    """What the driver says of a batch."""

    asked: list[object]

    async def complete(self, batch: str, life: int, results: Mapping[int, tuple[int, int]]) -> None:
        self.asked.append((batch, life, results))
        if sum(records for _, records in results.values()) != 3:
            raise BatchIncomplete("an attempt was lost")


class Recorded(EosStreamWriter):
    """Notes what would be sent."""

    def transaction(self, batch: BatchId, sink_id: str | None) -> Any:
        return Recording(self.sent)

    sent: list[object]


@dataclass
class Recording:
    sent: list[object]
    retries: int = 0
    source: list[str] | None = None

    @property
    def connection(self) -> "Recording":
        return self

    def run(self, work: Any, doing: str) -> Any:
        return asyncio.run(work)

    def mark(self, lease: Lease, counts: Counts) -> None:
        self.sent.append(("mark", lease, counts, *(() if self.source is None else (self.source,))))

    def end(self, lease: Lease) -> None:
        self.sent.append(("end", lease))

    def compare(self, done: Marker) -> None:
        self.sent.append(("compare", done))


LEASE, LATER = Lease("s", 1, 1, True), Lease("s", 1, 2, True)


def told(task: int, records: int, *, lease: Lease = LEASE, life: int = 0, done: Marker | None = None) -> Written:
    counts = {"t": {str(task % 2): records}} if records else {}
    return Written(lease, BatchId("q", 3), counts, done, 10, 1, "b", Part(task, 10 + task, life))


def recorded() -> Recorded:
    made = Recorded(SETTINGS, LocalFiles(), None, Known([]))  # type: ignore[arg-type]
    made.sent = []
    return made


def test_what_all_tasks_wrote_is_one_batch() -> None:
    """Its counts are the sums; the driver must agree that nothing else was written."""
    writer = recorded()
    writer.commit([told(0, 1), told(2, 1), told(1, 1), told(3, 0)], 3)
    assert writer.sent == [("mark", LEASE, {"t": {"0": 2, "1": 1}}), ("end", LEASE)]
    assert writer.sharing == Known([("b", 0, {0: (10, 1), 1: (11, 1), 2: (12, 1), 3: (13, 0)})])


def test_what_a_task_has_read_of_the_checkpoint_is_not_read_again() -> None:
    writer = recorded()
    reader = replace(told(1, 1), source=['{"in":{"0":7}}'])
    writer.commit([told(0, 1), reader, told(2, 1), told(3, 0)], 3)
    assert writer.sent[0] == ("mark", LEASE, {"t": {"0": 2, "1": 1}}, ['{"in":{"0":7}}'])


def test_what_cannot_be_read_ahead_is_refused_when_the_batch_is_decided() -> None:
    def away() -> list[str]:
        raise SourceOffsetsUnknown("the checkpoint cannot be read")

    assert SourceAhead(away).found() is None
    assert SourceAhead(lambda: ["offsets"]).found() == ["offsets"]


def test_giving_up_a_batch_says_nothing_of_a_broker_that_is_away() -> None:
    """It would stand in the query's exception in the place of what the batch was given up for."""
    away = {"kafka.bootstrap.servers": "127.0.0.1:1", "sinkId": "s", "topic": "t", "kafka.delivery.timeout.ms": "1"}
    EosStreamWriter(SinkSettings.of(away, streaming=True), LocalFiles()).abort([MESSAGE], 3)
    of_a_job = {name: value for name, value in away.items() if name != "sinkId"}
    EosBatchWriter(SinkSettings.of(of_a_job, streaming=False)).abort([MESSAGE])


def test_what_the_driver_does_not_agree_to_is_not_committed() -> None:
    writer = recorded()
    with pytest.raises(BatchIncomplete):
        writer.commit([told(0, 1), told(1, 1)], 3)
    assert writer.sent == []


def test_a_task_without_rows_may_have_had_an_earlier_lease() -> None:
    writer = recorded()
    writer.commit([told(0, 0), told(1, 3, lease=LATER, life=1)], 3)
    assert writer.sent == [("mark", LATER, {"t": {"1": 3}}), ("end", LATER)]


def test_a_batch_without_rows_is_marked_under_the_last_lease() -> None:
    writer = recorded()
    message = told(1, 0, lease=LATER, life=1)
    with pytest.raises(BatchIncomplete):
        writer.commit([told(0, 0), message], 3)
    assert writer.sharing == Known([("b", 1, {0: (10, 0), 1: (11, 0)})])


def test_a_replay_is_compared_and_not_written() -> None:
    writer, marker = recorded(), Marker(3)
    writer.commit([told(0, 0, done=marker), told(1, 0, done=marker)], 3)
    assert writer.sent == [("compare", marker)]


@pytest.mark.parametrize(
    "messages",
    [
        [MESSAGE, MESSAGE],
        [told(0, 1), told(1, 2, lease=LATER, life=1)],
        [told(0, 1), MESSAGE],
        [told(0, 3), told(1, 0, done=Marker(3))],
    ],
    ids=["two that wrote alone", "two leases", "one that wrote alone", "a replay for one of them"],
)
def test_rows_of_several_leases_are_not_one_transaction(messages: list[Written]) -> None:
    writer = recorded()
    with pytest.raises(NotOneWriter, match="nothing was committed"):
        writer.commit(list(messages), 3)
    assert writer.sent == []
