"""Damage is not a torn tail: what was known to be on the disk is never cut away, and never passed over."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from unittest import mock

import pytest

from protocol.records.batch import read_header
from storage.log import LogConfig, LogDamaged
from storage.recovery import Recovery
from storage.scrub import Scrub
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)
ROOMY = LogConfig()
FIRST = "t-0/00000000000000000000.log"


def open_log(files: SimulatedFiles, recovery: Recovery, config: LogConfig = CONFIG) -> SegmentLog:
    return SegmentLog.open(files, "t-0", config, now_ms=lambda: 1_000, recovery=recovery)


def filled(config: LogConfig = CONFIG, count: int = 40) -> SegmentLog:
    log = open_log(SimulatedFiles(), Recovery(), config)
    for index in range(count):
        log.append(batch(index), leader_epoch=index // 10)
    log.close()
    return log


def disk_of(log: SegmentLog) -> SimulatedFiles:
    assert isinstance(log.files, SimulatedFiles)
    return log.files.kill()


def flip(files: SimulatedFiles, path: str, position: int) -> None:
    file = files.open(path)
    file.write_at(position, bytes([file.read(position, 1)[0] ^ 0x41]))


def contents(files: SimulatedFiles) -> dict[str, bytes]:
    return {name: files.open(f"t-0/{name}").read(0, 1 << 30) for name in files.list("t-0") if name.endswith(".log")}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("same_boot", [True, False])
def test_damage_below_the_recovery_point_is_never_cut_away(clean: bool, same_boot: bool) -> None:
    log = filled(ROOMY, 5)
    size = log.segments[0].size_bytes // 5
    for number in range(5):
        files = disk_of(log)
        flip(files, FIRST, size * number + 40)
        before = contents(files)
        known = Recovery(recovery_point=5, clean=clean, same_boot=same_boot)
        # What lies before the last segment's index entry is not read where the page cache or the disk has it: no entry.
        with pytest.raises(LogDamaged, match=rf"{FIRST} is damaged at byte {size * number}, offset {number}: "):
            open_log(files, replace(known, recovery_point=5 if clean or same_boot else number + 1), ROOMY)
        assert contents(files) == before


def test_behind_the_recovery_point_damage_is_a_torn_tail() -> None:
    log = filled(ROOMY, 5)
    size = log.segments[0].size_bytes // 5
    files = disk_of(log)
    flip(files, FIRST, size * 3 + 40)
    again = open_log(files, Recovery(recovery_point=3, same_boot=True), ROOMY)
    assert again.end_offset == 3
    assert again.recovery_notes == [f"{FIRST}: cut {2 * size} bytes that are no whole batch at 3"]


def lose_the_end(files: SimulatedFiles, log: SegmentLog) -> None:
    files.open(log.segments[-1].path + ".log").truncate(0)


def lose_all(files: SimulatedFiles, log: SegmentLog) -> None:
    for name in files.list("t-0"):
        files.delete(f"t-0/{name}")


def lose_the_last_segment(files: SimulatedFiles, log: SegmentLog) -> None:
    files.delete(log.segments[-1].path + ".log")


@pytest.mark.parametrize("lose", [lose_the_end, lose_all, lose_the_last_segment])
@pytest.mark.parametrize("clean", [True, False])
def test_what_was_on_the_disk_and_is_missing_is_damage(
    lose: Callable[[SimulatedFiles, SegmentLog], None], clean: bool
) -> None:
    log = filled()
    files = disk_of(log)
    lose(files, log)
    with pytest.raises(LogDamaged):
        open_log(files, Recovery(recovery_point=40, clean=clean))


def test_a_segment_missing_in_the_middle_is_damage() -> None:
    log = filled()
    files = disk_of(log)
    files.delete(log.segments[1].path + ".log")
    with pytest.raises(LogDamaged, match="what lies before this segment is missing"):
        open_log(files, Recovery(recovery_point=log.segments[1].base_offset + 1))


def test_a_repair_keeps_the_cut_bytes_and_offsets_continue() -> None:
    log = filled()
    files = disk_of(log)
    damaged, later = log.segments[1], log.segments[2]
    original = contents(files)
    flip(files, damaged.path + ".log", 40)
    known = Recovery(recovery_point=40, clean=True, repair=True)
    again = open_log(files, known)
    assert again.end_offset == damaged.base_offset == again.durable_offset
    kept = files.open(f"{damaged.path}.log.damaged").read(0, 1 << 20)
    assert len(kept) == len(original[damaged.path.rpartition("/")[2] + ".log"])
    assert files.open(f"{later.path}.log.damaged").read(0, 1 << 20) == original[later.path.rpartition("/")[2] + ".log"]
    again.append(batch(1), leader_epoch=9)
    again.close()
    assert open_log(files.kill(), Recovery(recovery_point=again.end_offset, clean=True)).latest_epoch() == 9


def test_a_repair_of_a_lost_log_reuses_no_offsets() -> None:
    log = filled()
    files = disk_of(log)
    lose_all(files, log)
    assert open_log(files, Recovery(recovery_point=40, repair=True)).end_offset == 40


def readable(log: SegmentLog) -> tuple[list[int], list[int]]:
    """Base offsets of what can be read batch by batch, and the offsets where a reader is refused."""
    found, refused = [], []
    for offset in range(log.end_offset):
        try:
            slice_ = log.read_slice(offset, 1, end_offset=log.end_offset)
            found += [read_header(one).base_offset for one in slice_.batches]
        except LogDamaged:
            refused.append(offset)
    return found, refused


@pytest.mark.parametrize("field", ["length", "huge length", "base offset"])
@pytest.mark.parametrize("to_send", [False, True])
def test_a_reader_gets_only_batches_before_a_broken_header(field: str, to_send: bool) -> None:
    log = filled(replace(CONFIG, index_interval_bytes=4096))
    files = disk_of(log)
    segment = log.segments[1]
    end = log.segments[2].base_offset
    size = segment.size_bytes // (end - segment.base_offset)
    damaged = segment.base_offset + 4
    position, raw = {
        "length": (8, b"\x00\x00\x00\x05"),
        "huge length": (8, b"\x7f\x00\x00\x05"),
        "base offset": (0, b"\x00\x00\x01"),
    }[field]
    files.open(segment.path + ".log").write_at(4 * size + position, raw)
    again = open_log(files, Recovery(clean=True, recovery_point=40))
    with mock.patch("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 100 if to_send else 1 << 20):
        for _ in ("first", "when it is known"):
            for offset in range(damaged):
                assert again.read_slice(offset, 1 << 20, end_offset=end - 1, to_send=True).next_offset == damaged
            found, refused = readable(again)
            assert refused == list(range(damaged, end))
            assert found == [offset for offset in range(40) if offset not in refused]


def test_a_broken_header_hides_nothing_in_other_segments() -> None:
    log = filled()
    files = disk_of(log)
    damaged, following = log.segments[1], log.segments[2].base_offset
    files.open(damaged.path + ".log").write_at(8, b"\x00\x00\x00\x05")
    again = open_log(files, Recovery(recovery_point=40, clean=True))
    found, refused = readable(again)
    assert refused == list(range(damaged.base_offset, following))
    assert found == [offset for offset in range(40) if offset not in refused]
    whole = again.read_slice(0, 1 << 20, end_offset=40)
    assert whole.next_offset == damaged.base_offset
    with pytest.raises(LogDamaged):
        list(again.replay(0))


@pytest.mark.parametrize(("position", "raw"), [(8, b"\x00\x00\x00\x05"), (16, b"\x00")])
def test_a_broken_header_hides_nothing_before_it(position: int, raw: bytes) -> None:
    """That of the batch which the last entry of the index leads to."""
    log = filled()
    files = disk_of(log)
    damaged, following = log.segments[1], log.segments[2].base_offset
    entry = damaged.offset_index.last
    assert entry is not None and entry[0] > 5
    files.open(damaged.path + ".log").write_at(entry[1] + position, raw)
    again = open_log(files, Recovery(recovery_point=40, clean=True))
    assert readable(again)[1] == list(range(damaged.base_offset + entry[0], following))


def test_rebuilt_indexes_lose_nothing_behind_a_damaged_segment() -> None:
    """A segment that ends early in its indexes would be passed over by readers."""
    log = filled()
    files = disk_of(log)
    damaged = log.segments[1]
    files.open(damaged.path + ".log").write_at(8, b"\x00\x00\x00\x05")
    files.delete(damaged.path + ".index")
    again = open_log(files, Recovery(recovery_point=40, clean=True))
    _, refused = readable(again)
    assert refused == list(range(damaged.base_offset, log.segments[2].base_offset))


def test_any_damage_at_all_is_noticed_or_harmless() -> None:
    """Whatever a flipped byte of an older segment does, a reader of single batches gets each of them or is refused."""
    log = filled()
    random = Random(5)
    whole = {header.base_offset for header, _ in log_again(log).replay(0)}
    for _ in range(300):
        files = disk_of(log)
        segment = random.choice(log.segments[:-1])
        flip(files, segment.path + ".log", random.randrange(segment.size_bytes))
        again = open_log(files, Recovery(recovery_point=40, clean=True))
        found, refused = readable(again)
        assert whole <= {*found, *refused}


@pytest.mark.parametrize("recovery_point", [37, 40])
@pytest.mark.parametrize("index_bytes", [150, 1 << 20])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("same_boot", [True, False])
def test_no_damage_of_the_last_segment_is_cut_away(
    recovery_point: int, index_bytes: int, clean: bool, same_boot: bool
) -> None:
    """A batch that passes for a later one, which no checksum tells, makes nothing behind it a torn tail."""
    config = replace(CONFIG, index_interval_bytes=index_bytes)
    log = filled(config, 40)
    last = log.segments[-1]
    path, known_bytes = last.path + ".log", last.size_bytes * (recovery_point - last.base_offset) // 10
    for position in range(known_bytes):
        for bit in (0x01, 0x80):
            files = disk_of(log)
            files.spoil(path, lambda content, at=position, bit=bit: content.__setitem__(at, content[at] ^ bit))
            before = contents(files)
            known = Recovery(recovery_point=recovery_point, clean=clean, same_boot=same_boot)
            with contextlib.suppress(LogDamaged):
                open_log(files, known, config)
            assert contents(files) == before, f"byte {position}, bit {bit}"


def log_again(log: SegmentLog) -> SegmentLog:
    return open_log(disk_of(log), Recovery(recovery_point=40, clean=True))


def again_after(log: SegmentLog, change: Callable[[bytearray], object], *, suffix: str = ".log") -> SegmentLog:
    """The log over a disk on which the second segment's file is another."""
    files = disk_of(log)
    files.spoil(log.segments[1].path + suffix, change)
    return open_log(files, Recovery(recovery_point=40, clean=True))


