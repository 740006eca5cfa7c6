"""`tallystick verify` and `tallystick dump`: a data folder that is whole is said to be, and each damage that is planted
is found and named, with its file and position."""

import hashlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.offline.__main__ import main as look
from broker.offline.data_folder import FolderCheck
from broker.offline.findings import Finding, Severity
from broker.offline.untouched import UntouchedFiles
from broker.process.environment import boot_id
from protocol.records.batch import headers_in, seal
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_snapshot import SIDECAR_SUFFIX, decode_snapshot, encode_snapshot
from storage.segments.segment_format import OFFSET_ENTRY, TIME_ENTRY
from tallystick.process import BrokerProcess
from tests.clients.test_explain_command import open_one
from tests.harness.broker import KAFKA, server
from tests.harness.confluent import consumer, make_topic, producer, read_all, write
from tests.harness.even_batches import write_in_batches
from tests.unit.storage.test_dump_log_segments import dump as kafka_dump
from tests.unit.storage.test_dump_log_segments import kafka_class_path

pytestmark = pytest.mark.skipif(KAFKA, reason="it looks at our files")
SETTINGS = {
    "log.index.interval.bytes": "512",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
SECOND = 684
"""Where the second segment of t-0 begins: 684 records of 1 500 bytes fill one of 1 MiB."""


def filled(process: BrokerProcess) -> None:
    """Two partitions with segments, transactions that end in every way, a compacted topic, a group."""
    bootstrap = process.bootstrap
    make_topic(bootstrap, "t", 2, segment__bytes=str(1 << 20))
    make_topic(bootstrap, "c", 1, cleanup__policy="compact")
    write_in_batches(bootstrap, "t", [b"%04d!" % n * 300 for n in range(900)], each=9)
    ended_and_open(bootstrap, "ends")
    write(bootstrap, "c", [b"%d" % (n % 5) for n in range(50)])
    assert len(read_all(bootstrap, "t", group__id="g")) == 900 + 6 * 6
    reader = consumer(bootstrap, group__id="g")
    reader.subscribe(["t"])
    reader.consume(10, 30)
    reader.commit(asynchronous=False)
    reader.close()


def ended_and_open(bootstrap: str, transactional_id: str) -> None:
    writer = producer(bootstrap, transactional__id=transactional_id)
    writer.init_transactions(60)
    for number in range(9):
        writer.begin_transaction()
        for n in range(6):
            writer.produce("t", b"%d" % n, partition=n % 2)
        writer.flush()
        (writer.abort_transaction if number % 3 == 0 else writer.commit_transaction)(60)
    open_one(bootstrap, f"{transactional_id}-open", ("t", 0))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """One that was left in order, and one as a kill left it."""
    root = tmp_path_factory.mktemp("offline")
    process = server(root, more=SETTINGS)
    try:
        filled(process.start())
        in_use = typed("verify", process.data, status=1).stderr
        assert f"in use by process {process.pid}" in in_use
        assert process.stop() == 0
        shutil.copytree(process.data, root / "stopped")
        ended_and_open(process.start().bootstrap, "again")
        process.kill()
    finally:
        process.close()
    yield {"stopped": root / "stopped", "killed": process.data}


@pytest.fixture
def stopped(folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["stopped"], tmp_path / "stopped"))


@pytest.fixture
def killed(folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["killed"], tmp_path / "killed"))


class Done(NamedTuple):
    """What a command has said."""

    stdout: str
    stderr: str


