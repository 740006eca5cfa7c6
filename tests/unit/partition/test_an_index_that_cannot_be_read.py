"""An index of aborted transactions that cannot be read, or is damaged under a running broker: what is aborted is never
shown, nobody but readers who need it is refused, and the next start makes it anew."""

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from storage.producers.aborted import AbortedIndex
from storage.producers.aborted_checkpoint import ABORTED_CHECKPOINT, text_of
from storage.producers.producer_changes import CompletedTransaction
from storage.recovery import Recovery
from tests.harness.read_committed_oracle import Seen
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import SMALL_SEGMENTS, Rig, in_transaction, on_disk, plain

INDEX = ".txnindex"


def written(files: SimulatedFiles, *, with_aborted: bool = True) -> Rig:
    """Aborted and committed transactions of one producer in several segments; and it ends in order."""
    rig = on_disk(files, config=replace(SMALL_SEGMENTS, segment_bytes=900))
    for number in range(16):
        rig.transact(in_transaction(5, 0, number, value=b"%d" % number))
        rig.end(5, 0, commit=number % 3 == 0 or not with_aborted, version=0)
    rig.flush()
    return rig


def again(files: SimulatedFiles, end_offset: int) -> Rig:
    recovery = Recovery(clean=True, recovery_point=end_offset)
    return on_disk(files, config=replace(SMALL_SEGMENTS, segment_bytes=900), recovery=recovery)


def indexes(files: SimulatedFiles) -> list[str]:
    return [f"t-0/{name}" for name in files.list("t-0") if name.endswith(INDEX)]


def seen_from_everywhere(rig: Rig) -> list[list[Seen] | None]:
    """From each offset on; None where the reader is refused."""
    found: list[list[Seen] | None] = []
    for offset in range(rig.partition.end_offset):
        try:
            found.append(rig.consume(offset))
        except OSError:
            found.append(None)
    return found


class Failing:
    """Reads of index files fail from the one of this number on: one of them, or all of that file until it is cut."""

    def __init__(self, at: int, *, once: bool) -> None:
        self._left, self._once = at, once
        self.struck = False
        self.bad = ""

    def __call__(self, operation: str, path: str) -> OSError | None:
        if operation == "truncate" and path == self.bad:
            self.bad = ""
        if operation != "read" or not path.endswith(INDEX):
            return None
        if not self.struck and self._left == 0:
            self.struck, self.bad = True, path
        self._left -= 1
        if path != self.bad:
            return None
        self.bad = "" if self._once else path
        return OSError(errno.EIO, "bad sector", path)


@pytest.mark.parametrize("once", [True, False])
def test_a_start_makes_anew_what_it_cannot_read(once: bool) -> None:
    files = SimulatedFiles()
    rig = written(files)
    known, end_offset = seen_from_everywhere(rig), rig.partition.end_offset
    rig.partition.close()
    for at in range(1000):
        disk = files.kill()
        disk.fault = failing = Failing(at, once=once)
        opened = again(disk, end_offset)
        disk.fault = None
        if not failing.struck:
            break
        assert not failing.bad, "nobody would be served"
        assert seen_from_everywhere(opened) == known
        opened.partition.close()
        assert seen_from_everywhere(again(disk.kill(), end_offset)) == known
    assert at > 3 and not failing.struck


OF_A_CHECKPOINT: dict[str, Callable[[bytearray], object]] = {
    "twice": lambda content: content.extend(bytes(content)),
    "emptied": lambda content: content.clear(),
    "no text": lambda content: content.__setitem__(0, 0xFF),
    "unreadable": lambda content: None,
}


