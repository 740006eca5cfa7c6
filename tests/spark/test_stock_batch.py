"""Spark's own connector, batch: every way to say what is read, and the sink."""

import json
import re
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.harness.confluent import SECONDS, admin, make_topic, producer, read_all, write
from tests.spark.queries import options, read, values


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number:05d}".encode() for number in range(count)]


def at(topic: str, **by_partition: int) -> str:
    """Offsets or timestamps as Spark wants them: `p0=5` is partition 0."""
    return json.dumps({topic: {key[1:]: value for key, value in by_partition.items()}})


def fill(bootstrap: str, topic: str, partitions: int, each: int) -> dict[int, list[bytes]]:
    """Write `each` records per partition."""
    make_topic(bootstrap, topic, partitions)
    written = {number: numbered(each, f"{number}-") for number in range(partitions)}
    for number, records in written.items():
        write(bootstrap, topic, records, partition=number)
    return written


def delete_below(bootstrap: str, topic: str, offset: int) -> None:
    asker = admin(bootstrap)
    for deleted in asker.delete_records([TopicPartition(topic, 0, offset)]).values():
        deleted.result(SECONDS)


def test_subscribe_pattern_and_assign_read_what_they_name(spark: Any, bootstrap: str, name: str) -> None:
    first, second = (fill(bootstrap, f"{name}-{suffix}", 2, 20) for suffix in ("a", "b"))
    everything = sorted([*first[0], *first[1], *second[0], *second[1]])
    assert values(read(spark, bootstrap, subscribe=f"{name}-a,{name}-b")) == everything
    assert values(read(spark, bootstrap, subscribePattern=re.escape(name) + "-.*")) == everything
    assigned = read(spark, bootstrap, assign=json.dumps({f"{name}-a": [0], f"{name}-b": [1]}))
    assert values(assigned) == sorted([*first[0], *second[1]])


def test_offsets_bound_a_read_by_number_and_by_name(spark: Any, bootstrap: str, name: str) -> None:
    """-2 is the beginning and -1 the end."""
    written = fill(bootstrap, name, 2, 30)
    bounded = read(
        spark,
        bootstrap,
        subscribe=name,
        startingOffsets=at(name, p0=10, p1=-2),
        endingOffsets=at(name, p0=-1, p1=5),
    )
    assert values(bounded) == sorted([*written[0][10:], *written[1][:5]])
    assert read(spark, bootstrap, subscribe=name, startingOffsets="earliest", endingOffsets="latest").count() == 60


def test_timestamps_bound_a_read(spark: Any, bootstrap: str, name: str) -> None:
    """The ending timestamp is exclusive; what lies behind the last record is an error unless configured otherwise."""
    make_topic(bootstrap, name, retention__ms="-1")
    sender = producer(bootstrap)
    for number in range(10):
        sender.produce(name, numbered(10)[number], partition=0, timestamp=1_000_000 + number * 1000)
    assert sender.flush(30) == 0
    by_topic = read(spark, bootstrap, subscribe=name, startingOffsetsByTimestamp=at(name, p0=1_003_000))
    assert values(by_topic) == numbered(10)[3:]
    between = read(spark, bootstrap, subscribe=name, startingTimestamp=1_002_500, endingTimestamp=1_006_000)
    assert values(between) == numbered(10)[3:6]
    ending = read(spark, bootstrap, subscribe=name, endingOffsetsByTimestamp=at(name, p0=1_002_000))
    assert values(ending) == numbered(10)[:2]
    late: dict[str, Any] = {"subscribe": name, "startingTimestamp": 9_000_000}
    assert values(read(spark, bootstrap, startingOffsetsByTimestampStrategy="latest", **late)) == []
    with pytest.raises(Exception, match=r"(?i)timestamp"):
        read(spark, bootstrap, **late).count()


def test_min_partitions_splits_without_losing(spark: Any, bootstrap: str, name: str) -> None:
    written = fill(bootstrap, name, 2, 100)
    split = read(spark, bootstrap, subscribe=name, minPartitions=6)
    assert split.rdd.getNumPartitions() >= 6
    assert values(split) == sorted([*written[0], *written[1]])


def test_headers_keys_and_nulls_arrive(spark: Any, bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name)
    sender = producer(bootstrap)
    sender.produce(name, b"value", b"key", headers=[("a", b"1"), ("empty", b""), ("null", None)])
    sender.produce(name, None, b"tombstone")
    sender.produce(name, b"", None)
    assert sender.flush(30) == 0
    rows = read(spark, bootstrap, subscribe=name, includeHeaders="true").orderBy("offset").collect()
    assert [(header.key, header.value) for header in rows[0].headers] == [("a", b"1"), ("empty", b""), ("null", None)]
    assert [(row.key, row.value) for row in rows] == [(b"key", b"value"), (b"tombstone", None), (None, b"")]
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (name, 0, offset, 0) for offset in range(3)
    ]


def test_deleted_records_are_data_loss_only_if_asked(spark: Any, bootstrap: str, name: str) -> None:
    written = fill(bootstrap, name, 1, 40)
    delete_below(bootstrap, name, 25)
    named: dict[str, Any] = {"subscribe": name, "startingOffsets": at(name, p0=5)}
    assert values(read(spark, bootstrap, failOnDataLoss="false", **named)) == written[0][25:]
    with pytest.raises(Exception, match=r"(?i)data.?loss|lost|offset"):
        read(spark, bootstrap, failOnDataLoss="true", **named).collect()


def test_a_missing_topic_is_an_error(spark: Any, bootstrap: str, name: str) -> None:
    with pytest.raises(Exception, match=r"(?i)topic|partition"):
        read(spark, bootstrap, subscribe=f"{name}-not-there").collect()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_sink_writes_with_each_codec(spark: Any, bootstrap: str, name: str, codec: str) -> None:
    """Key, value, headers and partition columns; the producer is idempotent."""
    make_topic(bootstrap, name, 3)
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "cast(id as string) key",
        "concat('value-', id) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
        "cast(id % 3 as int) partition",
    )
    to = options(bootstrap, {"topic": name, "kafka__compression__type": codec})
    frame.write.format("kafka").options(**to).save()
    found = read_all(bootstrap, name)
    assert sorted(message.value() for message in found) == sorted(f"value-{number}".encode() for number in range(300))
    for message in found:
        number = int(message.key())
        assert message.partition() == number % 3 and message.headers() == [("n", message.key())]


def test_the_sink_takes_the_topic_of_each_row(spark: Any, bootstrap: str, name: str) -> None:
    for suffix in "ab":
        make_topic(bootstrap, f"{name}-{suffix}")
    frame = spark.range(20).selectExpr(f"concat('{name}-', if(id < 5, 'a', 'b')) topic", "cast(id as string) value")
    frame.write.format("kafka").options(**options(bootstrap, {})).save()
    assert [len(read_all(bootstrap, f"{name}-{suffix}")) for suffix in "ab"] == [5, 15]
