"""What a sync promises is on the disk: each call that matters in a power cut, and their order, at the last hop."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.disk.local_files import LocalFiles
from broker.partitions.partition_store import FolderStore
from storage.checkpoints import take_clean_shutdown, write_clean_shutdown, write_partition_metadata
from storage.log import LogConfig
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.recording_os import RecordingOs, record
from tests.unit.storage.batches import batch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS syncs by another call")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordingOs:
    return record(monkeypatch, str(tmp_path.resolve() / "data"))


@pytest.fixture
def files(tmp_path: Path, recorded: RecordingOs) -> Iterator[LocalFiles]:
    local = LocalFiles(str(tmp_path / "data"))
    recorded.forget()
    yield local
    local.close()


@pytest.mark.parametrize("deeper", ["data", "one/two/data"])
def test_a_new_data_folder_is_synced_in_its_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deeper: str
) -> None:
    recorded = record(monkeypatch, str(tmp_path.resolve()))
    LocalFiles(str(tmp_path / deeper)).close()
    parents = [str(parent) for parent in Path(deeper).parents]
    assert [call for call in recorded.calls if call.startswith("fsync")] == [f"fsync {parent}" for parent in parents]
    assert recorded.unsynced_names <= {deeper}  # the lock file's name: nothing is promised of it


def test_the_name_of_a_data_folder_found_is_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    recorded = record(monkeypatch, str(tmp_path.resolve()))
    LocalFiles(str(tmp_path / "data")).close()
    assert recorded.calls.count("fsync .") == 1


def test_a_sync_is_a_sync_of_contents(files: LocalFiles, recorded: RecordingOs) -> None:
    file = files.open("a", create=True)
    file.append([b"one"])
    file.write_at(0, b"O")
    file.sync()
    assert recorded.calls == ["create a", "write a", "write a", "fdatasync a"]
    assert not recorded.unsynced


def test_a_file_without_a_descriptor_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(monkeypatch, str(tmp_path.resolve() / "data"))
    files = LocalFiles(str(tmp_path / "data"), descriptors=1)
    recorded.forget()
    first, second = files.open("a", create=True), files.open("b", create=True)
    first.append([b"one"])
    second.append([b"two"])
    first.sync()
    assert recorded.unsynced == {"b"}
    files.close()


def test_a_file_written_whole_has_its_contents_before_its_name(files: LocalFiles, recorded: RecordingOs) -> None:
    files.make_folder("folder")
    recorded.forget()
    files.write_whole("folder/a", b"contents")
    assert recorded.calls == [
        "create folder/a.tmp",
        "write folder/a.tmp",
        "fdatasync folder/a.tmp",
        "rename folder/a.tmp folder/a",
        "fsync folder",
    ]


def test_a_sync_of_a_folder_is_one_of_its_names(files: LocalFiles, recorded: RecordingOs) -> None:
    files.make_folder("folder")
    files.open("folder/a", create=True)
    files.rename("folder/a", "folder/b")
    files.open("folder/c", create=True)
    files.delete("folder/c")
    assert recorded.unsynced_names == {".", "folder"}
    files.sync_folder("folder")
    files.sync_folder("")
    assert recorded.calls[-4:] == ["create folder/c", "unlink folder/c", "fsync folder", "fsync ."]
    assert not recorded.unsynced_names


def new_log(files: LocalFiles, folder: str, *, segment_bytes: int = 1 << 20) -> SegmentLog:
    return SegmentLog.open(
        files, folder, LogConfig(segment_bytes=segment_bytes), now_ms=lambda: 0, recovery=Recovery(clean=True)
    )


def test_a_flushed_log_survives_with_its_folder(files: LocalFiles, recorded: RecordingOs) -> None:
    log = new_log(files, "orders-0")
    write_partition_metadata(files, "orders-0", bytes(16))
    log.append(batch(3), leader_epoch=0)
    assert "orders-0/00000000000000000000.log" in recorded.unsynced
    log.flush_now()
    assert not {path for path in recorded.unsynced if path.endswith(".log")}
    assert not recorded.unsynced_names


def test_a_rolled_log_is_flushed_whole(files: LocalFiles, recorded: RecordingOs) -> None:
    log = new_log(files, "orders-0", segment_bytes=200)
    for _ in range(5):
        log.append(batch(3), leader_epoch=0)
    assert len({path for path in recorded.unsynced if path.endswith(".log")}) > 1
    log.flush_now()
    assert not {path for path in recorded.unsynced if path.endswith(".log")}
    assert not recorded.unsynced_names


def test_a_removed_log_keeps_no_sync_from_ending(files: LocalFiles, recorded: RecordingOs) -> None:
    store = FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: Recovery(clean=True), delete_delay_ms=lambda: 0)
    log = store.open("orders", bytes(16), 0, LogConfig())
    store.release(log)
    store.remove("orders", bytes(16), [0], files.beside())
    assert any(call.startswith("rename orders-0 orders-0.") for call in recorded.calls)


def test_a_log_is_not_closed_while_a_sync_uses_its_files(files: LocalFiles) -> None:
    store = FolderStore(files, now_ms=lambda: 0, recovery=lambda *_: Recovery(clean=True), delete_delay_ms=lambda: 0)
    log = store.open("orders", bytes(16), 0, LogConfig())
    log.append(batch(3), leader_epoch=0)
    flush = log.begin_flush()
    assert flush is not None and not store.release(log)
    flush.run()
    log.finish_flush(flush)
    assert store.release(log)


def test_whose_a_log_is_was_synced_in_its_first_life(files: LocalFiles, recorded: RecordingOs) -> None:
    log = new_log(files, "orders-0")
    write_partition_metadata(files, "orders-0", bytes(16))
    log.append(batch(3), leader_epoch=0)
    log.close()
    assert any("partition.metadata" in call for call in recorded.calls if "sync" in call)
    log = new_log(files, "orders-0")
    recorded.forget()
    log.append(batch(3), leader_epoch=0)
    log.flush_now()
    assert recorded.calls and not any("partition.metadata" in call for call in recorded.calls)


STORY = """
import sys
from broker.disk.local_files import LocalFiles
files = LocalFiles(sys.argv[1])
file = files.open("a", create=True)
file.append([b"one"])
file.sync()
files.write_whole("b", b"two")
files.sync_folder("")
"""


def test_the_mark_of_an_orderly_end_is_gone_for_good(files: LocalFiles, recorded: RecordingOs) -> None:
    """Before anything is changed: after a power cut the logs would be taken for whole."""
    write_clean_shutdown(files)
    assert take_clean_shutdown(files)
    assert not recorded.unsynced_names
    assert not take_clean_shutdown(files)


def story_by_strace(folder: Path) -> list[str]:
    """The calls of `STORY`, as the kernel saw them: `name path`, in order."""
    trace = folder / "trace"
    done = subprocess.run(
        ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=pwritev,pwritev2,pwrite64,write,fdatasync,fsync,rename",
         sys.executable, "-c", STORY, str(folder / "data")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"strace may not look at processes here: {done.stderr.strip()[-200:]}")
    calls = []
    for line in trace.read_text().splitlines():
        if str(folder) not in line:
            continue
        name, _, rest = line.split(maxsplit=1)[1].partition("(")
        if name == "rename":
            calls.append("rename " + " ".join(Path(part).name for part in rest.split('"')[1::2]))
        else:
            calls.append(f"{name.rstrip('2')} {Path(rest[rest.index('<') + 1 : rest.index('>')]).name}")
    return calls


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
def test_the_kernel_sees_the_same_order(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    assert story_by_strace(folder) == [
        f"fsync {folder.name}",
        "pwrite64 .lock",
        "pwritev a",
        "fdatasync a",
        "write b.tmp",
        "fdatasync b.tmp",
        "rename b.tmp b",
        "fsync data",
        "fsync data",
    ]
