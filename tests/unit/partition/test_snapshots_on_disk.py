"""A snapshot of producer state is on the disk when it counts as written (KAFKA-9892)."""

from random import Random

from storage.producer_snapshot import SnapshotFiles
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import idempotent, on_disk


def test_no_power_cut_takes_a_snapshot_back() -> None:
    """I24: older ones are deleted on its word, and what it remembers may be trimmed from the log."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(7, 0, 0))
    rig.flush()
    rig.partition.derived.snapshot()
    for seed in range(20):
        found = SnapshotFiles(files.crash(Random(seed)), "t-0")
        state = found.load(start_offset=0, end_offset=1, now_ms=0, expiration_ms=1 << 60)
        assert state is not None and state.offset == 1
        assert dict(state.packed_entries()) == rig.producers