@pytest.mark.parametrize("damage", OF_A_CHECKPOINT)
@pytest.mark.parametrize("with_aborted", [True, False])
def test_without_what_says_which_entries_there_are_none_is_believed(
    damage: str, with_aborted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor an index that is empty, where the file is there and says nothing. It is once that the log is read for it."""
    files = SimulatedFiles()
    rig = written(files, with_aborted=with_aborted)
    known, end_offset = seen_from_everywhere(rig), rig.partition.end_offset
    rig.partition.close()
    path = f"t-0/{ABORTED_CHECKPOINT}"
    if not files.exists(path):
        files.write_whole(path, text_of({}))
    for index in indexes(files):
        files.spoil(index, bytearray.clear)
    files.spoil(path, OF_A_CHECKPOINT[damage])
    disk = files.kill()
    if damage == "unreadable":
        disk.fault = lambda operation, which: (
            OSError(errno.EIO, "bad sector", which) if (operation, which) == ("read", path) else None
        )
    opened = again(disk, end_offset)
    disk.fault = None
    assert seen_from_everywhere(opened) == known
    opened.partition.close()
    caplog.clear()
    assert seen_from_everywhere(again(disk.kill(), end_offset)) == known
    assert caplog.records == []


DAMAGES: dict[str, Callable[[bytearray, int], object]] = {
    "a bit": lambda content, at: content.__setitem__(at % len(content), content[at % len(content)] ^ 4),
    "cut": lambda content, at: content.__delitem__(slice(at % len(content), None)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_under_way_shows_nobody_what_is_aborted(damage: str) -> None:
    """Right answers or none, whichever byte it is; and the partition goes on to its end, to be right after a start."""
    files = SimulatedFiles()
    rig = written(files)
    known, end_offset = seen_from_everywhere(rig), rig.partition.end_offset
    rig.partition.close()
    refused = 0
    for at in range(0, 70, 3):
        disk = files.kill()
        running = again(disk, end_offset)
        for path in indexes(disk):
            DAMAGES[damage](disk.inode(path).content, at)
        found = seen_from_everywhere(running)
        assert all(one is None or one == right for one, right in zip(found, known, strict=True))
        assert found[-1] == known[-1], "who is beyond what was aborted needs no index"
        refused += found.count(None)
        running.transact(in_transaction(5, 0, 16, value=b"later"))
        running.end(5, 0, commit=False, version=0)
        running.log.roll()
        running.flush()
        running.produce(plain(b"v"))
        running.partition.close()
        healed = seen_from_everywhere(again(disk.kill(), running.partition.end_offset))
        assert [[one.value for one in some or []][:-1] for some in healed[:end_offset]] == [
            [one.value for one in some or []] for some in known
        ]
    assert refused


def test_a_checkpoint_needs_no_index_to_be_read() -> None:
    """Of segments before the start of the log nobody has looked at it; what was said of them stays."""
    files = SimulatedFiles()
    rig = written(files)
    rig.partition.delete_records(rig.partition.end_offset - 2)
    rig.partition.close()
    disk = files.kill()
    running = again(disk, rig.partition.end_offset)
    disk.fault = lambda operation, path: (
        OSError(errno.EIO, "bad sector", path) if operation == "read" and path.endswith(INDEX) else None
    )
    running.transact(in_transaction(5, 0, 16))
    running.end(5, 0, commit=False, version=0)
    running.log.roll()
    running.flush()
    running.partition.derived.snapshot()
    disk.fault = None
    known = seen_from_everywhere(running)
    running.partition.close()
    assert seen_from_everywhere(again(disk.kill(), running.partition.end_offset)) == known


def test_each_block_of_a_long_index_is_compared() -> None:
    """And each entry is found, also at the ends of blocks."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    count = 3 * 256 + 1
    for number in range(count):
        index.append(CompletedTransaction(1, 2 * number, 2 * number + 1, True, 2 * number + 2))
    index.sync()
    reopened = AbortedIndex(files.kill(), "t-0", [0])
    reopened.write_down()
    for looked_at in (index, reopened):
        for number in [0, 1, 254, 255, 256, 257, 511, 512, 767, 768]:
            for offset in (2 * number, 2 * number + 1):
                found = looked_at.collect(offset, offset + 1)
                assert [entry.first_offset for entry in found] == [2 * number]
    path = f"t-0/{0:020d}{INDEX}"
    files.inode(path).content[512 * 34 + 5] ^= 1
    for number in (0, 255, 256, 511):
        assert [entry.first_offset for entry in index.collect(2 * number, 2 * number + 2)] == [2 * number]
    for number in (512, 600, 767):
        with pytest.raises(OSError, match="not what was written"):
            index.collect(2 * number, 2 * number + 2)