def command(name: str, *arguments: object, status: int) -> Done:
    """As the process does it that the command becomes."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        found = look(name, [*map(str, arguments)])
    assert found == status, out.getvalue() + err.getvalue()
    return Done(out.getvalue(), err.getvalue())


def typed(name: str, *arguments: object, status: int) -> Done:
    """As it is typed."""
    words = [sys.executable, "-m", "tallystick", name, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return Done(done.stdout, done.stderr)


def verify(*arguments: object, status: int) -> Done:
    return command("verify", *arguments, status=status)


def found(folder: Path) -> list[Finding]:
    check = FolderCheck(UntouchedFiles(str(folder)), boot_id(), open_records=True)
    check.run()
    return check.findings.found


def damaged(folder: Path) -> list[tuple[str, int | None]]:
    return [(one.file, one.position) for one in found(folder) if one.severity is Severity.DAMAGE]


def changed(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flipped(path: Path, position: int) -> None:
    def flip(data: bytearray) -> None:
        data[position] ^= 1

    changed(path, flip)


def last_of(folder: Path, suffix: str) -> Path:
    return sorted(folder.glob(f"*{suffix}"))[-1]


def position_in(path: Path, number: int) -> int:
    """Where a batch begins."""
    return [position for position, _ in headers_in(path.read_bytes())][number]


def hashes(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_whole_folders_are_said_to_be_whole_and_left_alone(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        before = hashes(folder)
        said = json.loads(typed("verify", folder, "--json", "--records", status=0).stdout)
        assert said["whole"] and [one["severity"] for one in said["findings"]] == [], (name, said)
        assert said["logs"] == 8 and said["segments"] >= 9 and said["batches"] > 120
        assert hashes(folder) == before
    assert verify(folders["killed"], status=0).stdout.endswith(" bytes: whole\n")


def test_a_bit_in_a_batch(stopped: Path, killed: Path) -> None:
    for folder in (stopped, killed):
        path = folder / "t-0" / f"{0:020}.log"
        position = position_in(path, 7)
        flipped(path, position + 100)
        assert damaged(folder) == [(f"t-0/{0:020}.log", position)]
        said = verify(folder, status=3).stdout
        assert f"damage    t-0/{0:020}.log at byte {position}: the checksum of the batch of offsets" in said
        assert command("dump", path, status=3).stderr.count("the checksum of the batch at byte") == 1


def test_a_torn_tail(stopped: Path, killed: Path) -> None:
    for folder, severity in ((stopped, Severity.DAMAGE), (killed, Severity.RECOVERY)):
        path = last_of(folder / "t-1", ".log")
        batches = list(headers_in(path.read_bytes()))
        changed(path, lambda data: data.__delitem__(slice(-5, None)))
        (torn, *more) = [one for one in found(folder) if one.file.endswith(".log")]
        assert (torn.severity, torn.file, torn.position) == (severity, f"t-1/{path.name}", batches[-1][0])
        assert "the file ends within a batch" in torn.what
        assert bool(more) == (folder is stopped), "it was on the disk once"
    assert "left by a crash, which the next start mends" in verify(killed, status=0).stdout
    before, behind = batches[-3][0], batches[-2][0]
    flipped(path, before + 16)  # the magic byte; nothing that a crash of the process leaves
    assert damaged(killed) == [(f"t-1/{path.name}", before)]
    assert f"which the next start cuts off, with the whole batch at byte {behind}" in verify(killed, status=3).stdout


def test_wrong_entries_of_indexes(stopped: Path) -> None:
    offsets, times = (stopped / "t-0" / f"{0:020}{suffix}" for suffix in (".index", ".timeindex"))
    changed(offsets, lambda data: OFFSET_ENTRY.pack_into(data, 16, *_moved(OFFSET_ENTRY, data, 16, 0, 1)))
    assert damaged(stopped) == [(f"t-0/{0:020}.index", 16)]
    changed(offsets, lambda data: OFFSET_ENTRY.pack_into(data, 16, *_moved(OFFSET_ENTRY, data, 16, 0, -1)))
    changed(offsets, lambda data: OFFSET_ENTRY.pack_into(data, 24, *_moved(OFFSET_ENTRY, data, 24, 1, 0)))
    assert damaged(stopped) == [(f"t-0/{0:020}.index", 24)]
    changed(offsets, lambda data: OFFSET_ENTRY.pack_into(data, 24, *_moved(OFFSET_ENTRY, data, 24, -1, 0)))
    assert damaged(stopped) == []
    changed(offsets, lambda data: data.extend(OFFSET_ENTRY.pack(700, 1 << 30) + b"xyz"))
    size = offsets.stat().st_size
    assert sorted(damaged(stopped)) == [(f"t-0/{0:020}.index", size - 11), (f"t-0/{0:020}.index", size - 3)]
    changed(offsets, lambda data: data.__delitem__(slice(-11, None)))
    last = times.stat().st_size - TIME_ENTRY.size
    changed(times, lambda data: TIME_ENTRY.pack_into(data, last, *_moved(TIME_ENTRY, data, last, 1, 0)))
    assert damaged(stopped) == [(f"t-0/{0:020}.timeindex", last)]


def _moved(layout: struct.Struct, data: bytearray, at: int, by_first: int, by_second: int) -> tuple[int, int]:
    first, second = layout.unpack_from(data, at)
    return first + by_first, second + by_second


def test_wrong_snapshots_of_producers(stopped: Path) -> None:
    path = last_of(stopped / "t-0", ".snapshot")
    kept = path.read_bytes()
    flipped(path, 30)
    assert damaged(stopped) == [(f"t-0/{path.name}", None)], "its checksum"
    sidecar = path.with_suffix(SIDECAR_SUFFIX)
    entries = decode_snapshot(kept)
    held = sidecar.read_bytes()
    path.write_bytes(kept)
    flipped(sidecar, 30)
    assert damaged(stopped) == [(f"t-0/{sidecar.name}", None)]
    sidecar.unlink()
    assert damaged(stopped) == []
    for producer_id, packed in entries.items():
        entry = ProducerEntry.unpack(packed)
        for wrong in (entry._replace(epoch=entry.epoch + 1), entry._replace(batches=())):
            path.write_bytes(b"".join(encode_snapshot(entries | {producer_id: wrong.pack()})))
            (one,) = [one for one in found(stopped) if one.severity is Severity.DAMAGE]
            assert one.file == f"t-0/{path.name}" and f"producer {producer_id}: " in one.what
    path.write_bytes(b"".join(encode_snapshot(entries | {4711: packed})))
    assert "producer 4711 has written nothing" in "".join(one.what for one in found(stopped))
    opened = next(id_ for id_, packed in entries.items() if ProducerEntry.unpack(packed).transaction_first_offset >= 0)
    path.write_bytes(b"".join(encode_snapshot({id_: packed for id_, packed in entries.items() if id_ != opened})))
    assert f"producer {opened}, whose transaction is open, is missing" in "".join(one.what for one in found(stopped))
    path.write_bytes(kept)
    sidecar.write_bytes(held)
    assert damaged(stopped) == []


def test_wrong_indexes_of_aborted_transactions(stopped: Path) -> None:
    path = stopped / "t-0" / f"{SECOND:020}.txnindex"
    kept = path.read_bytes()
    assert len(kept) == 3 * 34
    changed(path, lambda data: data.__delitem__(slice(-34, None)))
    whats = [one.what for one in found(stopped) if one.file == f"t-0/{path.name}"]
    assert ["readers would be shown" in what for what in whats] == [True, False] and "were synced" in whats[1]
    path.write_bytes(kept[:-34] + kept[-33:])
    assert damaged(stopped)[0] == (f"t-0/{path.name}", None) and len(damaged(stopped)) > 1
    path.write_bytes(kept)
    flipped(path, 34 + 9)  # whose it is
    assert (f"t-0/{path.name}", 34) in damaged(stopped)
    path.unlink()
    assert len([one for one in damaged(stopped) if one[0] == f"t-0/{path.name}"]) == 4


def test_missing_segments_and_folders(stopped: Path, killed: Path) -> None:
    for folder in (stopped, killed):
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(folder / "t-0" / f"{0:020}{suffix}", folder / f"aside{suffix}")
            (folder / "t-0" / f"{0:020}{suffix}").unlink()
        assert ("t-0/", None) in damaged(folder)
        assert f"what lies before {SECOND} is missing" in verify(folder, status=3).stdout
        for suffix in (".log", ".index", ".timeindex"):
            shutil.copy(folder / f"aside{suffix}", folder / "t-0" / f"{0:020}{suffix}")
        assert damaged(folder) == []
    (stopped / "meta.properties").rename(stopped / "aside")
    assert "another id of the cluster" in verify(stopped, status=0).stdout
    (stopped / "aside").rename(stopped / "meta.properties")
    (stopped / "t-0" / f"{SECOND:020}.log").unlink()
    assert "was on the disk up to" in verify(stopped, status=3).stdout
    shutil.rmtree(stopped / "t-1")
    assert ("t-1/", None) in damaged(stopped)
    for path in (stopped / "c-0").glob("0*"):
        path.unlink()
    assert ("c-0/", None) in damaged(stopped)


def test_what_no_checksum_is_of(stopped: Path) -> None:
    """Where a batch stands, and the epoch of its leader: compacted logs may have gaps, but end where they ended."""
    log = stopped / "c-0" / f"{0:020}.log"
    last = [position for position, _ in headers_in(log.read_bytes())][-1]
    flipped(log, last + 6)
    assert (f"c-0/{log.name}", None) in damaged(stopped)
    flipped(log, last + 6)
    changed(log, lambda data: struct.pack_into(">i", data, last + 12, -7))
    assert (f"c-0/{log.name}", last) in damaged(stopped)
    changed(log, lambda data: struct.pack_into(">i", data, last + 12, 0))
    assert damaged(stopped) == []


def test_indexes_that_are_left_behind(stopped: Path) -> None:
    """Segments of a compacted log need not follow one another: what is missing is known by what belonged to it."""
    left = stopped / "c-0" / f"{7:020}.timeindex"
    left.write_bytes(b"")
    assert damaged(stopped) == [(f"c-0/{left.name}", None)]
    left.with_suffix(".log.deleted").write_bytes(b"")  # it was deleted, as far as that had come
    assert damaged(stopped) == []


def test_small_files(stopped: Path) -> None:
    epochs = stopped / "t-0" / "leader-epoch-checkpoint"
    kept = epochs.read_text()
    for wrong in (kept[:-2], kept.replace(" 0\n", " 3\n")):
        epochs.write_text(wrong)
        assert damaged(stopped) == [("t-0/leader-epoch-checkpoint", None)]
    epochs.write_text(kept)
    for name in ("recovery-point-offset-checkpoint", "t-0/aborted-checkpoint"):
        path = stopped / name
        text = path.read_text()
        path.write_text(f"7{text[1:]}")
        assert (name, None) in damaged(stopped)
        path.write_text(text)
    ids = [stopped / f"{name}-0" / "partition.metadata" for name in "tc"]
    shutil.copy(*ids)
    assert damaged(stopped) == [("c-0/partition.metadata", None)]


def test_logs_of_coordinators(stopped: Path) -> None:
    path = next(one for one in stopped.glob("__transaction_state-*/*.log") if b"ends" in one.read_bytes())
    kept = path.read_bytes()
    data = bytearray(kept)
    position, header = next((at, one) for at, one in headers_in(data) if b"ends" in data[at : at + one.size])
    batch = data[position : position + header.size]
    at = batch.index(b"ends")
    for wrong, said in ((b"endz", "belongs to another partition"), (b"\xffnds", "cannot be read")):
        batch[at : at + 4] = wrong
        seal(batch)
        data[position : position + header.size] = batch
        path.write_bytes(data)
        assert said in "".join(one.what for one in found(stopped)), said
    path.write_bytes(kept)
    metadata = stopped / "__cluster_metadata-0" / f"{0:020}.log"
    flipped(metadata, position_in(metadata, 2) + 70)
    assert (f"__cluster_metadata-0/{0:020}.log", position_in(metadata, 2)) in damaged(stopped)


def test_transactions_that_no_coordinator_knows_are_noted(stopped: Path) -> None:
    for folder in stopped.glob("__transaction_state-*"):
        shutil.rmtree(folder)
    notes = [one for one in found(stopped) if one.severity is Severity.NOTE]
    assert [one.file for one in notes] == ["t-0/"] and "is open and known to no coordinator" in notes[0].what


def test_what_is_no_data_folder(tmp_path: Path) -> None:
    assert "nothing of one is in it" in verify(tmp_path, status=1).stderr
    typed("verify", tmp_path / "nowhere", status=2)
    typed("dump", tmp_path, status=2)
    (tmp_path / "text").write_text("hello\n")
    assert typed("dump", tmp_path / "text", status=0).stdout.endswith("hello\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "none of the files of a log" in command("dump", tmp_path / "binary", status=3).stderr


def test_dump_says_what_kafka_says(folders: dict[str, Path]) -> None:
    kafka_class_path()
    names = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = [path for path in sorted((folders["stopped"] / "t-0").iterdir()) if path.suffix in names]
    assert {path.suffix for path in files} == set(names)
    theirs = kafka_dump("--print-data-log", files=files).splitlines()
    wondering = theirs.index(next(line for line in theirs if line.startswith("Non-consecutive offsets")))
    assert len(theirs) - wondering == 2, "it takes the second segment for the first"
    assert command("dump", "--records", *files, status=0).stdout.splitlines() == theirs[:wondering]


def test_dump_in_json(folders: dict[str, Path]) -> None:
    folder = folders["stopped"] / "t-0"
    files = [*folder.glob("*.log"), last_of(folder, ".snapshot"), folder / "leader-epoch-checkpoint"]
    rows = [json.loads(line) for line in command("dump", "--json", "--records", *files, status=0).stdout.splitlines()]
    batches = [row for row in rows if row["file"].endswith(".log")]
    assert all(row["isvalid"] for row in batches)
    markers = [row["records"][0]["endTxnMarker"] for row in batches if row["isControl"]]
    assert (markers.count("ABORT"), markers.count("COMMIT")) == (3, 6)
    (opened,) = (row for row in rows if row.get("currentTxnFirstOffset") is not None)
    assert opened["lastOffset"] - opened["currentTxnFirstOffset"] == 2
    assert rows[-1]["line"].split() == ["0", "0"]
