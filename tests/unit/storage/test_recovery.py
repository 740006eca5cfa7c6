"""What is left of a log after a kill, a power cut, or a disk that bites. Cites I24."""

from dataclasses import replace
from random import Random

import pytest

from protocol.records.batch import read_header
from storage.log import LogConfig, StorageFailed
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch, batches_of

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)
LOG = "t-0/00000000000000000000.log"
KILLED = Recovery(same_boot=True)
REBOOTED = Recovery()
CLEAN = Recovery(clean=True)


def open_log(files: SimulatedFiles, recovery: Recovery, config: LogConfig = CONFIG) -> SegmentLog:
    return SegmentLog.open(files, "t-0", config, now_ms=lambda: 1_000, recovery=recovery)


def content(log: SegmentLog) -> bytes:
    return b"".join(log.read(log.start_offset, 1 << 30, end_offset=log.end_offset))


def assert_indexed(log: SegmentLog) -> None:
    """Every offset and every timestamp is found where a walk from the beginning finds it."""
    headers = [header for header, _ in log.replay(0)]
    for header in headers:
        found = log.read(header.base_offset, 1, end_offset=log.end_offset)
        assert read_header(found[0]).base_offset == header.base_offset
        first = next(other for other in headers if other.max_timestamp >= header.max_timestamp)
        answer = finish(log.offset_for_timestamp(header.max_timestamp, end_offset=log.end_offset))
        assert answer is not None and first.base_offset <= answer.offset <= first.last_offset


@pytest.mark.parametrize("recovery", [KILLED, REBOOTED])
def test_a_tail_cut_at_any_byte_keeps_every_whole_batch(recovery: Recovery) -> None:
    """I24: the write that a kill interrupted goes, everything before it stays, and the log goes on from there."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    ends = [0]
    for index in range(4):
        log.append(batch(10 + index, 20 + index), leader_epoch=index // 2)
        ends.append(log.segments[-1].size_bytes)
    log.segments[-1].write_out_indexes()
    assert len(log.segments) == 1
    whole = content(log)
    for size in range(len(whole) + 1):
        found = files.kill()
        found.open(LOG).truncate(size)
        again = open_log(found, recovery)
        batches = max(number for number, end in enumerate(ends) if end <= size)
        assert content(again) == whole[: ends[batches]]
        assert again.end_offset == again.durable_offset == 2 * batches
        assert again.latest_epoch() == (batches + 1) // 2 - 1
        assert_indexed(again)
        assert again.append(batch(99), leader_epoch=5) == 2 * batches
        assert len(again.segments) == 1, "nothing of its indexes is full"


@pytest.mark.parametrize("recovery", [KILLED, REBOOTED])
def test_a_changed_byte_in_the_tail_ends_the_log_there(recovery: Recovery) -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(3):
        log.append(batch(10 + index), leader_epoch=0)
    whole, size = content(log), log.segments[-1].size_bytes // 3
    for position in [*range(size * 2 + 8, size * 2 + 12), *range(size * 2 + 16, size * 3)]:
        found = files.kill()
        found.open(LOG).write_at(position, bytes([whole[position] ^ 0x41]))
        again = open_log(found, recovery)
        assert content(again) == whole[: size * 2]
        assert again.end_offset == 2
        assert again.recovery_notes


def test_after_a_reboot_segments_behind_a_tear_are_dropped() -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(40):
        log.append(batch(index), leader_epoch=0)
    assert len(log.segments) > 3
    torn = log.segments[1]
    found = files.kill()
    found.open(torn.path + ".log").write_at(torn.size_bytes - 1, b"\xff")
    again = open_log(found, REBOOTED)
    assert again.segments[-1].base_offset == torn.base_offset
    assert again.end_offset == log.segments[2].base_offset - 1
    assert ["cut " in note for note in again.recovery_notes] == [True] + [False] * (len(log.segments) - 2)
    assert [note.partition(":")[0] for note in again.recovery_notes[1:]] == [
        f"{segment.path}.log" for segment in log.segments[:1:-1]
    ], "and dropped, the last first"
    assert sorted(name for name in found.list("t-0") if name.endswith(".log")) == [
        "00000000000000000000.log",
        f"{torn.base_offset:020d}.log",
    ]
    assert_indexed(again)


def test_after_a_kill_only_the_tail_is_read() -> None:
    """A large log opens at once when the page cache is intact: not a byte of a final segment is read."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(200):
        log.append(batch(index), leader_epoch=0)
    final = {segment.path for segment in log.segments[:-1]}
    log.flush_now()
    found = files.kill()
    read: list[str] = []

    def remember(operation: str, path: str) -> None:
        if operation == "read":
            read.append(path)

    found.fault = remember
    recovery = Recovery(recovery_point=200, same_boot=True)
    again = open_log(found, recovery)
    assert again.end_offset == 200
    assert not [path for path in read if path.rpartition(".")[0] in final]
    assert found.syncs == []


