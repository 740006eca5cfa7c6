"""Format kafka-arrow in a batch: it shows what the stock source shows, and what that one does not have."""

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from tallystick.process import BrokerProcess
from tests.harness.confluent import SECONDS, make_topic, producer, read_all, wait_until, write
from tests.spark.queries import options, read, values
from tests.spark.test_stock_batch import at, delete_below, fill, numbered

COLUMNS = "key", "value", "topic", "partition", "offset", "timestamp", "timestampType"


@pytest.fixture(scope="module", autouse=True)
def registered(spark: Any) -> None:
    from spark_connector.source.kafka_arrow import KafkaArrow

    spark.dataSource.register(KafkaArrow)


def arrow(spark: Any, bootstrap: str, schema: str = "", **more: Any) -> Any:
    reader = spark.read.format("kafka-arrow").options(**options(bootstrap, more))
    return (reader.schema(schema) if schema else reader).load()


def rows_of(frame: Any, *columns: str) -> list[Any]:
    return [tuple(row) for row in frame.select(*(columns or COLUMNS)).orderBy("topic", "partition", "offset").collect()]


def random_transactions(bootstrap: str, topic: str, partitions: int, seed: int) -> None:
    """Producers with open transactions among each other, aborting about half, plain records between, all codecs."""
    rng = random.Random(seed)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    senders: list[Producer] = []
    for number in range(3):
        settings: dict[str, Any] = {"compression__type": rng.choice(codecs), "linger__ms": 0}
        senders.append(producer(bootstrap, transactional__id=f"{topic}-{number}", **settings))
        senders[-1].init_transactions(SECONDS)
        senders[-1].begin_transaction()
    plain = producer(bootstrap, compression__type=rng.choice(codecs), linger__ms=0)
    for step in range(60):
        sender = rng.choice([*senders, plain])
        for number in range(rng.choice([1, 3, 40])):
            value = None if rng.random() < 0.05 else b"%d-%d-" % (step, number) + rng.randbytes(rng.choice([0, 3, 200]))
            headers = [("n", b"%d" % number), ("none", None)] if rng.random() < 0.3 else []
            sender.produce(
                topic, value, rng.choice([None, b"k%d" % number]), rng.randrange(partitions), headers=headers
            )
        assert sender.flush(SECONDS) == 0
        if sender is not plain and rng.random() < 0.5:
            if rng.random() < 0.5:
                sender.commit_transaction(SECONDS)
            else:
                sender.abort_transaction(SECONDS)
            sender.begin_transaction()
    for sender in senders:
        sender.abort_transaction(SECONDS)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.whole) for seed in range(2, 7))])
def test_random_transactional_logs_look_as_through_the_stock_source(
    spark: Any, bootstrap: str, name: str, seed: int
) -> None:
    """I30: equal to the stock source in both isolation levels, headers included; and the counts of gaps add up."""
    make_topic(bootstrap, name, 3)
    random_transactions(bootstrap, name, 3, seed)
    found = {}
    for isolation in ("read_committed", "read_uncommitted"):
        same = {"subscribe": name, "includeHeaders": "true", "kafka__isolation__level": isolation}
        expected = rows_of(read(spark, bootstrap, **same), *COLUMNS, "headers")
        found[isolation] = rows_of(arrow(spark, bootstrap, minPartitions=7, **same), *COLUMNS, "headers")
        assert found[isolation] == expected
    assert rows_of(arrow(spark, bootstrap, subscribe=name)) == [row[:-1] for row in found["read_committed"]]
    (gaps,) = (
        arrow(spark, bootstrap, subscribe=name, reportGaps="true", minPartitions=7)
        .selectExpr(
            "sum(end - begin)", "sum(records)", "sum(aborted)", "sum(control)", "sum(compacted + lost + filtered)"
        )
        .collect()
    )
    total, shown, aborted, control, other = gaps
    assert total == shown + aborted + control and other == 0
    assert shown == len(found["read_committed"])
    assert aborted == len(found["read_uncommitted"]) - shown
    assert control > 0


