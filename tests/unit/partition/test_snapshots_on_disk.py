"""A snapshot of producer state is on the disk when it counts as written (KAFKA-9892)."""

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from threading import get_ident

import pytest
from crc32c import crc32c

from broker.config.topic_config import TopicConfig
from protocol.errors import ErrorCode
from storage.log import StorageFailed
from storage.producers import producer_snapshot
from storage.producers.producer_snapshot import (
    ENTRIES_PER_PART,
    SnapshotFiles,
    SnapshotUnreadable,
    decode_snapshot,
    encode_sidecar,
    encode_snapshot,
)
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, SMALL_SEGMENTS, Rig, idempotent, in_transaction, on_disk
from tests.unit.partition.test_rounds_of_compaction import housekeeping


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


def test_an_open_transaction_survives_a_snapshot() -> None:
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


@pytest.mark.parametrize("aborted", [0, 1], ids=["nothing was aborted", "in one segment"])
def test_an_index_that_is_what_was_written_is_not_made_anew(aborted: int, caplog: pytest.LogCaptureFixture) -> None:
    """I31: all of the log would be read. Most segments have no aborted transactions, and no file that says so."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for number in range(20):
        rig.produce(idempotent(7, 0, number))
        if aborted and number == 10:
            rig.transact(in_transaction(8, 0, 0))
            rig.end(8, 1, commit=False)
    rig.flush()
    end = rig.partition.end_offset
    rig.partition.close()
    again = on_disk(files.kill(), recovery=Recovery(recovery_point=end, clean=True))
    assert again.partition.last_stable_offset == end
    assert not [record for record in caplog.records if "made anew" in record.getMessage()]


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


@contextmanager
def snapshots_written(files: SimulatedFiles) -> Iterator[list[tuple[str, int]]]:
    """(suffix, thread) of each file of a snapshot, as it is written."""
    written: list[tuple[str, int]] = []

    def remember(operation: str, path: str) -> None:
        suffix = path.rpartition(".")[2]
        if operation == "write_whole" and suffix in ("producers", "snapshot"):
            written.append((suffix, get_ident()))

    files.fault = remember
    yield written
    files.fault = None


def rolled(rig: Rig) -> SegmentLog:
    """Batches of producer 7 until a segment is final."""
    log = rig.log
    assert isinstance(log, SegmentLog)
    sequence = 0
    while len(log.segments) == 1:
        rig.produce(idempotent(7, 0, sequence))
        sequence += 1
    return log


def test_a_roll_leaves_its_snapshot_to_the_flush() -> None:
    """A million producers are a second of encoding, and four syncs: no append waits for that."""
    files = SimulatedFiles()
    rig = on_disk(files)
    with snapshots_written(files) as written:
        log = rolled(rig)
        flush = log.begin_flush()
        assert flush is not None and flush.is_checkpoint
        assert written == []
        with ThreadPoolExecutor(1) as thread:
            thread.submit(flush.run).result()
        assert [suffix for suffix, _ in written] == ["producers", "snapshot"]
        assert get_ident() not in {ident for _, ident in written}
        assert log.recovery_point == 0, "it moves when the snapshot is there"
        log.finish_flush(flush)
        assert log.recovery_point == log.end_offset == rig.partition.derived.snapshot_offset


def test_changes_during_a_snapshot_are_not_in_it() -> None:
    files = SimulatedFiles()
    rig = on_disk(files)
    log = rolled(rig)
    rig.produce(idempotent(8, 0, 0))
    before, end_offset = rig.producers, log.end_offset
    flush = log.begin_flush()
    assert flush is not None
    state = rig.partition.derived.producers
    rig.produce(idempotent(9, 0, 0))
    rig.produce(idempotent(7, 1, 0))
    assert state.forget(8, before[8])
    now = rig.producers
    assert sorted(now) == [7, 9] and len(state) == 2 and 8 not in state
    flush.run()
    log.finish_flush(flush)
    assert rig.producers == now and isinstance(state.packed_entries(), dict)
    found = SnapshotFiles(files, "t-0").load(start_offset=0, end_offset=end_offset, now_ms=0, expiration_ms=1 << 60)
    assert found is not None and (found.offset, found.packed_entries()) == (end_offset, before)


def test_a_snapshot_is_encoded_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one call does, the loop waits for it on whatever thread it is."""
    checked: list[int] = []

    def crc(part: bytes, before: int = 0) -> int:
        checked.append(len(part))
        return before

    monkeypatch.setattr(producer_snapshot, "crc32c", crc)
    entries = {producer_id: bytes(30) for producer_id in range(3 * ENTRIES_PER_PART)}
    snapshot = encode_snapshot(entries)
    assert len(snapshot) == len(encode_sidecar(entries, snapshot[0])) == 4
    assert max(checked) < 100 * ENTRIES_PER_PART


