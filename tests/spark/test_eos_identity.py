"""Whose batch it is: a checkpoint that is moved, copied or lies on another file system is still its query's, two
writers of one query are two, and readers do not wait for what is given up.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connector.sink.foreach_batch import eos_writer
from tests.harness.confluent import make_topic, read_all, values_of, wait_until, write
from tests.spark.eos_queries import BATCH, RECORDS, input_of, output_of, run_eos
from tests.spark.faulty_writer import many_query, writer
from tests.spark.outcome import flag_of, right, until_nothing_is_open
from tests.spark.queries import SECONDS, finished, stream
from tests.spark.test_eos_faults import forget_the_last_commit


@pytest.fixture
def mounted(spark: Any, tmp_path: Path) -> str:
    """A folder as a file system that only Hadoop knows (viewfs)."""
    name = tmp_path.name.replace("_", "-")
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{name}.link./here", f"file://{tmp_path}")
    return f"viewfs://{name}/here"


def test_a_checkpoint_is_its_querys_wherever_it_lies(
    spark: Any, bootstrap: str, name: str, checkpoint: str, mounted: str
) -> None:
    """Each time the last batch is in doubt, as after a crash between EndTxn and Spark's note of it."""
    wanted = input_of(bootstrap, name)
    run_eos(spark, bootstrap, name, checkpoint)
    moved = f"{checkpoint}-moved"
    for number, spelled in enumerate((f"file://{checkpoint}//", moved, f"{mounted}/checkpoint-moved")):
        if spelled == moved:
            shutil.move(checkpoint, moved)
        forget_the_last_commit(checkpoint if Path(checkpoint).exists() else moved)
        write(bootstrap, f"{name}-in", [b"later %d" % number], partition=0)
        wanted = sorted([*wanted, b"later %d" % number])
        run_eos(spark, bootstrap, name, spelled, groupId=f"{name}-group")
        right(bootstrap, name, wanted)


@pytest.fixture
def sources_with_names(spark: Any) -> Iterator[None]:
    """Spark writes offset logs of version 2 for them."""
    settings = ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    spark.conf.set(*settings)
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    yield
    spark.conf.unset(settings[0])
    spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")


