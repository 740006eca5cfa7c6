"""`kafka-eos` with all tasks in turns: what a lost task costs, and that it never costs a row.

Before its first turn nothing; after that the batch begins anew, as long as no other task is done; else the query ends,
says why, and a restart goes on. The steps of the transaction, and drivers and brokers that are killed at them, are in
`test_eos_faults`.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import expr

from tests.harness.confluent import make_topic, read_all, write
from tests.spark.drivers import Driver
from tests.spark.eos_queries import RECORDS, input_of, output_of, run_eos
from tests.spark.outcome import flag_of, right, until_nothing_is_open
from tests.spark.queries import finished, options, stream
from tests.spark.test_eos_sink import save

RETRYING = "local[3,4]"
"""A core for each task of the source, and four attempts for each of them, as clusters have."""
LOST = [(action, step) for action in ("worker", "raise") for step in ("writing", "taken", "answered", "written")]
LOST_SHORT = {("worker", "answered")}


class Story:
    """One query into the faulty sink, in a driver of its own, whose second batch loses a task."""

    def __init__(self, bootstrap: str, name: str, checkpoint: str, folder: Path) -> None:
        self.bootstrap, self.name, self.checkpoint, self._folder = bootstrap, name, checkpoint, folder
        self.wanted = input_of(bootstrap, name)

    def run(self, fault: str, **more: Any) -> tuple[int, str]:
        """The driver's exit status and what it said. The fault has happened."""
        flag = flag_of(self.checkpoint)
        run = {"bootstrap": self.bootstrap, "name": self.name, "checkpoint": self.checkpoint, **more}
        with Driver(self._folder, [{**run, "fault": fault, "faultFlag": flag}], master=RETRYING) as driver:
            status = driver.wait()
            said = driver.said()
        assert Path(flag).exists(), said
        return status, said

    def is_right(self) -> None:
        right(self.bootstrap, self.name, self.wanted)

    def written(self) -> int:
        """Records, those of aborted transactions, too."""
        return len(output_of(self.bootstrap, self.name, read_committed=False))


@pytest.fixture
def story(bootstrap: str, name: str, checkpoint: str, tmp_path: Path) -> Story:
    return Story(bootstrap, name, checkpoint, tmp_path / "driver")


@pytest.mark.parametrize(
    ("action", "step"),
    [pytest.param(*case, marks=() if case in LOST_SHORT else pytest.mark.whole) for case in LOST],
)
def test_a_task_is_lost_and_the_query_does_not_notice(story: Story, action: str, step: str) -> None:
    """Before its first turn nothing is written twice; later the batch begins anew: no other task is done yet."""
    others = {} if step == "writing" else {"faultOthers": "wait"}
    status, said = story.run(f"{action}@{step}", **others)
    assert status == 0, said
    story.is_right()
    if step == "writing":
        assert story.written() == RECORDS, "nothing was given up"
    elif step != "taken":
        assert story.written() > RECORDS, "the first lease is aborted"


def test_a_task_that_is_lost_when_another_is_done_ends_the_query(spark: Any, story: Story) -> None:
    """It says that a restart continues, and the restart does."""
    status, said = story.run("worker@written", faultOthers="done")
    assert status != 0
    for words in ("TaskLost", "Spark does not run those again", "nothing is lost, and nothing doubled"):
        assert words in said, said
    run_eos(spark, story.bootstrap, story.name, story.checkpoint)
    story.is_right()


@pytest.mark.whole
def test_one_task_alone_is_tried_again_even_if_it_was_done(story: Story) -> None:
    status, said = story.run("worker@written", tasks=1)
    assert status == 0, said
    story.is_right()


def test_more_tasks_than_cores_some_without_rows(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Seven tasks behind a shuffle of two keys, two at a time, keys for most of twenty partitions."""
    make_topic(bootstrap, f"{name}-in", 3)
    make_topic(bootstrap, f"{name}-out", 20)
    wanted = sorted(f"{number:04d}".encode() for number in range(RECORDS))
    for partition in range(3):
        write(bootstrap, f"{name}-in", wanted[partition::3], partition=partition)
    frame = stream(spark, bootstrap, subscribe=f"{name}-in").selectExpr("value key", "value")
    shuffled = frame.repartition(7, expr("cast(cast(value as string) as int) % 2"))
    to = options(bootstrap, {"topic": f"{name}-out", "checkpointLocation": checkpoint})
    finished(shuffled.writeStream.format("kafka-eos").options(**to).trigger(availableNow=True).start())
    until_nothing_is_open(bootstrap, f"{name}-out", 20)
    assert output_of(bootstrap, name) == wanted
    assert len({message.partition() for message in read_all(bootstrap, f"{name}-out")}) == 20


@pytest.mark.whole
def test_hundreds_of_partitions(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """Two tasks with keys for all of 400 partitions, in small rounds: little memory is all they may have."""
    make_topic(bootstrap, f"{name}-in", 2)
    make_topic(bootstrap, f"{name}-out", 400)
    values = [f"{number:06d}".encode() for number in range(60_000)]
    for partition in range(2):
        write(bootstrap, f"{name}-in", values[partition::2], partition=partition)
    frame = stream(spark, bootstrap, subscribe=f"{name}-in").selectExpr("value key", "value")
    to = {"topic": f"{name}-out", "checkpointLocation": checkpoint, "kafka.buffer.memory": "200000"}
    writing = frame.writeStream.format("kafka-eos").options(**options(bootstrap, to))
    finished(writing.trigger(availableNow=True).start())
    until_nothing_is_open(bootstrap, f"{name}-out", 400)
    assert output_of(bootstrap, name) == values


def test_a_batch_job_writes_with_all_tasks(spark: Any, bootstrap: str, name: str) -> None:
    """In one transaction; one whose row is refused in the last task leaves nothing behind, nothing open either."""
    make_topic(bootstrap, f"{name}-out", 3)
    frame = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) key", "lpad(cast(id as string), 4, '0') value")
    with pytest.raises(Exception, match="column partition names 99"):
        save(frame.selectExpr("*", "if(key = '99', 99, 0) partition"), "kafka-eos", bootstrap, topic=f"{name}-out")
    until_nothing_is_open(bootstrap, f"{name}-out")
    assert output_of(bootstrap, name) == []
    for _ in range(2):
        save(frame, "kafka-eos", bootstrap, topic=f"{name}-out", jobId=name)
    assert output_of(bootstrap, name) == [b"%04d" % number for number in range(100)]
    assert {message.partition() for message in read_all(bootstrap, f"{name}-out")} == {0, 1, 2}