def test_a_reboot_reads_nothing_before_the_recovery_point() -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(100):
        log.append(batch(index), leader_epoch=0)
    log.flush_now()
    point = log.recovery_point
    assert point == 100
    for index in range(30):
        log.append(batch(index), leader_epoch=1)
    first = log.segments[0]
    found = files.kill()
    found.open(first.path + ".log").write_at(first.size_bytes - 1, b"\xff")
    again = open_log(found, Recovery(recovery_point=point))
    assert again.end_offset == 130
    assert again.epoch_end(0) == (0, 100)


def test_sound_indexes_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each segment has one, although no batch is as large as their interval."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(100):
        log.append(batch(index, index), leader_epoch=0)
    log.close()
    made: list[str] = []
    monkeypatch.setattr(Segment, "rebuild_indexes", lambda segment: made.append(segment.path))
    again = open_log(files.kill(), CLEAN)
    assert_indexed(again)
    assert len(again.segments) > 2 and all(len(one.offset_index) for one in again.segments[:-1])
    assert not made
    few = open_log(SimulatedFiles(), REBOOTED)
    few.append(batch(1), leader_epoch=0)
    few.close()
    assert few.recovery_point == 1, "a start has nothing to check"
    assert isinstance(few.files, SimulatedFiles)
    again = open_log(few.files.kill(), CLEAN)
    assert len(again.active.offset_index) == 0, "none is due so early"
    assert not made


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "zeros", "random"])
def test_indexes_are_rebuilt_from_the_log(suffix: str, damage: str) -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(100):
        log.append(batch(index, index), leader_epoch=0)
    log.close()
    for segment in log.segments:
        path = segment.path + suffix
        index = files.open(path)
        match damage:
            case "missing":
                files.delete(path)
            case "empty":
                index.truncate(0)
            case "torn":
                index.append([b"\x00"])
            case "zeros":
                index.append([bytes(240)])
            case "random":
                size = index.size()
                index.truncate(0)
                index.append([Random(7).randbytes(size)])
    for recovery in (CLEAN, KILLED, REBOOTED):
        again = open_log(files.kill(), recovery)
        assert again.end_offset == 200
        assert [read_header(part).base_offset for part in again.read(150, 1, end_offset=200)] == [150]
        if (suffix, damage) != (".index", "empty") and (suffix, damage) != (".timeindex", "empty"):
            assert_indexed(again)


def test_a_clean_shutdown_leaves_nothing_to_recover() -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(50):
        log.append(batch(index), leader_epoch=3)
    log.close()
    found = files.crash(Random(1))
    again = open_log(found, CLEAN)
    assert (again.end_offset, again.durable_offset, again.recovery_notes) == (50, 50, [])
    assert finish(again.max_timestamp()) == finish(log.max_timestamp())
    assert found.syncs == []