def test_a_segment_cut_at_a_batch_fails_at_its_end() -> None:
    """Before any scrub: the next segment says where it should end."""
    log = filled()
    base, end = log.segments[1].base_offset, log.segments[2].base_offset
    size = log.segments[1].size_bytes // (end - base)
    again = again_after(log, lambda content: content.__delitem__(slice(2 * size, None)))
    found, refused = readable(again)
    assert refused == list(range(base + 2, end)) and found == [one for one in range(40) if one not in refused]
    assert again.read_slice(0, 1 << 20, end_offset=40, to_send=True).next_offset == base + 2
    with pytest.raises(LogDamaged, match="missing"):
        list(again.replay(0))
    with pytest.raises(LogDamaged, match="missing"):
        finish(again.max_timestamp())


@pytest.mark.parametrize("same_boot", [True, False])
def test_a_gap_before_an_empty_segment_is_not_the_end(same_boot: bool) -> None:
    """Where the page cache is believed, it held what is missing. Otherwise nothing says that it was ever synced: the
    log ends before the gap."""
    log = filled(ROOMY, 5)
    size = log.segments[0].size_bytes // 5
    files = disk_of(log)
    log = open_log(files, Recovery(recovery_point=5, clean=True), ROOMY)
    log.roll()
    files.open(FIRST).truncate(3 * size)
    again = open_log(files.kill(), Recovery(same_boot=same_boot), ROOMY)
    if not same_boot:
        assert again.end_offset == 3 and readable(again) == ([0, 1, 2], [])
        return
    assert again.end_offset == 5
    assert again.read_slice(0, 1 << 20, end_offset=5).next_offset == 3
    assert readable(again) == ([0, 1, 2], [3, 4])
    with pytest.raises(LogDamaged, match="missing"):
        list(again.replay(0))
    with pytest.raises(LogDamaged, match="missing"):
        finish(again.max_timestamp())
    assert again.append(batch(9), leader_epoch=1) == 5
    assert readable(again) == ([0, 1, 2, 5], [3, 4])