def test_a_snapshot_older_than_a_compaction_is_not_written() -> None:
    """KAFKA-12964: a flush that is slow must not bring back a transaction whose marker is compacted away."""
    files = SimulatedFiles()
    rig = on_disk(files)
    log = rolled(rig)
    flush = log.begin_flush()
    assert flush is not None
    rig.produce(idempotent(8, 0, 0))
    finish(rig.partition.derived.compaction_begins(log.end_offset))
    assert SnapshotFiles(files, "t-0").offsets() == [log.end_offset]
    flush.run()
    log.finish_flush(flush)
    assert SnapshotFiles(files, "t-0").offsets() == [log.end_offset]


def test_retention_forgets_no_producer_before_its_snapshot_is_written() -> None:
    """KAFKA-7190: the segment may go before any flush has come."""
    files = SimulatedFiles()
    rig = on_disk(files)
    log = rolled(rig)
    assert len(log.segments) == 2
    rig.flush()
    rig.produce(idempotent(8, 0, 0))
    rig.flush()
    log.roll()
    rig.partition.delete_records(rig.partition.high_watermark)
    asyncio.run(housekeeping([rig]).enforce_retention())
    assert log.segments[0].base_offset > 0
    again = on_disk(files.kill(), recovery=Recovery(same_boot=True))
    assert sorted(again.producers) == [7, 8]


def test_retention_waits_until_no_power_cut_takes_its_snapshot() -> None:
    """I24: of a snapshot of more than is durable nothing would be left, and the segments before it are gone."""
    files = SimulatedFiles()
    rolled(on_disk(files))
    rig = on_disk(files := files.kill(), recovery=Recovery(same_boot=True))
    log = rig.log
    assert isinstance(log, SegmentLog)
    rig.partition.delete_records(log.segments[1].base_offset)
    rig.produce(idempotent(9, 0, 0))

    async def story() -> None:
        retention = asyncio.get_running_loop().create_task(housekeeping([rig]).enforce_retention())
        for _ in range(20):
            await asyncio.sleep(0)
        assert log.segments[0].base_offset == 0
        rig.flush()
        await retention

    asyncio.run(story())
    assert log.segments[0].base_offset > 0
    again = on_disk(files.crash(Random(1)), recovery=Recovery(recovery_point=log.recovery_point))
    assert sorted(again.producers) == [7, 9]


def test_partition_files_stay_while_their_snapshot_is_written() -> None:
    rig = on_disk(SimulatedFiles())
    log = rolled(rig)
    steps = rig.partition.derived.write_down(log.end_offset)
    write = next(steps)
    assert write is not None and log.is_flushing
    write()
    assert next(steps, None) is None and not log.is_flushing
    assert rig.partition.derived.snapshot_offset == log.end_offset


@pytest.mark.parametrize("body", [b"", b"\0\0\0\1", b"\0\0\0\0" + bytes(3), b"\xff\xff\xff\xff"])
def test_a_snapshot_whose_size_does_not_fit_is_not_read(body: bytes) -> None:
    """Whatever its checksum says."""
    with pytest.raises(SnapshotUnreadable, match="size"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body)


def test_where_no_batch_is_known_nothing_ends() -> None:
    """Of a producer that nobody knows, or of which only a marker is left: nothing of it is waited for."""
    rig = Rig()
    assert rig.partition.derived.producers.last_offset(9) == -1
    rig.end(9, 0, commit=False, version=0)
    assert rig.partition.derived.producers.entry(9) is not None
    assert rig.partition.derived.producers.last_offset(9) == -1


def test_a_snapshot_under_way_is_the_only_one() -> None:
    rig = on_disk(SimulatedFiles())
    rig.produce(idempotent(7, 0, 0))
    derived = rig.partition.derived
    steps = derived.write_down(1)
    next(steps)
    rig.produce(idempotent(7, 0, 1))
    assert derived.checkpoint_begins(closing=True) is None
    finish(steps)
    assert derived.checkpoint_begins(closing=True) is not None


