"""Whatever the disk refuses: what was opened for one look is closed again, and the error is that of the disk."""

import errno
from collections.abc import Callable

import pytest

from storage.checkpoints import read_text, replace_unsynced
from storage.data_folder import DataFolder
from storage.epochs import EPOCHS_FILE, read_epochs
from storage.log import LogDamaged
from storage.metadata_snapshots import SnapshotFolder, SnapshotId
from storage.producers.producer_snapshot import SnapshotFiles
from storage.producers.producer_state import ProducerState
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish, never
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.test_compaction import COMPACTED
from tests.unit.storage.batches import batch
from tests.unit.storage.test_recovery_again import filled, opened

ONE = SnapshotId(7, 3)
FIRST = f"t-0/{0:020d}"


def refuse(files: SimulatedFiles, operation: str, ending: str) -> None:
    files.fault = lambda what, path: (
        OSError(errno.EIO, "bad sector", path) if what == operation and path.endswith(ending) else None
    )


def a_text(files: SimulatedFiles) -> object:
    return read_text(files, f"t-0/{EPOCHS_FILE}")


def the_epochs(files: SimulatedFiles) -> object:
    return read_epochs(files, "t-0")


def a_replacement(files: SimulatedFiles) -> None:
    replace_unsynced(files, "small", b"new")


def a_producer_snapshot(files: SimulatedFiles) -> ProducerState | None:
    return SnapshotFiles(files, "t-0").load(start_offset=0, end_offset=12, now_ms=0, expiration_ms=1)


def a_swapped_segment(files: SimulatedFiles) -> object:
    return opened(files, Recovery(same_boot=True, recovery_point=12))


def how_far_it_was_compacted(files: SimulatedFiles) -> object:
    log = SegmentLog.open(files, "t-0", COMPACTED, now_ms=lambda: 0, recovery=Recovery(clean=True))
    return log.compactor(None, report=print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("look", "operation", "name"),
    [
        (a_text, "read", f"t-0/{EPOCHS_FILE}"),
        (the_epochs, "read", f"t-0/{EPOCHS_FILE}"),
        (a_replacement, "append", "small.new"),
        (a_producer_snapshot, "read", f"t-0/{12:020d}.snapshot"),
        (a_swapped_segment, "read", f"{FIRST}.log.swap"),
        (how_far_it_was_compacted, "read", "t-0/compaction-checkpoint"),
    ],
)
def test_a_file_that_was_opened_for_one_look_is_closed(
    look: Callable[[SimulatedFiles], object], operation: str, name: str
) -> None:
    files = filled(12)
    SnapshotFiles(files, "t-0").write(12, {}, durable_offset=12)
    files.write_whole("t-0/compaction-checkpoint", b"0\n3\n")
    if look is a_swapped_segment:
        files.write_whole(f"{FIRST}.log.swap", files.open(f"{FIRST}.log").read(0, 1 << 20))
    refused = files.kill()
    refuse(refused, operation, name)
    with pytest.raises(OSError, match="bad sector"):
        look(refused)
    assert not refused.held[name]
    files = files.kill()
    look(files)
    assert name in files.held and not files.held[name]


def test_a_metadata_snapshot_is_closed_when_it_was_read() -> None:
    """To its end or not."""
    files = SimulatedFiles()
    files.make_folder("m-0")
    folder = SnapshotFolder(files, "m-0")
    files.syncs.clear()
    folder.write(ONE, [batch(5), batch(9)])
    assert files.syncs == ["", f"m-0/{ONE.file_name}"], "deleted topics are out of the way before they are forgotten"
    assert folder.size_and_time(ONE) == (2 * len(batch(5)), 5)
    assert finish(folder.read(ONE, never)).damage is not None
    begun = folder.read(ONE, lambda: True)
    next(begun)
    assert +files.held
    begun.close()
    assert not +files.held
    refuse(files, "read", ".checkpoint")
    assert folder.size_and_time(ONE) == (0, 0)
    damage = finish(folder.read(ONE, never)).damage
    assert damage is not None and "it cannot be read" in damage and "bad sector" in damage
    assert not +files.held


def test_a_log_that_is_refused_is_closed() -> None:
    files = filled(12)
    last = max(name for name in files.list("t-0") if name.endswith(".log"))
    files = files.kill()
    files.spoil(f"t-0/{last}", lambda content: content.__delitem__(slice(-1, None)))
    with pytest.raises(LogDamaged):
        opened(files, Recovery(recovery_point=12))
    assert f"t-0/{last}" in files.held and not +files.held


@pytest.mark.parametrize("refused", ["", "append", "sync"])
def test_what_a_repair_sets_aside_is_closed(refused: str) -> None:
    files = filled(12).kill()
    files.spoil(f"{FIRST}.log", lambda content: content.__setitem__(70, content[70] ^ 1))
    repair = Recovery(recovery_point=12, repair=True)
    if refused:
        refuse(files, refused, f"{FIRST}.log.damaged")
        with pytest.raises(OSError, match="bad sector"):
            opened(files, repair)
    else:
        opened(files, repair).close()
        assert not +files.held, "all is closed"
    assert f"{FIRST}.log.damaged" in files.held and not files.held[f"{FIRST}.log.damaged"]


def test_the_data_folder_keeps_one_file_open() -> None:
    """The one that a failing process writes into: a full disk takes no new file, and none may be left to open one."""
    files = SimulatedFiles()
    folder = DataFolder(files, boot_id="b")
    folder.checkpoint({("t", 0): 4}, {("t", 0): 2})
    folder.close_cleanly()
    files = files.kill()
    DataFolder(files, boot_id="b")
    assert dict(+files.held) == {"tallystick.trust": 1}
