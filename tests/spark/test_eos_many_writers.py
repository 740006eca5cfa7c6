"""Mode An on a real Spark: many tasks, one transaction; whatever fails, the batch is there once, whole."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from spark_connector.errors import BadOption
from spark_connector.sink.foreach_batch import eos_writer
from tests.harness.confluent import consumer, make_topic, read_all, wait_until, write
from tests.spark.eos_queries import BATCH, RECORDS, output_of
from tests.spark.faulty_writer import DRIVER_STEPS, TASK_STEPS, Fault, many_query, run_driver, run_many, writer
from tests.spark.outcome import until_nothing_is_open
from tests.spark.queries import SECONDS, finished, stream
from tests.spark.test_eos_faults import cases, forget_the_last_commit

TASK_SHORT = {("raise", "written"), ("worker", "taken")}
DRIVER_SHORT = {("jvm", "ended")}


def input_of(bootstrap: str, name: str, partitions: int = 4) -> list[bytes]:
    """Four micro-batches in three partitions; the output topic is empty."""
    make_topic(bootstrap, f"{name}-in", 3)
    make_topic(bootstrap, f"{name}-out", partitions)
    values = [f"{number:04d}".encode() for number in range(RECORDS)]
    for partition in range(3):
        write(bootstrap, f"{name}-in", values[partition::3], partition=partition)
    return values


def right(bootstrap: str, name: str, wanted: list[bytes]) -> None:
    found = output_of(bootstrap, name)
    assert [value for value, count in Counter(found).items() if count > 1] == [], "doubled"
    assert sorted(set(wanted) - set(found)) == [], "lost"
    assert found == sorted(wanted)


@pytest.mark.parametrize(("partitions", "tasks"), [(4, 2), pytest.param(12, 5, marks=pytest.mark.whole)])
def test_keys_are_partitioned_as_in_java(
    spark: Any, bootstrap: str, name: str, checkpoint: str, partitions: int, tasks: int
) -> None:
    """Every key in the stock sink's partition, rows without a key somewhere, source offsets in the transaction."""
    wanted = input_of(bootstrap, name, partitions)
    select = ("if(cast(cast(value as string) as int) % 5 = 0, null, key) key", "value")
    run_many(spark, bootstrap, name, checkpoint, *select, tasks=tasks, groupId=f"{name}-group")
    right(bootstrap, name, wanted)
    found = {m.key(): m.partition() for m in read_all(bootstrap, f"{name}-out") if m.key() is not None}
    make_topic(bootstrap, f"{name}-stock", partitions)
    keyed = spark.createDataFrame([(bytearray(key), b"") for key in found], "key binary, value binary")
    keyed.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", f"{name}-stock").save()
    assert found == {m.key(): m.partition() for m in read_all(bootstrap, f"{name}-stock")}
    assert len(set(found.values())) == partitions
    reader = consumer(bootstrap, group__id=f"{name}-group")
    offsets = reader.committed([TopicPartition(f"{name}-in", number) for number in range(3)], 30)
    reader.close()
    assert [where.offset for where in offsets] == [RECORDS // 3] * 3


def test_without_keys_all_partitions_get_rows(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    wanted = input_of(bootstrap, name)
    run_many(spark, bootstrap, name, checkpoint, "value")
    right(bootstrap, name, wanted)
    assert {message.partition() for message in read_all(bootstrap, f"{name}-out")} == {0, 1, 2, 3}


def test_a_named_partition_goes_before_the_key(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    wanted = input_of(bootstrap, name)
    run_many(spark, bootstrap, name, checkpoint, "key", "value", "cast(cast(value as string) as int) % 3 partition")
    right(bootstrap, name, wanted)
    assert all(int(m.value()) % 3 == m.partition() for m in read_all(bootstrap, f"{name}-out"))


def test_several_topics_in_one_transaction(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Good rows and dead letters by their column; a row of another topic is refused before anything is visible."""
    wanted = input_of(bootstrap, name)
    make_topic(bootstrap, f"{name}-dead", 1)
    given = {"kafka.bootstrap.servers": bootstrap}

    def run(topics: list[str], other: str) -> None:
        column = f"if(cast(cast(value as string) as int) % 3 = 0, '{name}-{other}', '{name}-out') topic"
        function = eos_writer(given, topics=topics, tasks=2)
        finished(many_query(spark, bootstrap, name, function, checkpoint, "value", column))

    with pytest.raises(Exception, match=f"names the topic {name}-astray, this writer was given {name}-out"):
        run([f"{name}-out", f"{name}-dead"], "astray")
    assert output_of(bootstrap, name) == []
    run([f"{name}-out", f"{name}-dead"], "dead")
    assert output_of(bootstrap, name) == [value for value in wanted if int(value) % 3]
    dead_letters = sorted(message.value() or b"" for message in read_all(bootstrap, f"{name}-dead"))
    assert dead_letters == [value for value in wanted if not int(value) % 3]


@pytest.mark.parametrize(
    ("action", "step"), cases(TASK_SHORT, ((action, step) for action in ("raise", "worker") for step in TASK_STEPS))
)
def test_a_task_fails_and_the_whole_batch_is_tried_again(
    spark: Any, bootstrap: str, name: str, checkpoint: str, action: str, step: str
) -> None:
    """The query goes on as if nothing had been: the next lease hides what the failed try wrote."""
    wanted = input_of(bootstrap, name)
    flag = f"{checkpoint}.fault"
    run_many(spark, bootstrap, name, checkpoint, fault=Fault(action, step, flag))
    assert Path(flag).read_text() == step
    right(bootstrap, name, wanted)
    if step != "taken":
        assert len(output_of(bootstrap, name, read_committed=False)) > RECORDS


def test_more_tasks_than_cores_and_partitions_and_more_partitions_than_tasks(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Nothing is coalesced: seven tasks, two at a time, each with keys for most of twenty partitions."""
    wanted = input_of(bootstrap, name, 20)
    run_many(spark, bootstrap, name, checkpoint, "value key", "value", shuffled=7)
    right(bootstrap, name, wanted)
    assert len({message.partition() for message in read_all(bootstrap, f"{name}-out")}) == 20


@pytest.mark.whole
def test_hundreds_of_partitions(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Two tasks with keys for all of 400 partitions, in small rounds: little memory is all they may have."""
    make_topic(bootstrap, f"{name}-in", 2)
    make_topic(bootstrap, f"{name}-out", 400)
    values = [f"{number:06d}".encode() for number in range(60_000)]
    for partition in range(2):
        write(bootstrap, f"{name}-in", values[partition::2], partition=partition)
    function = writer(bootstrap, name, checkpoint, **{"kafka.buffer.memory": "200000"})
    frame = stream(spark, bootstrap, subscribe=f"{name}-in").selectExpr("value key", "value")
    writing = frame.writeStream.foreachBatch(function).option("checkpointLocation", checkpoint)
    finished(writing.trigger(availableNow=True).start())
    until_nothing_is_open(bootstrap, f"{name}-out", 400)
    right(bootstrap, name, values)


@pytest.mark.whole
def test_the_second_attempt_of_a_task_is_refused(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Spark tries tasks twice here. Under one lease the second attempt's rows would be there twice; so it is refused
    its turns, and the batch is written again as a whole.
    """
    wanted = input_of(bootstrap, name)
    flag = f"{checkpoint}.fault"
    assert run_driver(bootstrap, name, checkpoint, "raise", "written", flag, master="local[2,2]") == 0
    assert Path(flag).read_text() == "written"
    right(bootstrap, name, wanted)
    assert len(output_of(bootstrap, name, read_committed=False)) > RECORDS, "the same lease"


@pytest.mark.whole
def test_a_query_that_is_stopped_does_not_try_again(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """What is open is settled by the next start."""
    wanted = input_of(bootstrap, name)
    flag = Path(f"{checkpoint}.fault")
    function = writer(bootstrap, name, checkpoint, Fault("hang", "taken", str(flag)))
    query = many_query(spark, bootstrap, name, function, checkpoint)
    wait_until(flag.exists, "a task that hangs", seconds=SECONDS)
    query.stop()
    assert not query.isActive
    assert len(output_of(bootstrap, name)) == BATCH
    run_many(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)


def test_a_zombie_task_wakes_up_after_its_successors_have_written(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """It is fenced in every partition, and nothing of it is ever seen."""
    wanted = input_of(bootstrap, name)
    flag = f"{checkpoint}.fault"
    run_many(spark, bootstrap, name, checkpoint, fault=Fault("zombie", "taken", flag))
    right(bootstrap, name, wanted)
    assert Path(flag).with_suffix(".fenced").exists()
    assert not Path(flag).with_suffix(".written").exists()
    assert b"zombie" not in output_of(bootstrap, name, read_committed=False)


@pytest.mark.parametrize(
    ("who", "step"), cases(DRIVER_SHORT, ((who, step) for who in ("jvm", "driver") for step in DRIVER_STEPS))
)
def test_the_driver_is_killed_and_another_one_goes_on(
    spark: Any, bootstrap: str, name: str, checkpoint: str, who: str, step: str
) -> None:
    wanted = input_of(bootstrap, name)
    flag = f"{checkpoint}.fault"
    assert run_driver(bootstrap, name, checkpoint, who, step, flag) != 0
    assert Path(flag).read_text() == step
    run_many(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)


def test_a_replayed_committed_batch_writes_nothing_and_advances_its_state(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """Running counts: if the replay did not run the plan, the next counts would begin anew."""
    make_topic(bootstrap, f"{name}-in", 1)
    make_topic(bootstrap, f"{name}-out", 4)

    def run() -> None:
        frame = stream(spark, bootstrap, subscribe=f"{name}-in").selectExpr("cast(value as string) word")
        counts = frame.groupBy("word").count().selectExpr("word key", "concat(word, '-', count) value")
        function = eos_writer(
            {"kafka.bootstrap.servers": bootstrap, "topic": f"{name}-out", "checkpointLocation": checkpoint}
        )
        writing = counts.writeStream.outputMode("update").foreachBatch(function)
        finished(writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())

    write(bootstrap, f"{name}-in", [b"a", b"b", b"a"])
    run()
    forget_the_last_commit(checkpoint)
    run()
    assert output_of(bootstrap, name) == [b"a-2", b"b-1"]
    write(bootstrap, f"{name}-in", [b"a", b"c"])
    run()
    assert output_of(bootstrap, name) == [b"a-2", b"a-3", b"b-1", b"c-1"]


def test_a_second_driver_takes_over_and_the_first_says_so(
    spark: Any, bootstrap: str, name: str, checkpoint: str
) -> None:
    """A fence is not tried again: somebody else has the sink."""
    wanted = input_of(bootstrap, name)
    with pytest.raises(Exception, match="Either another query or a second driver"):
        run_many(spark, bootstrap, name, checkpoint, fault=Fault("takeover", "acknowledged", f"{checkpoint}.fault"))
    assert len(output_of(bootstrap, name)) == BATCH
    run_many(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)


def test_what_is_refused_says_why(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": checkpoint}
    for topic, topics in (({}, ()), ({"topic": "a"}, ("b",)), ({}, ("a", "__spark_sink_progress"))):
        with pytest.raises(BadOption, match=r"option topic|control topic"):
            eos_writer(given | topic, topics=topics)
    input_of(bootstrap, name)
    function = eos_writer(given | {"topic": f"{name}-out"})
    for select, words in ((("key", "cast(1 as double) value"), "cast it"), (("value", "99 partition"), "4 partitions")):
        with pytest.raises(Exception, match=words):
            finished(many_query(spark, bootstrap, name, function, checkpoint, *select))
    assert output_of(bootstrap, name) == []
