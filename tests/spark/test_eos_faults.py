"""The exactly-once sink under faults at each numbered step: nothing lost, nothing doubled, nothing left open.

One micro-batch is: starting, opened, writing, written (in the task), deciding, marked, ended (in the commit worker),
and then Spark notes the batch as done. Whatever dies in between, a restart on the same checkpoint makes it right.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.process import BrokerProcess
from tests.spark.eos_queries import BATCH, RECORDS, eos_query, input_of, output_of, run_driver, run_eos
from tests.spark.outcome import flag_of, right, started_again
from tests.spark.queries import finished
from tests.spark.steps import STEPS

SHORT = {("worker", "written"), ("raise", "ended"), ("takeover", "written")}
BROKER_SHORT = {"writing", "marked"}
DRIVER_SHORT = {("jvm", "ended")}


def cases(short: set[Any], everything: Iterator[Any]) -> list[Any]:
    """All cases; those that are not in the short form carry the mark."""
    return [pytest.param(*case, marks=() if case in short else pytest.mark.whole) for case in everything]


@pytest.mark.parametrize(
    ("action", "step"),
    cases(SHORT, ((action, step) for action in ("worker", "raise", "takeover") for step in STEPS)),
)
def test_a_fault_in_a_worker(spark: Any, bootstrap: str, name: str, checkpoint: str, action: str, step: str) -> None:
    """SIGKILL of the Python worker, an exception (after which Spark calls `abort`), a second driver that takes over."""
    wanted = input_of(bootstrap, name)
    faulty: dict[str, Any] = {
        "sink": "kafka-eos-faulty",
        "fault": f"{action}@{step}",
        "faultFlag": flag_of(checkpoint),
    }
    try:
        run_eos(spark, bootstrap, name, checkpoint, **faulty)
    except Exception as error:  # What the query ended with differs from fault to fault; here it only has to end.
        assert Path(flag_of(checkpoint)).exists(), f"it failed before the fault: {error}"
        run_eos(spark, bootstrap, name, checkpoint, **faulty)
    assert Path(flag_of(checkpoint)).read_text() == step
    right(bootstrap, name, wanted)


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step in BROKER_SHORT else pytest.mark.whole) for step in STEPS]
)
def test_the_broker_is_killed(
    spark: Any, own_broker: Callable[..., BrokerProcess], name: str, checkpoint: str, step: str
) -> None:
    """The query does not even notice: its requests are repeated, with the same sequences and epoch."""
    broker = own_broker().start()
    wanted = input_of(broker.bootstrap, name)
    fault = {"fault": f"pid@{step}", "faultFlag": flag_of(checkpoint), "faultPid": broker.pid}
    with started_again(broker):
        query = eos_query(spark, broker.bootstrap, name, checkpoint, "kafka-eos-faulty", **fault)
        finished(query)
    assert broker.starts == 2
    right(broker.bootstrap, name, wanted)


@pytest.mark.parametrize(
    ("who", "step"), cases(DRIVER_SHORT, ((who, step) for who in ("jvm", "driver") for step in STEPS))
)
def test_the_driver_is_killed(spark: Any, bootstrap: str, name: str, checkpoint: str, who: str, step: str) -> None:
    """A driver process that dies by SIGKILL, as a JVM or as a Python program; another one goes on."""
    wanted = input_of(bootstrap, name)
    done = run_driver(bootstrap, name, checkpoint, fault=f"{who}@{step}", faultFlag=flag_of(checkpoint))
    assert Path(flag_of(checkpoint)).exists(), done.stderr.decode(errors="replace")[-3000:]
    assert done.returncode != 0
    run_eos(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)


@pytest.mark.whole
@pytest.mark.parametrize("step", ["written", "marked"])
def test_a_batch_that_outlives_its_transaction(
    spark: Any, bootstrap: str, name: str, checkpoint: str, step: str
) -> None:
    """The broker aborts it; the query says what to do; with more time it goes through."""
    wanted = input_of(bootstrap, name)
    slow = {"fault": f"outlive@{step}", "faultFlag": flag_of(checkpoint), "kafka__transaction__timeout__ms": 1000}
    with pytest.raises(Exception, match=r"kafka\.transaction\.timeout\.ms"):
        run_eos(spark, bootstrap, name, checkpoint, "kafka-eos-faulty", **slow)
    run_eos(spark, bootstrap, name, checkpoint)
    right(bootstrap, name, wanted)


def forget_the_last_commit(checkpoint: str) -> None:
    """The checkpoint as a crash leaves it between the sink's commit and Spark's note of it."""
    last = max(
        (path for path in (Path(checkpoint) / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_the_stock_sink_doubles_where_ours_does_not(spark: Any, bootstrap: str, name: str, checkpoint: str) -> None:
    """The control: it proves that these tests can fail."""
    wanted = input_of(bootstrap, name)
    outcome: dict[str, int] = {}
    for sink in ("kafka", "kafka-eos"):
        before = len(output_of(bootstrap, name))
        for _ in range(2):
            run_eos(spark, bootstrap, name, f"{checkpoint}-{sink}", sink)
            forget_the_last_commit(f"{checkpoint}-{sink}")
        outcome[sink] = len(output_of(bootstrap, name)) - before
    assert outcome == {"kafka": RECORDS + BATCH, "kafka-eos": RECORDS}
    assert set(output_of(bootstrap, name)) == set(wanted)
