"""A read that fails while a log is compacted ends that pass, and nothing else: the broker goes on, readers have all
there was, and the next round does what was left."""

import asyncio
import errno
import logging

import pytest

from storage.segment_log import SegmentLog
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import Rig, plain
from tests.unit.partition.test_compaction import filled, keyed, latest, opened
from tests.unit.partition.test_rounds_of_compaction import housekeeping


def started(files: SimulatedFiles) -> Rig:
    """A log with an aborted transaction, over a disk as a kill leaves it: nothing is known of it but what it says."""
    rig = opened(files)
    filled(rig, 8)
    rig.produce(keyed(1, 0, 0, b"k1", b"aborted", transactional=True), transactional_id="tx")
    rig.end(1, 1, commit=False)
    filled(rig, 8)
    rig.partition.close()
    return opened(files.kill())


@pytest.mark.parametrize("ending", [".log", ".txnindex"])
def test_a_read_that_fails_ends_a_pass_and_nothing_else(ending: str, caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    whole = started(files.kill())
    before, size_bytes = latest(whole), whole.log.size_bytes
    struck = True
    for at in range(1000):
        rig = started(files.kill())
        assert isinstance(rig.log, SegmentLog)
        disk = rig.log.files
        assert isinstance(disk, SimulatedFiles)
        struck, left = False, at

        def fault(operation: str, path: str) -> OSError | None:
            nonlocal struck, left
            if operation != "read" or not path.endswith(ending) or struck or (left := left - 1) >= 0:
                return None
            struck = True
            return OSError(errno.EIO, "bad sector", path)

        disk.fault = fault
        with caplog.at_level(logging.ERROR):
            asyncio.run(housekeeping([rig]).compact())
        disk.fault = None
        assert latest(rig) == before
        if not struck:
            break
        assert [record.getMessage().count("cannot be read") for record in caplog.records] == [1]
        caplog.clear()
        assert not [name for name in disk.list("t-0") if name.endswith((".cleaned", ".swap"))]
        asyncio.run(housekeeping([rig]).compact())
        assert latest(rig) == before and rig.log.size_bytes < size_bytes
    assert at > 0 and not struck


def test_what_compaction_has_put_in_place_need_not_be_read_to_go_on() -> None:
    """From the moment it stands there nobody can open or read it: the pass comes to its end, the partition takes
    records, and when the disk is well again it tells the same, as does the next start."""
    files = SimulatedFiles()
    rig = started(files)
    assert isinstance(rig.log, SegmentLog)
    disk = rig.log.files
    assert isinstance(disk, SimulatedFiles)
    before, in_place = latest(rig), set[str]()

    def watch(operation: str, path: str) -> None:
        if operation == "after rename" and path.endswith(".swap"):
            in_place.add(path.removesuffix(".swap"))

    def fault(operation: str, path: str) -> OSError | None:
        cannot = operation in ("read", "open") and path in in_place
        return OSError(errno.EIO, "bad sector", path) if cannot else None

    disk.watcher, disk.fault = watch, fault
    asyncio.run(housekeeping([rig]).compact())
    assert {path.rpartition(".")[2] for path in in_place} == {"log", "index", "timeindex", "txnindex"}
    rig.produce(plain(b"later", key=b"another"))
    rig.log.roll()
    rig.flush()
    rig.partition.derived.snapshot()
    asyncio.run(housekeeping([rig]).compact())
    disk.watcher = disk.fault = None
    before[b"another"] = b"later"
    assert latest(rig) == before
    rig.partition.close()
    assert latest(opened(disk.kill())) == before
