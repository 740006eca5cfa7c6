"""The three pipelines through the command that users call: small, under kills, judged by their own verdicts.

Each run is one process with a driver of its own, which may be killed; the session of the other Spark tests stays out
of it. That the verdicts can fail is shown in tests/unit/spark_connector/test_pipeline_verdicts.py.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.harness.broker import EXTERNAL, KAFKA
from tests.pipelines.needs import why_not_delta
from tests.spark.session import ROOT, NotHere, needed

SMALL = 0.002
SECONDS = 800
"""Never what a test measures: on a loaded machine each start of a JVM takes half a minute."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def spark_is_here() -> None:
    try:
        needed()
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker_options(request: pytest.FixtureRequest, name: str) -> list[str]:
    """None: the command starts a broker and kills it. Where another one is given to the tests, it is used."""
    if not (EXTERNAL or KAFKA):
        return []
    return ["--bootstrap", request.getfixturevalue("target").bootstrap, "--prefix", f"{name}-"]


def run(which: str, *options: str) -> dict[str, Any]:
    """The last line of the command's output. Its exit status says the same."""
    command = [sys.executable, "-m", "tests.pipelines", which, "--json", "--durability", "page-cache"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.stdout.strip(), done.stderr[-3000:]
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode == 0) == outcome["ok"]
    assert not outcome["failure"], outcome["failure"]
    return outcome


def wrong_lines(outcome: dict[str, Any]) -> dict[str, list[str]]:
    return {name: verdict["wrong"] for name, verdict in outcome["verdicts"].items() if verdict["wrong"]}


def test_all_three_through_killed_workers_and_a_killed_broker(broker_options: list[str]) -> None:
    """One driver with all four queries; its Python workers die once, and the broker dies once."""
    outcome = run("all", "--scale", str(SMALL), "--struck", "worker,broker", "--rounds", "1", *broker_options)
    assert wrong_lines(outcome) == {}
    assert sorted(outcome["verdicts"]) == ["cdc", "transfers", "windows"]
    assert outcome["strikes"] == ({"worker": 1} if broker_options else {"worker": 1, "broker": 1})
    reason = why_not_delta()
    assert outcome["verdicts"]["cdc"]["remarks"] == [
        f"the table is Parquet: {reason}" if reason else "the table is Delta"
    ]


@pytest.mark.whole
@pytest.mark.parametrize(("source", "table"), [("kafka", "delta"), ("kafka-arrow", "parquet")])
def test_all_three_through_everything(broker_options: list[str], source: str, table: str) -> None:
    """Drivers die too, as JVMs and as programs; what the state store then holds is compared."""
    how = ("--source", source, "--table", table)
    outcome = run("all", "--scale", "0.01", "--rounds", "1", *how, "--seed", "7", *broker_options)
    assert wrong_lines(outcome) == {}
    assert outcome["strikes"]["jvm"] == outcome["strikes"]["driver"] == 1
    assert outcome["verdicts"]["windows"]["figures"]["states_compared"] > 0


@pytest.mark.whole
def test_the_stock_sink_doubles_under_the_same_kills(broker_options: list[str]) -> None:
    """The control: it proves that these kills hit something."""
    outcome = run("transfers", "--control", "--scale", "0.02", "--struck", "jvm", "--rounds", "1", *broker_options)
    assert wrong_lines(outcome) == {}
    assert outcome["verdicts"]["transfers"]["lines"]["entries doubled (the control: the stock sink must)"] > 0