def test_duplicate_bytes_in_a_file_are_read_once_and_reported() -> None:
    log = filled()
    again = again_after(log, lambda content: content.extend(bytes(content)))
    said: list[str] = []
    again.unreadable.report = said.append
    assert readable(again) == (list(range(40)), [])
    assert len(said) == 1 and "bytes behind its last batch" in said[0]
    assert [header.base_offset for header, _ in again.replay(0)] == list(range(40))
    finish(again.scrub(Scrub(lambda damaged: pytest.fail(str(damaged)))))


def offsets_by_time(log: SegmentLog) -> list[object]:
    return [finish(log.offset_for_timestamp(time_ms, end_offset=40)) for time_ms in range(42)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_no_wrong_entry_of_an_index_leads_past_a_record(suffix: str) -> None:
    log = filled(replace(CONFIG, index_interval_bytes=1))
    times = offsets_by_time(log_again(log))
    size = disk_of(log).open(log.segments[1].path + suffix).size()
    for position in range(size):
        again = again_after(log, lambda content, at=position: content.__setitem__(at, content[at] ^ 4), suffix=suffix)
        assert readable(again) == (list(range(40)), [])
        assert offsets_by_time(again) == times


@pytest.mark.parametrize("to_send", [False, True])
def test_a_length_that_leads_out_of_the_file_is_damage(to_send: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch in the middle, which is no affair of the segment's end."""
    monkeypatch.setattr("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 1)
    log = filled(replace(CONFIG, index_interval_bytes=1))
    base, end = log.segments[1].base_offset, log.segments[2].base_offset
    size = log.segments[1].size_bytes // (end - base)
    again = again_after(log, lambda content: content.__setitem__(size + 8, 0x7F))
    assert again.read_slice(base, size, end_offset=40, to_send=to_send).next_offset == base + 1
    with pytest.raises(LogDamaged, match="the file ends within a batch"):
        again.read_slice(base + 1, size, end_offset=40, to_send=to_send)


@pytest.mark.parametrize("to_send", [False, True])
@pytest.mark.parametrize("left", [0, 10])
def test_a_file_that_is_cut_under_its_readers_is_damage(
    to_send: bool, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are: one goes on from where it was, one begins before."""
    monkeypatch.setattr("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 1)
    log = log_again(filled())
    segment, end = log.segments[1], log.segments[2].base_offset
    size = segment.size_bytes // (end - segment.base_offset)
    last = log.read_slice(end - 2, size, end_offset=40, to_send=to_send).next_offset
    segment.log.truncate(segment.size_bytes - size + left)
    for _ in ("first", "when it is known"):
        with pytest.raises(LogDamaged, match="the file ends within a batch"):
            log.read_slice(last, size - 1, end_offset=40, to_send=to_send)
        assert log.read_slice(last - 1, size - 1, end_offset=40, to_send=to_send).next_offset == last


def test_the_first_segment_is_missed_unless_retention_took_it() -> None:
    log = filled()
    files = disk_of(log)
    files.lose(log.segments[0].path + ".log")
    begun = log.segments[1].base_offset
    with pytest.raises(LogDamaged, match=f"what lies before {begun} is missing"):
        open_log(files, Recovery(recovery_point=40, clean=True))
    again = open_log(files, Recovery(recovery_point=40, clean=True, repair=True))
    assert again.start_offset == begun
    kept = open_log(disk_of(log), Recovery(recovery_point=40, clean=True))
    kept.remove_oldest(1)
    for fate in (Recovery(recovery_point=40, same_boot=True), Recovery(recovery_point=40)):
        assert open_log(disk_of(kept), fate).start_offset == begun


def test_two_crashes_around_retention_leave_a_log_that_opens() -> None:
    """The first comes before the epochs are cut with the segment, the second right after the next start."""
    log = open_log(disk_of(filled()), Recovery(recovery_point=40, clean=True))
    files: Any = log.files
    begun = log.segments[1].base_offset
    epochs = files.open("t-0/leader-epoch-checkpoint").read(0, 1000)
    log.remove_oldest(1)
    files = files.kill()
    files.write_whole("t-0/leader-epoch-checkpoint", epochs)
    killed = Recovery(recovery_point=40, same_boot=True)
    files = open_log(files, killed).files
    assert open_log(files.kill(), killed).start_offset == begun


def test_the_newest_is_not_told_where_a_newer_one_may_be_damaged() -> None:
    """It is the first that anybody asks of the log, and what can be read is in order."""
    log = open_log(SimulatedFiles(), Recovery())
    for index in range(40):
        log.append(batch(1_000 - index), leader_epoch=3)
    log.close()
    again = again_after(log, lambda content: content.__delitem__(slice(-1, None)))
    with pytest.raises(LogDamaged, match="ends within one"):
        finish(again.max_timestamp())
