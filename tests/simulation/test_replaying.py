"""Power cuts between any two system calls of the real disk adapter: what was acknowledged by then is there (I49)."""

import os
import tempfile
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from storage.checkpoints import CLEAN_SHUTDOWN
from tests.harness.network import NetworkFaults
from tests.simulation.plan_clients import COMPACTED
from tests.simulation.recording import Recording, recorded, recorded_start, violations
from tests.simulation.replaying import CUTS, after_each, distinct
from tests.simulation.shape import ClientPlan, FaultPlan, Plan

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "log.retention.check.interval.ms": "20",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.delete.retention.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "20",
    "log.segment.delete.delay.ms": "0",
    "metadata.log.max.snapshot.interval.ms": "40",
    "metadata.log.max.record.bytes.between.snapshots": "400",
    "metadata.max.retention.bytes": "0",
}
CALM = (("zombie", 0.0), ("dies", 0.0), ("timeout_ms", 1000))
PLAN = Plan(
    seed=1,
    duration_s=0.4,
    segment_bytes=1500,
    sync_s=0.002,
    network=NetworkFaults(delay_s=0.0002),
    final="stop",
    clients=(
        ClientPlan("idempotent", "keys", 1, 0.0, (("topic", COMPACTED), ("in_flight", 1))),
        ClientPlan("transactional", "two", 2, 0.0, (("id", "two"), ("version", 2), ("topics", "abs"), *CALM)),
        ClientPlan("worker", "worker", 3, 0.0, (("version", 0), *CALM)),
        ClientPlan("idempotent", "source", 4, 0.0, (("topic", "a"), ("in_flight", 5))),
        ClientPlan("committer", "committer", 5, 0.0, (("number", 0),)),
        *(ClientPlan("admin", f"trims{seed}", seed, 0.03 * seed, (("chores", "trim"),)) for seed in range(1, 9)),
        ClientPlan("admin", "topics", 20, 0.0, (("chores", "topics"),)),
        ClientPlan("admin", "configs", 8, 0.0, (("chores", "configs"),)),
        ClientPlan("reader", "reader", 7, 0.0, (("topic", "a"), ("committed", True))),
    ),
    faults=(FaultPlan("kill", 0.15, down_s=0.01), FaultPlan("stop", 0.28, down_s=0.01)),
    settings=tuple(SETTINGS.items()),
)


TORN = "last writes torn, names as synced"
EVERY = 1 if os.environ.get("TALLYSTICK_POWER_CUTS") == "whole" else 16
"""Of so many states of the disk that differ, one is looked at."""
STARTS = 1 if EVERY > 1 else 6
"""How many of those that a power cut has torn get a start over the real adapter."""
ALL_CALLS = {"create", "fdatasync", "fsync", "mkdir", "rename", "rmdir", "truncate", "unlink", "write"}


@cache
def recording(page_cache: bool = False) -> Recording:
    with tempfile.TemporaryDirectory() as folder:
        return recorded(replace(PLAN, page_cache=page_cache), folder + "/data")


def start_that_cuts(number: int, folder: Path) -> Recording:
    """A start of a torn disk that has to cut something off a log; the numbers are spread over the recording."""
    torn = list(distinct(recording().calls, TORN))
    first = len(torn) // (STARTS + 1) * (number + 1)
    for attempt, (index, disk) in enumerate(torn[first:] + torn[:first]):
        start = recorded_start(recording(), index, disk, str(folder / f"data-{attempt}"))
        assert start.violations == []
        if any(call.name == "truncate" and call.path.endswith(".log") for call in start.calls):
            return start
    raise AssertionError("no start had to cut anything")


def look_at_all(recording: Recording, cut: str, every: int) -> None:
    assert recording.violations == []
    for index, disk in islice(distinct(recording.calls, cut, recording.before), list(CUTS).index(cut), None, every):
        assert violations(recording, index, disk) == [], f"{cut}, after call {index}: {recording.calls[index]}"


def test_the_recording_has_all_that_an_adapter_does() -> None:
    """Rolls, compaction, retention, checkpoints, snapshots, a topic that goes, and starts after a stop and a kill."""
    found = recording()
    assert found.violations == []
    assert {call.name for call in found.calls} == ALL_CALLS
    renamed = {(call.path.rpartition(".")[2], call.target.rpartition(".")[2]) for call in found.calls if call.target}
    assert renamed >= {
        ("cleaned", "swap"),
        ("swap", "log"),
        ("log", "deleted"),
        ("tmp", "checkpoint"),
        ("new", "metadata"),
    }
    assert len([event for event in found.ended().events if event[0] == "trimmed" and event[4] > 0]) > 3
    assert any(call.name == "unlink" and call.path == CLEAN_SHUTDOWN for call in found.calls)
    assert any(call.name == "rmdir" and call.path.endswith("-delete") for call in found.calls)


@pytest.mark.parametrize("cut", CUTS)
def test_a_power_cut_after_any_call(cut: str) -> None:
    look_at_all(recording(), cut, EVERY)


@pytest.mark.parametrize("cut", CUTS)
def test_a_power_cut_after_an_orderly_stop(cut: str) -> None:
    """With the page cache, too, all of it is on the disk then."""
    found = recording(page_cache=True)
    assert found.violations == []
    stops = [index + 1 for index, call in enumerate(found.calls) if call.target == CLEAN_SHUTDOWN]
    assert stops and all(str(found.calls[index]) == "fsync ." for index in stops)
    for index, disk in after_each(found.calls, cut):
        if index in stops:
            assert violations(found, index, disk) == [], f"{cut}, after call {index}"


@pytest.mark.parametrize("number", range(STARTS))
def test_another_one_after_any_call_of_the_start(number: int, tmp_path: Path) -> None:
    """A start that cuts something off a log, and the power goes again."""
    start = start_that_cuts(number, tmp_path)
    for cut in CUTS:
        look_at_all(start, cut, EVERY)