def test_a_snapshot_is_written_when_it_is_due_and_not_before() -> None:
    """Of a roll, or at an orderly end; a start, and what was written already, make none due."""
    rig = on_disk(SimulatedFiles())
    derived = rig.partition.derived
    assert derived.checkpoint_begins(closing=True) is None, "nothing is known yet"
    rig.produce(idempotent(6, 0, 0))
    assert derived.checkpoint_begins(closing=False) is None
    log = rolled(rig)
    write = derived.checkpoint_begins(closing=False)
    assert write is not None
    write()
    derived.checkpoint_ended()
    rig.produce(idempotent(6, 0, 1))
    assert derived.checkpoint_begins(closing=False) is None
    derived.checkpoint_due(log.end_offset)
    assert derived.checkpoint_begins(closing=False) is not None


def test_a_log_that_is_cut_during_a_snapshot_gets_another() -> None:
    """I24: what was under way tells of records that are gone."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(6, 0, 0))
    rig.flush()
    rig.produce(idempotent(7, 0, 0))
    derived = rig.partition.derived
    assert derived.checkpoint_begins(closing=True) is not None
    rig.log.truncate(1)
    assert SnapshotFiles(files, "t-0").offsets() == []
    assert (sorted(rig.producers), derived.snapshot_offset) == ([6], -1)
    derived.snapshot()
    assert SnapshotFiles(files, "t-0").offsets() == [1]
    rig.produce(idempotent(8, 0, 0))
    assert derived.checkpoint_begins(closing=True) is not None


def test_a_damaged_sidecar_costs_only_what_it_knew() -> None:
    """The snapshot has the last batch of each producer, as Kafka's."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for sequence in range(3):
        rig.produce(idempotent(7, 0, sequence))
    rig.partition.close()
    files.write_whole("t-0/00000000000000000003.producers", b"damaged")
    again = on_disk(files, recovery=Recovery(clean=True, recovery_point=3))
    assert again.partition.derived.snapshot_offset == 3
    assert again.produce(idempotent(7, 0, 2)).base_offset == 2
    assert again.error_of(idempotent(7, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("fails", ["", "write_whole"])
def test_a_partition_that_was_closed_holds_no_file(fails: str) -> None:
    """Neither of its log nor of what lies beside it, whatever the disk said."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.transact(in_transaction(7, 0, 0))
    rig.end(7, 0, commit=False, version=0)
    rig.partition.close()
    assert not +files.held
    again = on_disk(files, recovery=Recovery(clean=True, recovery_point=2))
    assert {path.rpartition(".")[2] for path in +files.held}.isdisjoint(["snapshot", "producers"])
    again.transact(in_transaction(7, 0, 1))
    again.end(7, 0, commit=False, version=0)
    again.log.flush_now()
    files.fault = lambda operation, path: OSError(5, "broken") if operation == fails else None
    with pytest.raises(StorageFailed) if fails else contextlib.nullcontext():
        again.partition.close()
    assert not {path for path in +files.held if path.endswith((".log", ".timeindex"))}


def test_a_trim_that_cannot_be_synced_ends_the_process() -> None:
    """What is cut off the index of aborted transactions is on the disk first."""
    files = SimulatedFiles()
    log = SegmentLog.open(files, "t-0", SMALL_SEGMENTS, now_ms=lambda: NOW_MS, recovery=Recovery())
    rig = Rig(log=log, config=TopicConfig(log=SMALL_SEGMENTS), durable=False)
    rig.transact(in_transaction(7, 0, 0))
    rig.end(7, 0, commit=False, version=0)
    log.roll()
    rig.partition.committed_moved()
    files.fault = lambda operation, path: OSError(5, "broken") if operation == "sync" else None
    with pytest.raises(StorageFailed, match="aborted-transaction index"):
        rig.partition.delete_records(rig.partition.high_watermark)


def test_a_snapshot_that_could_not_be_written_is_not_written() -> None:
    """Who waits for the same one is told, too, and replaces no segments on its word."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(7, 0, 0))
    write = rig.partition.derived.checkpoint_begins(closing=True)
    assert write is not None
    files.fault = lambda operation, path: OSError("full") if path.startswith("t-0") else None
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            write()


def test_a_file_that_only_ends_like_a_snapshot_stays() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    for name in ("notes.snapshot", "notes.producers"):
        files.write_whole(f"t-0/{name}", b"mine")
    for offset in range(5):
        SnapshotFiles(files, "t-0").write(offset, {}, durable_offset=offset)
    assert files.list("t-0") == [f"{offset:020d}.snapshot" for offset in (2, 3, 4)] + [
        "notes.producers",
        "notes.snapshot",
    ]
