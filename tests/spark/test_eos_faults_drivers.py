"""More than one of everything: retried tasks, zombies that wake late, two drivers, two queries with one name.

The lease decides between them (I21): the driver that takes it last goes on, and the earlier one adds nothing.
"""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.confluent import wait_until
from tests.spark.drivers import Driver
from tests.spark.eos_queries import RECORDS, eos_query, input_of, output_of, run_eos
from tests.spark.outcome import flag_of, right
from tests.spark.queries import SECONDS, finished
from tests.spark.steps import COMMIT_STEPS, TASK_STEPS

VALUES = [f"{number:04d}".encode() for number in range(RECORDS)]
"""What `input_of` writes."""
RETRIES = [(action, step) for action in ("worker", "raise") for step in TASK_STEPS]
SHORT_RETRIES = [("worker", "writing"), ("raise", "written")]


def runs_of(
    bootstrap: str, name: str, folder: Path, faults: list[tuple[str, str]], **more: Any
) -> list[dict[str, Any]]:
    """One query for each fault."""
    runs = []
    for action, step in faults:
        story = f"{name}-{action}-{step}"
        input_of(bootstrap, story)
        checkpoint = str(folder / story)
        fault = {"fault": f"{action}@{step}", "faultFlag": flag_of(checkpoint)}
        runs.append({"bootstrap": bootstrap, "name": story, "checkpoint": checkpoint, **fault, **more})
    return runs


def all_right(runs: list[dict[str, Any]]) -> None:
    for run in runs:
        assert Path(run["faultFlag"]).exists(), run["name"]
        right(run["bootstrap"], run["name"], VALUES)


@pytest.mark.parametrize(
    ("faults", "more"),
    [
        pytest.param(SHORT_RETRIES, {}, id="a-few"),
        pytest.param(RETRIES, {}, id="all", marks=pytest.mark.whole),
        pytest.param(RETRIES, {"faultAlone": "true"}, id="all-without-the-driver", marks=pytest.mark.whole),
    ],
)
def test_one_task_that_spark_retries(
    bootstrap: str, name: str, tmp_path: Path, faults: list[tuple[str, str]], more: dict[str, str]
) -> None:
    """The second attempt takes a lease of its own, which aborts what the first one wrote; the query does not fail."""
    runs = runs_of(bootstrap, name, tmp_path, faults, tasks=1, **more)
    with Driver(tmp_path / "driver", runs, master="local[2,3]") as driver:
        assert driver.wait() == 0, driver.said()
    all_right(runs)


@pytest.mark.whole
def test_an_executor_is_killed(bootstrap: str, name: str, tmp_path: Path) -> None:
    """Its JVM and its worker die together; Spark starts another one and gives it the task. The executor has one core,
    and so the others have not begun.
    """
    runs = runs_of(bootstrap, name, tmp_path, [("executor", step) for step in TASK_STEPS])
    with Driver(tmp_path / "driver", runs, master="local-cluster[1,1,1024]") as driver:
        assert driver.wait() == 0, driver.said()
    all_right(runs)


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.whole
@pytest.mark.parametrize("step", ["writing", "taken", "deciding", "marked"])
def test_a_zombie_wakes_after_its_successor(
    spark: Any, bootstrap: str, name: str, checkpoint: str, tmp_path: Path, step: str
) -> None:
    """It stood still (SIGSTOP) in the middle of a batch, its driver died, another one has done all of the work. What it
    still sends is refused: records, marker, and the commit itself. Without a turn it sends no record: there is nobody
    who could give it one.
    """
    wanted = input_of(bootstrap, name)
    flag = flag_of(checkpoint)
    run = {"bootstrap": bootstrap, "name": name, "checkpoint": checkpoint, "fault": f"freeze@{step}", "faultFlag": flag}
    with Driver(tmp_path / "driver", [run]) as driver:
        driver.until(flag)
        zombie = int(Path(f"{flag}.pid").read_text())
        wait_until(lambda: psutil.Process(zombie).status() == psutil.STATUS_STOPPED, "a worker that stands still")
    try:
        run_eos(spark, bootstrap, name, checkpoint)
        right(bootstrap, name, wanted)
        assert psutil.Process(zombie).status() == psutil.STATUS_STOPPED
        os.kill(zombie, signal.SIGCONT)
        wait_until(lambda: Path(f"{flag}.error").exists(), "the zombie's answer", seconds=SECONDS)
        # With a turn its batch is on the way, and whichever refuses it first is heard: the broker, or the driver's end.
        by_the_broker = ("SinkTakenOver", "TransactionAborted")
        refused = {"writing": ("TurnRefused",), "taken": ("TurnRefused", *by_the_broker)}.get(step, by_the_broker)
        assert Path(f"{flag}.error").read_text().startswith(refused)
    finally:
        if not is_gone(zombie):
            os.kill(zombie, signal.SIGKILL)
    right(bootstrap, name, wanted)


@pytest.mark.whole
@pytest.mark.parametrize("step", [*TASK_STEPS, *COMMIT_STEPS])
def test_two_drivers_on_one_checkpoint(
    spark: Any, bootstrap: str, name: str, checkpoint: str, tmp_path: Path, step: str
) -> None:
    """The first one pauses in a batch; the second runs to the end; then the first goes on, and must find out."""
    wanted = input_of(bootstrap, name)
    flag = flag_of(checkpoint)
    run = {"bootstrap": bootstrap, "name": name, "checkpoint": checkpoint, "fault": f"wait@{step}", "faultFlag": flag}
    with Driver(tmp_path / "driver", [run]) as first:
        first.until(flag)
        run_eos(spark, bootstrap, name, checkpoint)
        right(bootstrap, name, wanted)
        Path(f"{flag}.go").touch()
        status = first.wait()
        if step != "ended":  # Behind it lies nothing but Spark's own note, which Spark itself guards.
            assert status != 0
            errors = ("older copy",) if step == "starting" else ("SinkTakenOver", "TransactionAborted")
            assert any(words in first.said() for words in errors), first.said()
    right(bootstrap, name, wanted)


def test_two_queries_with_one_sink_id(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """The later one fences the earlier, which says so; started again, each still writes its batches once."""
    ours, theirs = input_of(bootstrap, f"{name}-ours"), input_of(bootstrap, f"{name}-theirs")
    shared = {"sinkId": f"{name}-sink"}
    flag = flag_of(checkpoint)
    fault = {"fault": "wait@written", "faultFlag": flag}
    paused = eos_query(spark, bootstrap, f"{name}-ours", f"{checkpoint}-a", "kafka-eos-faulty", **shared, **fault)
    try:
        wait_until(lambda: paused.exception() or Path(flag).exists(), "the pause", seconds=SECONDS)
        run_eos(spark, bootstrap, f"{name}-theirs", f"{checkpoint}-b", **shared)
        right(bootstrap, f"{name}-theirs", theirs)
    finally:
        Path(f"{flag}.go").touch()
    with pytest.raises(Exception, match="sinkId"):
        finished(paused)
    assert len(output_of(bootstrap, f"{name}-ours")) < len(ours)
    run_eos(spark, bootstrap, f"{name}-ours", f"{checkpoint}-a", **shared)
    right(bootstrap, f"{name}-ours", ours)
    right(bootstrap, f"{name}-theirs", theirs)
