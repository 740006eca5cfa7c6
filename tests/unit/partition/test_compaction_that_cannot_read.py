"""A read that fails while a log is compacted ends that pass, and nothing else: the broker goes on, readers have all
there was, and the next round does what was left."""

import asyncio
import errno
import logging

import pytest

from storage.segment_log import SegmentLog
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import Rig
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


@pytest.mark.parametrize(("ending", "reads"), [(".log", 1000), (".txnindex", 1)])
def test_a_read_that_fails_ends_a_pass_and_nothing_else(
    ending: str, reads: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the index of aborted transactions the first read: later ones are of what compaction itself has just put there,
    and a partition without that cannot go on."""
    files = SimulatedFiles()
    whole = started(files.kill())
    before, size_bytes = latest(whole), whole.log.size_bytes
    struck = True
    for at in range(reads):
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
    assert at > 0 or struck
