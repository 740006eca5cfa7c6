"""The largest timestamp of a segment after a kill or a power cut at any moment at which its indexes are being written:
retention and lookups by time go by it."""

from collections.abc import Callable
from random import Random

import pytest

from protocol.records.batch import BatchHeader
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

CONFIG = LogConfig(index_interval_bytes=150)
TIMES: dict[str, Callable[[int], int]] = {
    "the first is the newest": lambda index: 9_000 if index == 0 else 10,
    "the newest lies in the middle": lambda index: 9_000 if index == 71 else 10,
    "rising": lambda index: 10 + index,
    "rising now and then": lambda index: 10 + index // 50,
    "rising between the entries": lambda index: 10 + index if index % 3 == 1 else 5,
}


def open_log(files: SimulatedFiles, recovery: Recovery) -> SegmentLog:
    return SegmentLog.open(files, "t-0", CONFIG, now_ms=lambda: 1_000, recovery=recovery)


def check_newest(log: SegmentLog) -> None:
    """What the index says is what a walk over all batches says."""
    headers: list[BatchHeader] = [header for header, _ in log.replay(0)]
    newest_ms = max((header.max_timestamp for header in headers), default=-1)
    assert log.segments[0].largest_timestamp[0] == newest_ms
    found = finish(log.max_timestamp())
    assert (found.timestamp_ms if found is not None else -1) == newest_ms
    if found is not None:
        assert found.offset == next(one.base_offset for one in headers if one.max_timestamp == newest_ms)


@pytest.mark.parametrize("story", TIMES)
def test_a_kill_before_and_behind_any_write_to_an_index(story: str) -> None:
    """Groups of entries are written one index after the other."""
    files, killed = SimulatedFiles(), list[SimulatedFiles]()
    log = open_log(files, Recovery())

    def remember(operation: str, path: str) -> None:
        if operation.endswith("append") and path.endswith("index"):
            killed.append(files.kill())

    files.watcher = remember
    for index in range(600):
        log.append(batch(TIMES[story](index)), leader_epoch=0)
    log.close()
    assert len(killed) > 3
    for found in [*killed, files.kill()]:
        check_newest(open_log(found, Recovery(same_boot=True)))


@pytest.mark.parametrize("story", TIMES)
def test_a_power_cut_behind_a_checkpoint(story: str) -> None:
    """Everything behind the recovery point may be on the disk or not, each index for itself; what an entry behind it
    leads to is not what was synced."""
    for point in range(200, 210):
        files = SimulatedFiles()
        log = open_log(files, Recovery())
        for index in range(point):
            log.append(batch(TIMES[story](index)), leader_epoch=0)
        log._checkpoint()
        log.flush_now()
        assert log.recovery_point == point
        for _ in range(5):
            log.append(batch(10), leader_epoch=0)
        log.segments[0].write_out_indexes()
        for seed in range(20):
            check_newest(open_log(files.crash(Random(seed)), Recovery(recovery_point=point)))


@pytest.mark.parametrize("story", TIMES)
def test_a_kill_while_indexes_are_made_anew(story: str) -> None:
    """None of the two may look right while the other is not."""
    files, killed = SimulatedFiles(), list[SimulatedFiles]()
    log = open_log(files, Recovery())
    for index in range(300):
        log.append(batch(TIMES[story](index)), leader_epoch=0)
    log.close()
    files.open(f"{log.active.path}.timeindex").append([b"torn"])
    found = files.kill()

    def remember(operation: str, path: str) -> None:
        if operation in ("truncate", "append") and path.endswith("index"):
            killed.append(found.kill())

    found.watcher = remember
    check_newest(open_log(found, Recovery(clean=True, recovery_point=300)))
    assert len(killed) > 3
    for one in killed:
        check_newest(open_log(one, Recovery(clean=True, recovery_point=300)))


@pytest.mark.parametrize("story", TIMES)
def test_the_index_of_a_final_segment_has_its_newest(story: str) -> None:
    """Retention looks at nothing else of it, and a kill changes nothing of that."""
    log = open_log(files := SimulatedFiles(), Recovery())
    for index in range(80):
        log.append(batch(TIMES[story](index)), leader_epoch=0)
    log.roll()
    log.append(batch(1), leader_epoch=0)
    again = open_log(files.kill(), Recovery(same_boot=True))
    newest_ms = max(TIMES[story](index) for index in range(80))
    assert again.segments[0].time_index.last is not None and again.segments[0].time_index.last[0] == newest_ms
