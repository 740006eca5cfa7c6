"""The disk as it is: descriptors as a cache, writes that come in pieces, one broker per folder, no way out of it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import broker.disk.descriptor_cache
import broker.disk.local_files
from broker.disk.local_files import DataFolderLocked, LocalFiles
from storage.producers.producer_snapshot import SnapshotFiles
from tests.harness.open_files import open_below


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LocalFiles]:
    local = LocalFiles(str(tmp_path / "data"), descriptors=3)
    yield local
    local.close()


def test_what_is_appended_in_parts_is_read_back(files: LocalFiles) -> None:
    file = files.open("a", create=True)
    file.append([b"one", bytearray(b"two"), memoryview(b"xthreex")[1:-1]])
    file.append([b"!"])
    assert (file.read(0, 100), file.read(3, 3), file.size()) == (b"onetwothree!", b"two", 12)
    file.truncate(3)
    file.append([b"2"])
    file.write_at(0, b"O")
    assert file.read(0, 100) == b"One2"


def test_more_parts_than_one_call_takes(files: LocalFiles) -> None:
    file = files.open("a", create=True)
    parts = [bytes([index % 256]) * (index % 5) for index in range(5_000)]
    file.append(parts)
    assert file.read(0, 1 << 20) == b"".join(parts)


def test_a_call_that_writes_less_is_gone_on_with(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def lazy(descriptor: int, parts: list[bytes], position: int) -> int:
        return real(descriptor, [b"".join(parts)[:3]], position)

    monkeypatch.setattr(broker.disk.local_files.os, "pwritev", lazy)
    file = files.open("a", create=True)
    file.append([b"ab", b"", b"cdefg", b"h"])
    assert file.read(0, 100) == b"abcdefgh"


def test_after_a_failed_write_the_size_is_what_is_there(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    file = files.open("a", create=True)
    file.append([b"good"])

    def full(descriptor: int, parts: list[bytes], position: int) -> int:
        if position > 4:
            raise OSError(28, "No space left on device")
        return real(descriptor, [b"".join(parts)[:2]], position)

    monkeypatch.setattr(broker.disk.local_files.os, "pwritev", full)
    with pytest.raises(OSError, match="No space"):
        file.append([b"lost"])
    assert file.size() == 6
    file.truncate(4)
    assert file.read(0, 100) == b"good"


def test_a_thousand_files_need_three_descriptors(files: LocalFiles, tmp_path: Path) -> None:
    before = len(open_below(tmp_path))
    opened = [files.open(f"f{index}", create=True) for index in range(100)]
    for round_number in range(3):
        for index, file in enumerate(opened):
            file.append([bytes([index, round_number])])
    assert len(open_below(tmp_path)) - before <= 3
    assert [file.read(0, 10) for file in opened] == [bytes([i, 0, i, 1, i, 2]) for i in range(100)]
    for file in opened:
        file.sync()
        file.close()
    assert len(open_below(tmp_path)) == before


def test_files_follow_a_rename_of_themselves_and_of_their_folder(files: LocalFiles) -> None:
    files.make_folder("t-0")
    file, other = files.open("t-0/a", create=True), files.open("t-0/b", create=True)
    file.append([b"a"])
    files.rename("t-0/a", "t-0/a.deleted")
    files.rename("t-0", "t-0.gone")
    for index in range(5):
        files.open(f"evict{index}", create=True).append([b"x"])
    assert file.read(0, 1) == b"a"
    other.append([b"b"])
    assert files.list("t-0.gone") == ["a.deleted", "b"]
    assert files.list("t-0") == []
    files.make_folder("t-0")
    assert files.open("t-0/b", create=True).size() == 0
    files.delete_folder("t-0.gone")
    files.delete_folder("t-0.gone")
    assert not files.exists("t-0.gone/b")


def test_files_follow_a_rename_of_their_folder_on_another_thread(files: LocalFiles) -> None:
    """What still works on a deleted log, compaction for one, is not to meet a log of the same name."""
    files.make_folder("t-0")
    old = files.open("t-0/a", create=True)
    beside = files.beside()
    thread = threading.Thread(target=beside.rename, args=("t-0", "t-0.1-delete"))
    thread.start()
    thread.join()
    beside.hand_over()
    files.make_folder("t-0")
    new = files.open("t-0/a", create=True)
    assert new is not old
    new.append([b"new"])
    old.append([b"old"])
    assert (old.read(0, 10), new.read(0, 10)) == (b"old", b"new")


def test_a_deleted_file_and_its_successor_are_two(files: LocalFiles) -> None:
    old = files.open("a", create=True)
    old.append([b"old"])
    files.delete("a")
    files.delete("a")
    new = files.open("a", create=True)
    assert (new.size(), old.read(0, 3)) == (0, b"old")
    old.close()
    new.append([b"new"])
    assert files.open("a").read(0, 3) == b"new"


@pytest.mark.parametrize("meanwhile", ["evicted", "closed", "renamed"])
def test_a_sync_under_way_keeps_its_file(files: LocalFiles, monkeypatch: pytest.MonkeyPatch, meanwhile: str) -> None:
    """The loop evicts, closes or renames it meanwhile, and opens others: the descriptor that is synced is still its
    own."""
    file = files.open("a", create=True)
    file.append([b"a"])
    inode = os.stat(f"{files.root}/a").st_ino
    begun, may_go_on = threading.Event(), threading.Event()
    synced: list[int] = []
    fdatasync = os.fdatasync

    def slow(descriptor: int) -> None:
        begun.set()
        assert may_go_on.wait(10)
        synced.append(os.fstat(descriptor).st_ino)
        fdatasync(descriptor)

    monkeypatch.setattr(broker.disk.descriptor_cache, "sync_contents", slow)
    thread = threading.Thread(target=file.sync)
    thread.start()
    assert begun.wait(10)
    if meanwhile == "closed":
        file.close()
    elif meanwhile == "renamed":
        files.rename("a", "b")
    for index in range(8):
        files.open(f"f{index}", create=True).append([b"x"])
    assert file.descriptor == -1
    may_go_on.set()
    thread.join()
    assert synced == [inode]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", "a/"])
def test_no_path_leads_out_of_the_folder(files: LocalFiles, path: str) -> None:
    for operation in (files.open, files.exists, files.list, files.delete, files.make_folder, files.sync_folder):
        with pytest.raises(ValueError, match="inside the data folder"):
            operation(path)


def test_a_small_file_is_replaced_whole(files: LocalFiles) -> None:
    files.write_whole("c", b"first")
    files.write_whole("c", b"2")
    assert files.open("c").read(0, 100) == b"2"
    assert files.list("") == [".lock", "c"]


def test_a_folder_serves_one_broker_at_a_time(files: LocalFiles) -> None:
    """Within a process, and between processes: the lock is Java's kind, so that a Kafka is kept out as well."""
    with pytest.raises(DataFolderLocked, match="in this process"):
        LocalFiles(files.root)
    attempt = "import sys; from broker.disk.local_files import LocalFiles; LocalFiles(sys.argv[1])"
    command = [sys.executable, "-c", attempt, files.root]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"is in use by process {os.getpid()}" in other.stderr
    files.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    LocalFiles(files.root).close()


