"""The main job at small size, and its verdict against planted faults: a check that cannot fail would be worth
nothing.
"""

import json
import subprocess
import sys
from collections import Counter

import pytest
from click.testing import CliRunner

from tallystick import postgresql_process
from tallystick.demo.command import demo
from tallystick.demo.plan import Settings, all_transfers, batches, entries_of
from tallystick.demo.verdict import Verdict
from tallystick.postgresql_process import why_not
from tallystick.process import PACKAGES

TRANSFERS = 4000


def run_demo(*options: str) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", "tallystick", "demo", "--json", "--transfers", str(TRANSFERS), *options]
    done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["failure"] == "", done.stderr
    return done.returncode, figures


@pytest.mark.parametrize(("seed", "durability"), [(7, "fsync"), (11, "page-cache")])
def test_the_main_job_is_exactly_once_through_kills(seed: int, durability: str) -> None:
    status, figures = run_demo("--seed", str(seed), "--durability", durability)
    assert (status, figures["ok"]) == (0, True)
    assert figures["transfers_in"] == TRANSFERS and figures["entries_out"] == 2 * TRANSFERS
    assert figures["missing"] == figures["doubled"] == figures["aborted_visible"] == figures["ledger_sum"] == 0
    assert figures["zombies_fenced"] == 1
    faults = figures["faults"]
    assert isinstance(faults, dict)
    assert (faults["workers_frozen"], faults["workers_killed"], faults["brokers_killed"]) == (1, 1, 1)
    assert figures["uncommitted_transfers_besides"], "something was really aborted"


def test_it_is_exactly_once_over_several_nodes_of_which_one_is_killed() -> None:
    status, figures = run_demo("--seed", "5", "--nodes", "3")
    assert (status, figures["ok"], figures["nodes"]) == (0, True, 3)
    faults = figures["faults"]
    assert isinstance(faults, dict) and faults["brokers_killed"] == 1


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_it_is_exactly_once_while_a_node_is_killed_and_the_database_fails_over() -> None:
    status, figures = run_demo("--seed", "9", "--cluster")
    assert (status, figures["ok"], figures["nodes"]) == (0, True, 3)
    faults = figures["faults"]
    assert isinstance(faults, dict) and (faults["brokers_killed"], faults["databases_failed_over"]) == (1, 1)


def test_where_no_postgresql_is_a_cluster_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql_process, "PROGRAMS", ("a-program-that-is-nowhere",))
    said = CliRunner().invoke(demo, ["--cluster"])
    assert (said.exit_code, said.output.count("\n")) == (1, 1)
    assert "there is no PostgreSQL: a-program-that-is-nowhere" in said.output


@pytest.mark.parametrize("others", [["--store", "postgresql://nowhere/x"], ["--bootstrap", "nowhere:1"], ["--keep"]])
def test_a_cluster_is_not_started_beside_what_is_there(others: list[str]) -> None:
    assert CliRunner().invoke(demo, ["--cluster", *others]).exit_code == 2


@pytest.mark.parametrize(
    ("plant", "line"), [("skip", "missing"), ("double", "doubled"), ("offsets-outside", "missing")]
)
def test_a_planted_fault_turns_the_verdict_red(plant: str, line: str) -> None:
    status, figures = run_demo("--seed", "3", "--plant", plant)
    assert (status, figures["ok"]) == (1, False)
    assert figures[line] != 0


def test_the_plan_is_the_same_for_every_process() -> None:
    settings = Settings("nowhere:1", 2500, seed=5)
    assert [transfer for batch, _ in batches(settings) for transfer in batch] == list(all_transfers(settings))
    assert list(all_transfers(settings)) != list(all_transfers(Settings("nowhere:1", 2500, seed=6)))
    assert sum(cents for transfer in all_transfers(settings) for _, _, cents in entries_of(transfer)) == 0
    assert any(abort for _, abort in batches(settings))


def test_the_verdict_tells_missing_from_doubled_from_invented() -> None:
    verdict = Verdict(3)
    verdict.compare(Counter({"a": 1, "b": 3, "x": 2}), Counter({"a": 1, "b": 1, "c": 1}))
    assert (verdict.missing, verdict.doubled, verdict.invented) == (1, 2, 2)
    assert not verdict.ok