def test_a_lost_epoch_file_is_made_again_from_the_headers() -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(60):
        log.append(batch(index), leader_epoch=index // 13)
    log.close()
    files.delete("t-0/leader-epoch-checkpoint")
    again = open_log(files, CLEAN)
    assert [again.epoch_end(epoch) for epoch in range(6)] == [log.epoch_end(epoch) for epoch in range(6)]


def test_leftovers_of_deletion_and_compaction_are_cleared_away() -> None:
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    log.append(batch(1), leader_epoch=0)
    log.close()
    for name in (
        "00000000000000000009.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000005.index",
        "00000000000000000005.timeindex",
    ):
        files.open(f"t-0/{name}", create=True)
    again = open_log(files, KILLED)
    assert again.end_offset == 1
    assert files.list("t-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
    ]


def test_a_log_that_ends_before_its_own_start_begins_anew() -> None:
    """DeleteRecords was remembered, the records before it were lost with the page cache: they must not come back."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    log.append(batches_of(5), leader_epoch=0)
    again = open_log(files.kill(), Recovery(log_start_offset=9))
    assert (again.start_offset, again.end_offset, again.size_bytes) == (9, 9, 0)
    assert again.append(batch(1), leader_epoch=1) == 9


@pytest.mark.parametrize("seed", range(60))
def test_what_was_flushed_survives_any_power_cut(seed: int) -> None:
    """I24 on a disk that loses, tears and reorders what was not synced: a prefix of what was written is found, and
    everything durable is in it."""
    random = Random(seed)
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    point = 0
    for _ in range(3):
        for _ in range(random.randrange(30)):
            log.append(
                batches_of(random.randrange(1, 4), random.randrange(1, 80)), leader_epoch=random.choice([1, 1, 2])
            )
            if random.random() < 0.05:
                log.truncate(random.randrange(log.end_offset + 1))
                point = min(point, log.recovery_point)
            if random.random() < 0.3:
                log.flush_now()
            if random.random() < 0.3:
                point = log.recovery_point
        written = content(log)
        durable = log.durable_offset
        files = files.crash(random)
        log = open_log(files, Recovery(recovery_point=point))
        found = content(log)
        assert written.startswith(found)
        assert log.end_offset >= durable
        assert_indexed(log)
        point = log.recovery_point


@pytest.mark.parametrize("drawn", range(20))
def test_pages_of_a_failed_sync_are_written_again(drawn: int) -> None:
    """I24: the kernel takes the pages of a failed sync for clean. A restart that only syncs them again would serve
    records that the next power cut takes away."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(12):
        log.append(batch(index), leader_epoch=0)
    acknowledged = log.flush_now()
    point = log.recovery_point
    for index in range(12):
        log.append(batch(index), leader_epoch=0)
    files.fault = lambda operation, path: OSError("bad sector") if operation == "sync" and ".log" in path else None
    with pytest.raises(StorageFailed, match="bad sector"):
        log.flush_now()
    found = files.kill()
    again = open_log(found, Recovery(recovery_point=point, same_boot=True, distrusted=True))
    served = content(again)
    assert again.durable_offset == again.end_offset == 24 > acknowledged
    after_power_cut = open_log(found.crash(Random(drawn)), Recovery(recovery_point=point))
    assert content(after_power_cut) == served


def test_trusting_the_page_cache_after_a_failed_sync_loses_records() -> None:
    """The reason for the test above: without the mark, what a reader saw is gone after a power cut."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    log.append(batch(1), leader_epoch=0)
    log.flush_now()
    log.append(batch(2), leader_epoch=0)
    files.fault = lambda operation, path: OSError("bad sector") if operation == "sync" else None
    with pytest.raises(StorageFailed):
        log.flush_now()
    found = files.kill()
    again = open_log(found, KILLED)
    assert again.durable_offset == 2
    assert open_log(found.crash(Random(1)), REBOOTED).end_offset == 1


@pytest.mark.parametrize("foreign", [False, True])
def test_an_emptied_segment_also_ends_a_compacted_log(foreign: bool) -> None:
    """Before the first checkpoint no recovery point is known. What follows the gap must not make its producers and
    coordinators believe in what was lost. A log that Kafka has compacted may have had the gap before."""
    config = replace(CONFIG, cleanup_compact=True)
    files = SimulatedFiles()
    log = open_log(files, REBOOTED, config)
    while len(log.segments) < 3:
        log.append(batch(log.end_offset), leader_epoch=0)
    log.flush_now()
    lost, end_offset = log.segments[1].base_offset, log.end_offset
    found = files.kill()
    found.open(f"{log.segments[1].path}.log").truncate(0)
    again = open_log(found, Recovery(foreign=foreign), config)
    assert again.end_offset == (end_offset if foreign else lost)


def test_unsynced_bytes_after_a_kill_become_durable_by_sync() -> None:
    """In page-cache mode a start syncs nothing: until the first flush, a power cut takes what is behind the point."""
    files = SimulatedFiles()
    log = open_log(files, REBOOTED)
    for index in range(5):
        log.append(batch(index), leader_epoch=0)
    again = open_log(files.kill(), Recovery(recovery_point=3, same_boot=True, sync=False))
    assert (again.durable_offset, again.recovery_point, again.end_offset) == (3, 3, 5)
    assert again.flush_now() == 5