def test_topics_patterns_assignments_and_offsets_bound_a_read(spark: Any, bootstrap: str, name: str) -> None:
    first, second = (fill(bootstrap, f"{name}-{suffix}", 2, 20) for suffix in ("a", "b"))
    everything = sorted([*first[0], *first[1], *second[0], *second[1]])
    assert values(arrow(spark, bootstrap, subscribePattern=re.escape(name) + "-.*")) == everything
    assigned = arrow(spark, bootstrap, assign=json.dumps({f"{name}-a": [0], f"{name}-b": [1]}))
    assert values(assigned) == sorted([*first[0], *second[1]])
    bounds = {"startingOffsets": at(f"{name}-a", p0=10, p1=-2), "endingOffsets": at(f"{name}-a", p0=-1, p1=5)}
    bounded = arrow(spark, bootstrap, subscribe=f"{name}-a", **bounds)
    assert values(bounded) == sorted([*first[0][10:], *first[1][:5]])


def timed(bootstrap: str, topic: str, count: int) -> None:
    """Second by second, in batches of one record. Of 1970: they are kept, however long the test takes."""
    make_topic(bootstrap, topic, 2, retention__ms="-1")
    sender = producer(bootstrap, linger__ms=0)
    for number in range(count):
        for partition in range(2):
            sender.produce(topic, numbered(count)[number], partition=partition, timestamp=1_000_000 + number * 1000)
        assert sender.flush(SECONDS) == 0


def test_timestamps_bound_a_read(spark: Any, bootstrap: str, name: str) -> None:
    timed(bootstrap, name, 10)
    between = arrow(spark, bootstrap, subscribe=name, startingTimestamp=1_002_500, endingTimestamp=1_006_000)
    assert values(between.where("partition = 0")) == numbered(10)[3:6]
    late: dict[str, Any] = {"subscribe": name, "startingTimestamp": 9_000_000}
    assert values(arrow(spark, bootstrap, startingOffsetsByTimestampStrategy="latest", **late)) == []
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy"):
        arrow(spark, bootstrap, **late).count()