@pytest.mark.whole
@pytest.mark.usefixtures("sources_with_names")
def test_the_offsets_of_a_source_with_a_name(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """They go to the group, and are compared when a batch is replayed."""
    wanted = input_of(bootstrap, name)
    reading = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": f"{name}-in", "startingOffsets": "earliest"}
    )
    to = {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
    frame = reading.name("orders").load().select("value")
    for _ in range(2):
        writing = frame.writeStream.format("kafka-eos").options(**to, groupId=f"{name}-group")
        finished(writing.trigger(availableNow=True).start())
        assert (Path(checkpoint) / "offsets" / "0").read_text().startswith("v2")
        forget_the_last_commit(checkpoint)
    right(bootstrap, name, wanted)


def test_an_older_copy_on_another_file_system_is_refused(
    spark: Any, bootstrap: str, name: str, checkpoint: str, mounted: str
) -> None:
    """One batch old, and run on: the batch that it wants has other rows than the one of that number in Kafka."""
    wanted = input_of(bootstrap, name)
    there = f"{mounted}/checkpoint"
    run_eos(spark, bootstrap, name, there)
    shutil.copytree(checkpoint, f"{checkpoint}-copy")
    write(bootstrap, f"{name}-in", [b"later 1"], partition=0)
    run_eos(spark, bootstrap, name, there)
    shutil.rmtree(checkpoint)
    shutil.copytree(f"{checkpoint}-copy", checkpoint)
    write(bootstrap, f"{name}-in", [b"later 2"], partition=1)
    with pytest.raises(Exception, match="older copy that has been run on"):
        run_eos(spark, bootstrap, name, there)
    assert output_of(bootstrap, name) == sorted([*wanted, b"later 1"])


def test_good_rows_and_dead_letters_of_one_batch(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Each writer of a `foreachBatch` has markers of its own. A batch that only the first has written is completed."""
    wanted = input_of(bootstrap, name)
    make_topic(bootstrap, f"{name}-dead", 2)
    given = {"kafka.bootstrap.servers": bootstrap}  # The driver knows where the checkpoint lies.
    good, dead = (eos_writer(given | {"topic": f"{name}-{topic}"}, tasks=1) for topic in ("out", "dead"))
    flag = Path(flag_of(checkpoint))

    def both(frame: Any, number: int) -> None:
        rows = frame.select("value")
        good(rows.where("cast(cast(value as string) as int) % 3 > 0"), number)
        if number == 0 and not flag.exists():
            flag.touch()
            raise RuntimeError("a fault between the two")
        dead(rows.where("cast(cast(value as string) as int) % 3 = 0"), number)

    with pytest.raises(Exception, match="between the two"):
        finished(many_query(spark, bootstrap, name, both, checkpoint))
    finished(many_query(spark, bootstrap, name, both, checkpoint))
    assert output_of(bootstrap, name) == [value for value in wanted if int(value) % 3]
    dead_letters = sorted(values_of(read_all(bootstrap, f"{name}-dead")))
    assert dead_letters == [value for value in wanted if not int(value) % 3]


def test_one_writer_cannot_be_called_twice_for_a_batch(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Its second rows would be taken for written."""
    input_of(bootstrap, name)
    function = writer(bootstrap, name, checkpoint, tasks=1)

    def twice(frame: Any, number: int) -> None:
        function(frame, number)
        function(frame, number)

    with pytest.raises(Exception, match="topics of their own"):
        finished(many_query(spark, bootstrap, name, twice, checkpoint))


def test_a_job_cannot_go_to_another_topic(spark: Any, bootstrap: str, name: str) -> None:
    frame = spark.range(5).selectExpr("cast(id as string) value")

    def save(topic: str) -> None:
        make_topic(bootstrap, topic)
        to = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "jobId": f"{name}-load"}
        frame.write.mode("append").format("kafka-eos").options(**to).save()

    save(f"{name}-a")
    with pytest.raises(Exception, match=f"to {name}-a, and is now to write it to {name}-b"):
        save(f"{name}-b")


def test_a_row_may_not_name_the_control_topic(spark: Any, bootstrap: str, name: str) -> None:
    """Its rows would lie between the markers."""
    frame = spark.range(5).selectExpr("'__spark_sink_progress' topic", "cast(id as string) value")
    with pytest.raises(Exception, match="names the control topic"):
        frame.write.mode("append").format("kafka-eos").option("kafka.bootstrap.servers", bootstrap).save()


def test_small_batches_without_keys_take_turns(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Four micro-batches of one Arrow batch each, and three partitions."""
    make_topic(bootstrap, f"{name}-in", 1)
    make_topic(bootstrap, f"{name}-out", 3)
    write(bootstrap, f"{name}-in", [b"%d" % number for number in range(RECORDS)])
    frame = stream(spark, bootstrap, subscribe=f"{name}-in", maxOffsetsPerTrigger=BATCH).select("value")
    to = {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
    finished(frame.writeStream.format("kafka-eos").options(**to).trigger(availableNow=True).start())
    assert {message.partition() for message in read_all(bootstrap, f"{name}-out")} == {0, 1, 2}


LAST_WAITS = "if(java_method('java.lang.Thread', 'sleep', if(value = '0119', 600000L, 0L)) is null, value, value) value"
"""The last value of all does not come, until somebody interrupts who waits for it."""
LARGE = "repeat('x', 20000) key"
"""More than what lies in buffers on the way to the sink, and in the sink."""


@pytest.fixture
def small_arrow_batches(spark: Any) -> Iterator[None]:
    """Rows come to the sink five at a time, so that some are written before all are there."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def is_written_to(bootstrap: str, topic: str) -> bool:
    return bool(read_all(bootstrap, topic, read_committed=False))


@pytest.mark.usefixtures("small_arrow_batches")
@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_readers_do_not_wait_for_a_query_that_is_stopped(
    spark: Any, bootstrap: str, name: str, checkpoint: str, many: bool
) -> None:
    """In the middle of a batch; the transaction's timeout is five minutes."""
    input_of(bootstrap, name)
    to = {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
    frame = stream(spark, bootstrap, subscribe=f"{name}-in").selectExpr(LAST_WAITS, LARGE)
    writing = frame.writeStream.options(**to)
    started = (writing.foreachBatch(eos_writer(to, tasks=1)) if many else writing.format("kafka-eos")).start()
    try:
        begun = lambda: started.exception() or is_written_to(bootstrap, f"{name}-out")  # noqa: E731
        wait_until(begun, "a batch half written", seconds=SECONDS)
    finally:
        started.stop()
    until_nothing_is_open(bootstrap, f"{name}-out")
    assert output_of(bootstrap, name) == []


@pytest.mark.usefixtures("small_arrow_batches")
def test_readers_do_not_wait_for_a_batch_that_failed(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    input_of(bootstrap, name)
    to = {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
    every = stream(spark, bootstrap, subscribe=f"{name}-in")
    frame = every.selectExpr("value", LARGE, "if(value = '0099', 99, 0) partition")
    with pytest.raises(Exception, match="names 99"):
        finished(frame.writeStream.format("kafka-eos").options(**to).trigger(availableNow=True).start())
    assert is_written_to(bootstrap, f"{name}-out")
    until_nothing_is_open(bootstrap, f"{name}-out")
    assert output_of(bootstrap, name) == []
