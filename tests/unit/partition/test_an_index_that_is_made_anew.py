"""An index of aborted transactions that is not what was written is made anew, once: from the log up to the snapshot."""

from random import Random

import pytest

from storage.producers.aborted import AbortedTransaction
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import on_disk, in_transaction


@pytest.mark.parametrize("seed", range(3))
def test_what_was_made_anew_is_right_after_a_power_cut(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """What lies behind the snapshot is not said to be there before it is on the disk: it would be missed."""
    files = SimulatedFiles()
    rig = on_disk(files)
    aborted = []
    for number in range(4):
        begun = rig.transact(in_transaction(5, 0, number)).base_offset
        ended = rig.end(5, 0, commit=False, version=0)
        aborted.append(AbortedTransaction(5, begun, ended, ended + 1))
        if number == 1:
            rig.flush()
            rig.partition.derived.snapshot()
    rig.flush()
    files = files.kill()
    files.open("t-0/00000000000000000000.txnindex").truncate(10)
    said = []
    for _ in range(2):
        again = on_disk(files)
        assert again.partition.derived.aborted.collect(0, 100) == aborted
        said.append(any("made anew" in record.getMessage() for record in caplog.records))
        caplog.clear()
        files = files.crash(Random(seed))
    assert said == [True, False]