def moment(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@pytest.mark.parametrize("pushed", [True, False])
def test_filters_mean_the_same_pushed_or_not(spark: Any, bootstrap: str, name: str, pushed: bool) -> None:
    """On partition, offset and timestamp; tasks for other partitions are not even planned."""
    from pyspark.sql import functions as f

    timed(bootstrap, name, 20)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    try:
        frame = arrow(spark, bootstrap, subscribe=name)
        conditions: list[tuple[Any, Callable[[int, int], bool]]] = [
            (f.col("partition") == 1, lambda partition, _offset: partition == 1),
            (f.col("offset").between(5, 7), lambda _partition, offset: 5 <= offset <= 7),
            (f.col("timestamp") >= moment(1_004_000), lambda _partition, offset: offset >= 4),
            (f.col("timestamp") > moment(1_004_000), lambda _partition, offset: offset > 4),
            (f.col("timestamp") < moment(1_004_000.5), lambda _partition, offset: offset <= 4),
            (f.col("timestamp") == moment(1_004_000), lambda _partition, offset: offset == 4),
            (
                (f.col("offset") > 17) & f.col("partition").isin(1, 5),
                lambda partition, offset: partition and offset > 17,
            ),
            (f.col("key").isNotNull() & (f.col("offset") < 2), lambda _partition, _offset: False),
        ]
        for condition, passes in conditions:
            found = [
                (row.partition, row.offset) for row in frame.where(condition).orderBy("partition", "offset").collect()
            ]
            assert found == [(p, o) for p in range(2) for o in range(20) if passes(p, o)], condition
        if pushed:
            assert frame.where("partition = 1").rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_schema_of_the_user_names_the_columns(spark: Any, bootstrap: str, name: str) -> None:
    written = fill(bootstrap, name, 1, 10)
    frame = arrow(spark, bootstrap, "offset BIGINT, value BINARY", subscribe=name)
    assert [(row.offset, bytes(row.value)) for row in frame.orderBy("offset").collect()] == list(enumerate(written[0]))
    with pytest.raises(Exception, match="no column nonsense"):
        arrow(spark, bootstrap, "nonsense INT", subscribe=name).count()


def test_transactions_are_columns_on_request(spark: Any, bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    write(bootstrap, name, numbered(2), partition=0)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    for value in numbered(3, "t"):
        sender.produce(name, value, partition=0)
    sender.commit_transaction(SECONDS)
    frame = arrow(spark, bootstrap, subscribe=name, includeTransactions="true")
    found = (
        frame.select("offset", "producerId", "producerEpoch", "sequence", "transactional").orderBy("offset").collect()
    )
    assert [tuple(row) for row in found[:2]] == [(offset, None, None, None, False) for offset in range(2)]
    assert [(row.sequence, row.transactional) for row in found[2:]] == [(0, True), (1, True), (2, True)]
    assert {row.producerId is not None and row.producerEpoch >= 0 for row in found[2:]} == {True}


def test_deleted_records_are_data_loss_only_if_asked(spark: Any, bootstrap: str, name: str) -> None:
    written = fill(bootstrap, name, 1, 40)
    delete_below(bootstrap, name, 25)
    named: dict[str, Any] = {"subscribe": name, "startingOffsets": at(name, p0=5)}
    assert values(arrow(spark, bootstrap, failOnDataLoss="false", **named)) == written[0][25:]
    with pytest.raises(Exception, match="failOnDataLoss"):
        arrow(spark, bootstrap, **named).collect()


def test_the_report_of_gaps_counts_losses_instead_of_failing(spark: Any, bootstrap: str, name: str) -> None:
    fill(bootstrap, name, 1, 40)
    delete_below(bootstrap, name, 25)
    frame = arrow(spark, bootstrap, subscribe=name, startingOffsets=at(name, p0=5), reportGaps="true")
    assert frame.columns[:4] == ["topic", "partition", "begin", "end"]
    (row,) = frame.collect()
    assert (row.begin, row.end, row.records, row.lost, row.control) == (5, 40, 15, 20, 0)


def compacted(broker: BrokerProcess, topic: str) -> int:
    """Rounds over the same keys, each a segment, every third one aborted; compacted. Returns how many records stay."""
    make_topic(broker.bootstrap, topic, cleanup__policy="compact", segment__ms="1", min__cleanable__dirty__ratio="0.01")
    rng = random.Random(5)
    sender = producer(broker.bootstrap, transactional__id=topic, compression__type="lz4", linger__ms=5)
    sender.init_transactions(SECONDS)
    written: set[bytes] = set()
    began_ms = int(datetime.now(UTC).timestamp() * 1000) - 60_000
    for number in range(9):
        keys = [b"k%02d" % key for key in rng.sample(range(40), 25)] if number < 8 else [b"last"]
        sender.begin_transaction()
        for key in keys:
            sender.produce(topic, b"%d" % number, key, 0, timestamp=began_ms + 1000 * number)
        assert sender.flush(SECONDS) == 0
        if number % 3 == 1:
            sender.abort_transaction(SECONDS)
        else:
            sender.commit_transaction(SECONDS)
            written.update(keys)
    return len(written)


def test_a_compacted_log_looks_as_through_the_stock_source(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """Holes inside batches and between them, aborted transactions of which a part is gone."""
    broker = own_broker(more={"log.cleaner.backoff.ms": "50"}).start()
    stay = compacted(broker, name)
    wait_until(lambda: len(read_all(broker.bootstrap, name)) == stay, "a compacted log")
    committed: dict[str, Any] = {"subscribe": name, "kafka__isolation__level": "read_committed"}
    expected = rows_of(read(spark, broker.bootstrap, **committed))
    assert len(expected) == stay
    assert rows_of(arrow(spark, broker.bootstrap, subscribe=name)) == expected
    rows = arrow(spark, broker.bootstrap, subscribe=name, reportGaps="true", minPartitions=3).collect()
    assert sum(row.records for row in rows) == stay
    assert sum(row.compacted for row in rows) > 0
    for row in rows:
        assert row.end - row.begin == row.records + row.aborted + row.control + row.compacted


def test_what_cannot_be_is_refused_with_a_sentence(spark: Any, bootstrap: str, name: str) -> None:
    refused = [
        ({"subscribe": f"{name}-not-there"}, "create it"),
        ({}, "subscribe"),
        ({"subscribe": name, "assign": "{}"}, "one of subscribe"),
        ({"subscribe": name, "kafka__no__such": "1"}, "not known"),
        ({"subscribe": name, "maxOffsetsPerTrigger": "5"}, "of no use in a batch"),
        ({"subscribe": name, "startingOffsets": "latest"}, "read nothing"),
    ]
    for given, sentence in refused:
        with pytest.raises(Exception, match=sentence):
            arrow(spark, bootstrap, **given).count()
