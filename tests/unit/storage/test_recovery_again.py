"""A crash within recovery, or soon after it: the next start finds the same log, and takes nothing for lost."""

from collections.abc import Iterator
from random import Random

import pytest

from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.loop import ProcessDied
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=0)
FORGETFUL = Recovery(recovery_point=5, log_start_offset=9)
"""DeleteRecords up to 9 was written down, and a power cut has taken all behind 5 (page-cache durability)."""
EPOCHS = "t-0/leader-epoch-checkpoint"


def opened(files: SimulatedFiles, recovery: Recovery) -> SegmentLog:
    return SegmentLog.open(files, "t-0", CONFIG, now_ms=lambda: 1_000, recovery=recovery)


def filled(count: int) -> SimulatedFiles:
    files = SimulatedFiles()
    log = opened(files, Recovery())
    for index in range(count):
        log.append(batch(index), leader_epoch=3)
    log.close()
    return files


def killed_at_each_step(files: SimulatedFiles, recovery: Recovery) -> Iterator[SimulatedFiles]:
    """The disk after a start that was killed before each of its operations, and after one that was not."""
    for steps in range(1_000):
        tried, left = files.kill(), steps

        def count(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ProcessDied

        tried.watcher = count
        try:
            opened(tried, recovery)
        except ProcessDied:
            tried.watcher = None
            yield tried
            continue
        tried.watcher = None
        yield tried
        return


@pytest.mark.parametrize("later", [Recovery(same_boot=True, log_start_offset=9), FORGETFUL])
def test_a_log_that_begins_anew_is_not_missed_by_the_next_start(later: Recovery) -> None:
    log = opened(filled(5), FORGETFUL)
    files: SimulatedFiles = log.files  # type: ignore[assignment]
    again = opened(files.kill(), later)
    assert (again.start_offset, again.end_offset, again.latest_epoch()) == (9, 9, 3)


def test_a_log_that_begins_anew_does_so_whenever_the_start_dies() -> None:
    for number, files in enumerate(killed_at_each_step(filled(5), FORGETFUL)):
        for seed in range(5):
            again = opened(files.crash(Random(seed)), FORGETFUL)
            assert (again.start_offset, again.end_offset) == (9, 9), number
        assert number < 200


def test_epochs_are_cut_though_a_compaction_was_under_way() -> None:
    """Retention took the first segment, a replacement of the second stood ready, and the epochs were not cut yet."""
    files = filled(12)
    bases = opened(files.kill(), Recovery(clean=True, recovery_point=12)).segment_bases()
    assert len(bases) > 2
    first, second = (f"t-0/{base:020d}.log" for base in bases[:2])
    files.rename(first, first + ".deleted")
    files.write_whole(second + ".swap", files.open(second).read(0, 1 << 20))
    found = Recovery(same_boot=True, recovery_point=12, sync=False)
    for after in killed_at_each_step(files, found):
        assert opened(after.kill(), found).start_offset == bases[1]


def test_what_compaction_has_renamed_is_not_taken_for_deleted() -> None:
    files = filled(12)
    first = f"t-0/{0:020d}.log"
    files.write_whole(first + ".swap", files.open(first).read(0, 1 << 20))
    files.rename(first, first + ".deleted")
    log = opened(files, Recovery(same_boot=True, recovery_point=12))
    assert log.start_offset == 0 and log.epoch_end(3) == (3, 12)
    assert files.open(EPOCHS).read(0, 100) == b"0\n1\n3 0\n"
