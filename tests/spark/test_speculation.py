"""Spark's speculation: a second attempt of a slow task that runs while the first one does, on another host.

Spark itself keeps neither of the two from writing. A task that knows of no driver takes a lease for each attempt, and
only the later one counts; in turns the second waits for the first, or is refused (`eos_writer`) (I21). Whichever wins,
nothing is lost and nothing doubled.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import SPECULATING, Cluster
from tests.spark.drivers import Driver
from tests.spark.eos_queries import RECORDS, input_of, output_of, run_eos
from tests.spark.outcome import flag_of, right

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def cluster(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Needs what the session needs, or skips as that does."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def is_fence(said: str) -> bool:
    return "SinkTakenOver" in said or "TransactionAborted" in said


class Story:
    """One query, whose second batch has a slow task."""

    def __init__(self, bootstrap: str, name: str, checkpoint: str, cluster: Cluster) -> None:
        self.bootstrap, self.name, self.checkpoint = bootstrap, name, checkpoint
        self.wanted = input_of(bootstrap, name)
        self._cluster = cluster

    def run_once(self, folder: Path, fault: str, **more: Any) -> tuple[bool, str]:
        """Whether the batch with the slow task was done by the driver that met it, and what that one said.

        On a loaded machine other tasks are slow, too, and may stop a query of one writer before that.
        """
        flag = Path(flag_of(self.checkpoint))
        fault_at = {"fault": fault, "faultFlag": str(flag)}
        more = more or {"tasks": 1, "faultAlone": "true"}
        run = {"bootstrap": self.bootstrap, "name": self.name, "checkpoint": self.checkpoint, **fault_at, **more}
        said = ""
        for start in range(5):
            with Driver(folder / str(start), [run], master=self._cluster.master, settings=SPECULATING) as driver:
                status = driver.wait()
                said = driver.said()
            if flag.exists():
                return (Path(self.checkpoint) / "commits" / "1").exists(), said
            assert status and is_fence(said), said
        raise AssertionError(said)

    def is_right_after_a_restart(self, spark: Any) -> None:
        run_eos(spark, self.bootstrap, self.name, self.checkpoint)
        self.is_right()

    def is_right(self) -> None:
        right(self.bootstrap, self.name, self.wanted)


@pytest.fixture
def story(bootstrap: str, name: str, checkpoint: str, cluster: Cluster) -> Story:
    return Story(bootstrap, name, checkpoint, cluster)


@pytest.mark.parametrize("step", ["opened", "written"])
def test_a_task_that_never_ends_is_overtaken(spark: Any, story: Story, tmp_path: Path, step: str) -> None:
    """The batch is done although its first attempt never is: so there was a second one, and Spark took its word."""
    done, said = story.run_once(tmp_path, f"wait@{step}")
    assert done, said
    story.is_right_after_a_restart(spark)


def test_the_second_attempt_fences_the_first_and_the_query_continues(spark: Any, story: Story, tmp_path: Path) -> None:
    """It wakes up with rows in its hands and its lease taken; the task fails, the second attempt is Spark's answer."""
    done, said = story.run_once(tmp_path, "overtaken@writing")
    assert done, said
    assert is_fence(Path(f"{flag_of(story.checkpoint)}.error").read_text())
    story.is_right_after_a_restart(spark)


def test_spark_believes_the_attempt_that_is_fenced(spark: Any, story: Story, tmp_path: Path) -> None:
    """It had written everything before it lost its lease, and ends first. The commit is refused, the query fails and
    says why; a restart replays the batch.
    """
    done, said = story.run_once(tmp_path, "overtaken@written")
    assert not done
    assert is_fence(said), said
    story.is_right_after_a_restart(spark)


@pytest.mark.parametrize("tasks", [1, 3])
def test_in_turns_a_copy_waits_and_the_first_attempt_wins(story: Story, tmp_path: Path, tasks: int) -> None:
    """It is slow with all of its rows written; its copy comes meanwhile, and harms nobody."""
    done, said = story.run_once(tmp_path, "linger@written", tasks=tasks)
    assert done, said
    story.is_right()
    assert len(output_of(story.bootstrap, story.name, read_committed=False)) == RECORDS


def test_with_many_writers_the_first_attempt_wins(story: Story, tmp_path: Path) -> None:
    """Every batch, this one too, was written once: nothing had to be aborted."""
    done, said = story.run_once(tmp_path, "yield@returned", many=True, tasks=2)
    assert done, said
    assert Path(flag_of(story.checkpoint)).with_suffix(".refused").exists()
    story.is_right()
    assert len(output_of(story.bootstrap, story.name, read_committed=False)) == RECORDS


def test_a_writer_dying_after_its_copy_was_refused(story: Story, tmp_path: Path) -> None:
    """It had written, and nobody may do that again for it: the whole batch is written again."""
    done, said = story.run_once(tmp_path, "die@returned", many=True, tasks=2)
    assert done, said
    assert Path(flag_of(story.checkpoint)).with_suffix(".refused").exists()
    story.is_right()


@pytest.mark.parametrize("step", ["taken", "answered", "returned", "written"])
def test_an_executor_is_lost_with_its_tasks(story: Story, tmp_path: Path, step: str) -> None:
    """Behind a shuffle, whose files are lost with it: stages are tried again, and what had begun to write is not."""
    done, said = story.run_once(tmp_path, f"executor@{step}", many=True, shuffled=3)
    assert done, said
    story.is_right()
