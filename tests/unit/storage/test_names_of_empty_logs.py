"""A log that was closed while it was empty: what is written to it later is on the disk with its name."""

from random import Random

import pytest

from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

CONFIG = LogConfig()


def opened(files: SimulatedFiles, recovery: Recovery) -> SegmentLog:
    return SegmentLog.open(files, "t-0", CONFIG, now_ms=lambda: 1_000, recovery=recovery)


@pytest.mark.parametrize("recovery", [Recovery(clean=True), Recovery(same_boot=True)])
def test_what_was_flushed_after_a_restart_survives_a_power_cut(recovery: Recovery) -> None:
    """I24: nobody syncs the names of an empty log, so the first flush after the restart has to. Found by simulation."""
    files = SimulatedFiles()
    opened(files, Recovery()).close()
    log = opened(files.kill(), recovery)
    log.append(batch(), leader_epoch=1)
    assert log.flush_now() == 1
    for seed in range(20):
        assert opened(log.files.crash(Random(seed)), Recovery()).end_offset == 1  # type: ignore[attr-defined]