def test_a_linked_folder_is_deleted_as_a_link(files: LocalFiles, tmp_path: Path) -> None:
    """Kafka does the same; what an operator has put elsewhere is left there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    files.make_folder("real")
    link = Path(files._absolute("t-0.1-delete"))
    link.symlink_to(elsewhere)
    files.delete_folder("t-0.1-delete")
    assert not files.exists("t-0.1-delete") and (elsewhere / "kept").exists()


def test_another_thread_reads_whatever_becomes_of_the_descriptor(files: LocalFiles) -> None:
    """Also of a file that has none just now, and without taking the loop's away."""
    first = files.open("first", create=True)
    first.append([b"0123456789"])
    for number in range(5):
        files.open(f"other {number}", create=True).append([b"x"])
    assert first.descriptor < 0
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(first.read_apart(2, 3)))
    thread.start()
    thread.join()
    assert read == [b"234"] and first.descriptor < 0


def test_a_folder_in_place_of_a_snapshot_is_kept(files: LocalFiles) -> None:
    files.make_folder("t-0")
    snapshots = SnapshotFiles(files, "t-0")
    for offset in range(10):
        snapshots.write(offset, {}, durable_offset=offset)
        if offset == 0:
            files.delete(f"t-0/{0:020d}.snapshot")
            files.make_folder(f"t-0/{0:020d}.snapshot")
    assert snapshots.offsets() == [0, 7, 8, 9]
