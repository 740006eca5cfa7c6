"""`tallystick verify` of what a power loss leaves and the next start mends: none of it is damage."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.offline.findings import Finding, Severity
from broker.offline.untouched import ReplayedFile, UntouchedFiles
from broker.process.environment import boot_id
from protocol.records.batch import headers_in
from storage.checkpoints import FORMAT_FILE
from storage.data_folder import FORMAT_VERSION, format_text
from storage.segments.segment_format import TIME_ENTRY
from storage.write_ahead.commits import APPENDED, begin_with, put_record, sealed
from storage.write_ahead.replay import AHEAD_FILE
from tests.clients.test_files_without_a_broker import (
    SETTINGS,
    changed,
    ended_and_open,
    filled,
    found,
    last_of,
    verify,
)
from tests.harness.broker import KAFKA, server
from tests.harness.confluent import admin, make_topic, read_all, write

pytestmark = pytest.mark.skipif(KAFKA, reason="it looks at our files")
ABORTED_ENTRY_BYTES = 34


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder as the kill of a broker leaves it, with what was written behind the last checkpoint; t-0 of the boot
    before, so that the page cache is not believed."""
    root = tmp_path_factory.mktemp("power")
    process = server(root, more={**SETTINGS, "log.segment.delete.delay.ms": "3600000"})
    try:
        filled(process.start())
        make_topic(process.bootstrap, "gone", 1)
        write(process.bootstrap, "gone", [b"x"])
        assert process.stop() == 0
        ended_and_open(process.start().bootstrap, "again")
        asker = admin(process.bootstrap)
        asker.delete_topics(["gone"])["gone"].result(60)
        process.kill()
    finally:
        process.close()
    changed(process.data / FORMAT_FILE, lambda data: _replace(data, boot_id().encode(), b"another"))
    yield process.data


@pytest.fixture
def folder(left_behind: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(left_behind, tmp_path / "folder"))
    assert [one for one in found(copy) if one.severity is not Severity.NOTE] == []
    return copy


def _replace(data: bytearray, old: bytes, new: bytes) -> None:
    assert old in data
    data[:] = data.replace(old, new)


def mended(folder: Path) -> list[Finding]:
    """All that was found, which is no damage."""
    said = found(folder)
    assert [one for one in said if one.severity is Severity.DAMAGE] == []
    return [one for one in said if one.severity is Severity.RECOVERY]


def test_a_folder_of_a_deleted_topic_that_has_its_name_again(folder: Path) -> None:
    """The deletion is durable in the metadata, and the rename of the folder was not."""
    (doomed,) = folder.glob("gone-0.*-delete")
    shutil.copy(doomed / "partition.metadata", folder / "c-0" / "partition.metadata")
    (said,) = mended(folder)
    assert said.file == "c-0/" and "the next start deletes it" in said.what
    shutil.copytree(doomed, folder / "gone-0")
    assert [one.file for one in mended(folder)] == ["c-0/", "gone-0/"]


def test_zeros_behind_what_was_synced_of_an_index_of_aborted_transactions(folder: Path) -> None:
    path = last_of(folder / "t-0", ".txnindex")
    synced = path.stat().st_size // ABORTED_ENTRY_BYTES
    changed(path, lambda data: data.__setitem__(slice(-ABORTED_ENTRY_BYTES, None), bytes(ABORTED_ENTRY_BYTES)))
    said = mended(folder)
    assert [one.position for one in said] == [(synced - 1) * ABORTED_ENTRY_BYTES, None]
    assert "no such entry can be" in said[0].what and "readers would be shown" in said[1].what
    changed(path, lambda data: data.__setitem__(slice(0, ABORTED_ENTRY_BYTES), bytes(ABORTED_ENTRY_BYTES)))
    assert "no such entry can be" in next(one.what for one in found(folder) if one.severity is Severity.DAMAGE)


def test_entries_of_indexes_behind_a_torn_batch(folder: Path) -> None:
    log = last_of(folder / "t-1", ".log")
    changed(log, lambda data: data.__delitem__(slice(-5, None)))
    changed(log.with_suffix(".timeindex"), lambda data: data.extend(TIME_ENTRY.pack(1 << 50, 1 << 20) + b"part"))
    assert sorted(Path(one.file).suffix for one in mended(folder)) == [".log", ".timeindex", ".timeindex"]


def test_what_the_write_ahead_log_has_is_looked_at(folder: Path) -> None:
    """The log has lost its last batches, and a commit has them: as the next start puts them there, they are whole."""
    log = last_of(folder / "t-1", ".log")
    at = [position for position, _ in headers_in(log.read_bytes())][-2]
    batches = log.read_bytes()[at:]
    changed(log, lambda data: data.__delitem__(slice(at + 10, None)))
    path, where = f"t-1/{log.name}", slice(0, 0)
    records = bytearray()
    for where in (slice(0, 100), slice(100, None)):
        data = batches[where]
        put_record(records, APPENDED, path.encode(), at + where.start, [data], len(data))
    commit = sealed(1, records)
    begin = begin_with(1, 2 * 4096 + len(commit))
    (folder / AHEAD_FILE).write_bytes(begin + begin + commit)
    (folder / FORMAT_FILE).write_bytes(format_text(FORMAT_VERSION, "another", write_ahead=True))
    (said,) = mended(folder)
    assert (said.file, said.severity) == (AHEAD_FILE, Severity.RECOVERY) and "into 1 files" in said.what
    assert len(log.read_bytes()) == at + 10, "it is only looked at"
    changed(log, lambda data: data.__delitem__(slice(at - 1, None)))
    assert f"{path} ends at byte {at - 1}, before what it has for byte {at}" in verify(folder, status=3).stdout


def test_a_file_as_it_is_replayed_is_read_in_any_pieces(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    files = UntouchedFiles(str(tmp_path))
    files.replayed = {"file": [(2, memoryview(b"ab")), (8, memoryview(b"cdef")), (12, memoryview(b"gh"))]}
    whole = b"01ab4567cdefgh"
    file = files.open("file")
    assert isinstance(file, ReplayedFile) and file.size() == len(whole) and files.contents("file") == whole
    for begin in range(len(whole) + 1):
        for size in range(len(whole) + 2):
            assert file.read(begin, size) == whole[begin : begin + size], (begin, size)
    file.close()


def test_the_next_start_mends_it(left_behind: Path, tmp_path: Path) -> None:
    """What is said of a folder holds."""
    process = server(tmp_path, more=SETTINGS)
    shutil.copytree(left_behind, process.data)
    changed(last_of(process.data / "t-0", ".txnindex"), lambda data: data.extend(bytes(ABORTED_ENTRY_BYTES)))
    (doomed,) = process.data.glob("gone-0.*-delete")
    shutil.copytree(doomed, process.data / "gone-0")
    assert len(mended(process.data)) == 2
    try:
        assert read_all(process.start().bootstrap, "t")
        assert process.stop() == 0
    finally:
        process.close()
    assert mended(process.data) == [] and not (process.data / "gone-0").exists()
