"""What the simulated disk forgets, and what it keeps: the fault model that every seed relies on."""

from random import Random

import pytest

from tests.harness.disk import SimulatedDisk
from tests.harness.page_cache import Inode


def failing_once() -> SimulatedDisk:
    """A disk whose next sync fails, and no other."""
    disk = SimulatedDisk()
    left = ["sync"]

    def fails(operation: str, path: str) -> None:
        if operation in left:
            left.remove(operation)
            raise OSError(5, "Input/output error", path)

    disk.watcher = fails
    return disk


def content(disk: SimulatedDisk, path: str = "log") -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def after_power_cuts(disk: SimulatedDisk) -> set[bytes]:
    """Every state in which a hundred power cuts may leave the file."""
    disk.sync_folder("")
    return {content(disk.after_power_cut(Random(drawn), any_subset=drawn % 2 == 0)) for drawn in range(100)}


def test_writes_of_a_failed_sync_never_reach_the_disk_later() -> None:
    """Linux takes the pages for clean: they are read from the page cache until the power is gone."""
    disk = failing_once()
    file = disk.open("log", create=True)
    file.append([b"lost"])
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    killed = disk.after_kill()
    assert content(disk) == content(killed) == b"lost"
    assert after_power_cuts(killed) == {b""}


def test_writes_after_a_failed_sync_follow_a_hole() -> None:
    disk = failing_once()
    file = disk.open("log", create=True)
    file.append([b"kept"])
    file._inode.sync()
    file.append([b"lost"])
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.append([b"more"])
    file.sync()
    assert content(disk) == b"keptlostmore"
    assert after_power_cuts(disk) == {b"kept\0\0\0\0more"}


def test_what_is_written_once_more_is_synced_like_anything_else() -> None:
    disk = failing_once()
    file = disk.open("log", create=True)
    file.append([b"lost"])
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.write_at(0, file.read(0, 4))
    file.sync()
    assert file._inode.platter is None
    assert after_power_cuts(disk) == {b"lost"}


def test_an_unsynced_truncation_may_be_undone() -> None:
    disk = SimulatedDisk()
    file = disk.open("log", create=True)
    file.append([b"0123456789"])
    file.sync()
    file.truncate(4)
    assert after_power_cuts(disk) == {b"0123456789", b"0123"}


def test_writes_are_undone_in_whatever_order_they_came() -> None:
    """An inode that was written, overwritten, cut and extended at random is, without its writes, what was synced."""
    for seed in range(200):
        random = Random(seed)
        inode = Inode(random.randbytes(20))
        synced = bytes(inode.content)
        for _ in range(random.randrange(1, 8)):
            if random.random() < 0.3:
                inode.truncate(random.randrange(len(inode.content) + 1))
            else:
                inode.write(random.randrange(30), random.randbytes(random.randrange(1, 9)))
        inode.sync_failed()
        assert bytes(inode.platter or b"") == synced
