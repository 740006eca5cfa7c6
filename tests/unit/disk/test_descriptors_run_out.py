"""No descriptor is left: the cache makes room, spare ones serve the other threads, and nothing counts as failed."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.disk.local_files import LocalFiles
from broker.disk.spare_descriptors import SpareDescriptors
from tests.harness.open_files import open_below
from tests.harness.recording_os import record


@contextmanager
def nothing_left() -> Iterator[None]:
    """This process may open nothing more, until the end of the block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + 1, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in [probe, *taken]:
            os.close(descriptor)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LocalFiles]:
    local = LocalFiles(str(tmp_path / "data"), descriptors=8)
    yield local
    local.close()


def test_syncs_and_writes_go_on_without_descriptors(files: LocalFiles, tmp_path: Path) -> None:
    files.make_folder("folder")
    file = files.open("a", create=True)
    before = len(open_below(tmp_path))
    with nothing_left():
        file.append([b"one"])
        file.sync()
        file.write_at(0, b"O")
        files.write_whole("folder/whole", b"two")
        files.sync_folder("folder")
        names = files.list("folder")
    assert names == ["whole"]
    assert file.read(0, 10) == b"One"
    assert len(open_below(tmp_path)) == before


def test_a_file_is_opened_where_another_has_to_give_way(files: LocalFiles, tmp_path: Path) -> None:
    cached = [files.open(f"cached{index}", create=True) for index in range(4)]
    before = len(open_below(tmp_path))
    with nothing_left():
        late = [files.open(f"late{index}", create=True) for index in range(4)]
        for file in [*cached, *late]:
            file.append([file.path.encode()])
            file.sync()
    assert [file.read(0, 100) for file in cached] == [b"cached0", b"cached1", b"cached2", b"cached3"]
    assert [file.read(0, 100) for file in late] == [b"late0", b"late1", b"late2", b"late3"]
    assert len(open_below(tmp_path)) - before <= 4


def test_a_file_that_had_to_give_way_is_synced(files: LocalFiles) -> None:
    first = files.open("first", create=True)
    first.append([b"one"])
    with nothing_left():
        others = [files.open(f"other{index}", create=True) for index in range(8)]
        assert first.descriptor == -1
        first.sync()
        for other in others:
            other.sync()


def test_folders_are_deleted_without_descriptors(files: LocalFiles) -> None:
    files.make_folder("folder/deeper")
    files.open("folder/deeper/a", create=True).close()
    with nothing_left():
        files.delete_folder("folder")
        assert not files.exists("folder")


def test_without_spares_a_lack_is_reported() -> None:
    spares = SpareDescriptors(1)
    before = len(open_below(os.devnull))
    with nothing_left(), pytest.raises(OSError, match="Too many open files"):
        spares.granted(lambda: os.open(os.devnull, os.O_RDONLY))
    assert len(open_below(os.devnull)) == before
    spares.close_all()


def test_other_refusals_cost_no_spare() -> None:
    spares = SpareDescriptors(3)
    before = len(open_below(os.devnull))
    with pytest.raises(FileNotFoundError):
        spares.granted(lambda: os.open("/nowhere/at/all", os.O_RDONLY))
    assert len(open_below(os.devnull)) == before
    spares.close_all()


def test_a_lack_in_the_whole_system_is_survived_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(monkeypatch, str(tmp_path.resolve() / "data"))
    files = LocalFiles(str(tmp_path / "data"))
    file = files.open("a", create=True)
    file.append([b"one"])
    recorded.refuse("dup", 3, errno.ENFILE)
    file.sync()
    recorded.refuse("open", 3, errno.ENFILE)
    files.sync_folder("")
    recorded.refuse("open", 3, errno.ENFILE)
    files.open("b", create=True)
    files.close()


def test_what_is_sent_from_a_file_leaves_the_reserve_alone(files: LocalFiles) -> None:
    file = files.open("a", create=True)
    file.append([b"one"])
    files.regions._highest = 0
    assert file.read_to_send(0, 3) == b"one"
    assert files.regions.open == 0


def test_a_data_folder_given_back_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(open_below(os.devnull))
    files = LocalFiles(str(tmp_path / "data"))
    files.open("a", create=True)
    files.close()
    assert len(open_below(os.devnull)) == before
