"""What the exactly-once sink does for its users when nothing goes wrong, and what it refuses."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_connector.register import register
from tests.harness.confluent import consumer, make_topic, read_all, values_of, write
from tests.spark.eos_queries import RECORDS, eos_query, input_of, output_of, run_eos
from tests.spark.queries import finished, options


def save(frame: Any, sink: str, bootstrap: str, **more: Any) -> None:
    frame.write.mode("append").format(sink).options(**options(bootstrap, more)).save()


@pytest.mark.parametrize(
    "codec", ["zstd", *(pytest.param(c, marks=pytest.mark.whole) for c in ("none", "gzip", "snappy", "lz4"))]
)
def test_rows_arrive_where_and_as_the_stock_sink_puts_them(spark: Any, bootstrap: str, name: str, codec: str) -> None:
    """Key, value, headers, null, and for every key the same partition."""
    frame = spark.range(200).selectExpr(
        "if(id % 10 = 0, null, concat('key-', repeat('x', cast(id % 7 as int)), id)) key",
        "if(id % 9 = 0, null, concat('value-', id)) value",
        "if(id % 4 = 0, null, array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary)))) headers",
    )
    found = {}
    for sink in ("kafka", "kafka-eos"):
        topic = make_topic(bootstrap, f"{name}-{sink}", 5)
        save(frame, sink, bootstrap, topic=topic, kafka__compression__type=codec)
        messages = read_all(bootstrap, topic)
        keyed = sorted((m.key(), m.value() or b"", m.partition(), m.headers()) for m in messages if m.key() is not None)
        found[sink] = keyed, sorted((m.value() or b"", str(m.headers())) for m in messages)
    assert len(found["kafka"][1]) == 200
    assert found["kafka-eos"] == found["kafka"]


def test_a_query_is_started_in_a_thread_of_its_own(spark: Any, bootstrap: str, name: str) -> None:
    """Spark looks for a sink's format in the session that is active in the calling thread: none is in a new one."""
    topic = make_topic(bootstrap, name)

    def written() -> None:
        register(spark)
        save(spark.range(3).selectExpr("cast(id as string) value"), "kafka-eos", bootstrap, topic=topic)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(written).result()
    assert sorted(values_of(read_all(bootstrap, topic))) == [b"0", b"1", b"2"]


def test_topic_and_partition_of_each_row_in_one_transaction(spark: Any, bootstrap: str, name: str) -> None:
    for suffix in "ab":
        make_topic(bootstrap, f"{name}-{suffix}", 4)
    frame = spark.range(40).selectExpr(
        f"concat('{name}-', if(id < 10, 'a', 'b')) topic", "cast(id % 4 as int) partition", "cast(id as string) value"
    )
    save(frame, "kafka-eos", bootstrap)
    for suffix, numbers in (("a", range(10)), ("b", range(10, 40))):
        found = sorted((int(m.value()), m.partition()) for m in read_all(bootstrap, f"{name}-{suffix}"))
        assert found == [(number, number % 4) for number in numbers]


def test_a_job_with_a_name_is_written_once(spark: Any, bootstrap: str, name: str) -> None:
    make_topic(bootstrap, f"{name}-out")
    frame = spark.range(50).selectExpr("cast(id as string) value")
    for _ in range(2):
        save(frame, "kafka-eos", bootstrap, topic=f"{name}-out", jobId=f"{name}-load")
    assert len(output_of(bootstrap, name)) == 50
    save(frame, "kafka-eos", bootstrap, topic=f"{name}-out")
    assert len(output_of(bootstrap, name)) == 100


def test_a_group_sees_how_far_the_query_is(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """The source's end offsets are committed with each batch, the last one too; Spark's progress counts the rows."""
    wanted = input_of(bootstrap, name)
    query = run_eos(spark, bootstrap, name, checkpoint, groupId=f"{name}-group")
    assert output_of(bootstrap, name) == wanted
    reader = consumer(bootstrap, group__id=f"{name}-group")
    offsets = reader.committed([TopicPartition(f"{name}-in", number) for number in range(3)], 30)
    reader.close()
    assert [where.offset for where in offsets] == [RECORDS // 3] * 3
    assert sum(progress.sink.numOutputRows for progress in query.recentProgress) == RECORDS
    run_eos(spark, bootstrap, name, checkpoint, groupId=f"{name}-group")
    assert output_of(bootstrap, name) == wanted


def test_where_tasks_know_of_no_driver_one_writes_alone(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """More than one is refused before anything is visible; the same checkpoint goes on with one, and with all of them
    where they do.
    """
    wanted = input_of(bootstrap, name)
    with pytest.raises(Exception, match=r"coalesce\(1\)"):
        run_eos(spark, bootstrap, name, checkpoint, "kafka-eos-alone")
    assert output_of(bootstrap, name) == []
    run_eos(spark, bootstrap, name, checkpoint, "kafka-eos-alone", tasks=1)
    assert output_of(bootstrap, name) == wanted
    write(bootstrap, f"{name}-in", [b"late"], partition=0)
    run_eos(spark, bootstrap, name, checkpoint)
    assert output_of(bootstrap, name) == sorted([*wanted, b"late"])


def test_a_checkpoint_that_went_back_in_time_is_refused(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """An old copy requests a batch again, but with other offsets; skipping it would lose records."""
    wanted = input_of(bootstrap, name)
    run_eos(spark, bootstrap, name, checkpoint)
    shutil.copytree(checkpoint, f"{checkpoint}-copy")
    for late in (b"late-1", b"late-2"):
        write(bootstrap, f"{name}-in", [late], partition=0)
        run_eos(spark, bootstrap, name, checkpoint)
    shutil.rmtree(checkpoint)
    shutil.copytree(f"{checkpoint}-copy", checkpoint)
    with pytest.raises(Exception, match="older copy"):
        run_eos(spark, bootstrap, name, checkpoint)
    assert output_of(bootstrap, name) == sorted([*wanted, b"late-1", b"late-2"])


def test_what_is_refused_says_why_in_the_querys_exception(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    make_topic(bootstrap, f"{name}-in", 1)
    write(bootstrap, f"{name}-in", [b"x"])
    refusals = [
        ({"asyncProgressTrackingEnabled": "true"}, "(?i)async"),
        ({"kafka.transactional.id": "x"}, "sinkId"),
        ({"kafka.transaction.timeout.ms": "2000000000"}, "INVALID_TRANSACTION_TIMEOUT"),
    ]
    for number, (wrong, words) in enumerate(refusals):
        with pytest.raises(Exception, match=words):
            finished(eos_query(spark, bootstrap, name, f"{checkpoint}-{number}", **wrong))
    with pytest.raises(Exception, match="cast it"):
        save(spark.range(1).selectExpr("id value"), "kafka-eos", bootstrap, topic=f"{name}-in")
    assert values_of(read_all(bootstrap, f"{name}-in")) == [b"x"]
