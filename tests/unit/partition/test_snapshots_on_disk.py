"""A snapshot of producer state is on the disk when it counts as written (KAFKA-9892)."""

from random import Random

from storage.producer_snapshot import SnapshotFiles
from storage.recovery import Recovery
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import idempotent, in_transaction, on_disk


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


def test_a_snapshot_of_records_that_were_lost_is_forgotten() -> None:
    """I24: a snapshot is on the disk before the records that it knows of. Where a power cut took those, it must not
    come back when the log has grown past its offset again, with other records."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(7, 0, 0))
    rig.flush()
    rig.partition.derived.snapshot()
    rig.produce(idempotent(7, 0, 1))
    rig.partition.derived.snapshot()
    snapshots = SnapshotFiles(files, "t-0")
    assert snapshots.offsets() == [1, 2]
    state = snapshots.load(start_offset=0, end_offset=1, now_ms=0, expiration_ms=1 << 60)
    assert state is not None and state.offset == 1
    assert snapshots.offsets() == [1]


def test_a_transaction_that_is_open_in_a_snapshot_is_open_after_it() -> None:
    """I24, I29: what is undecided stays hidden over a restart that replays nothing."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(7, 0, 0))
    rig.transact(in_transaction(8, 0, 0))
    rig.produce(idempotent(7, 0, 1))
    rig.partition.close()
    again = on_disk(files.kill(), recovery=Recovery(recovery_point=3, clean=True))
    assert again.partition.high_watermark == 3
    assert again.partition.last_stable_offset == 1
    again.end(8, 1, commit=True)
    again.flush()
    assert again.partition.last_stable_offset == 4


def test_a_snapshot_never_stands_without_its_sidecar() -> None:
    """Killed between the two writes, all but the last batch of each producer would be forgotten."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for sequence in range(3):
        rig.produce(idempotent(7, 0, sequence))
    rig.flush()
    written: list[str] = []

    def remember(operation: str, path: str) -> None:
        if operation == "write_whole":
            written.append(path.rpartition(".")[2])

    files.fault = remember
    rig.partition.derived.snapshot()
    assert written == ["producers", "snapshot"]
