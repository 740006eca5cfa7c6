"""Indexes: entries are found wherever they are; wrong or missing ones lead past nothing, and are made anew."""

from bisect import bisect_right
from dataclasses import replace
from unittest import mock

import pytest

from protocol.records.batch import read_header
from storage.log import LogDamaged
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment
from storage.segments.segment_format import OFFSET_ENTRY
from storage.segments.sparse_index import BLOCK_ENTRIES, SparseIndex
from tests.harness.loop import ProcessDied
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch
from tests.unit.storage.exact_appends import append_exactly
from tests.unit.storage.test_damage import (
    CONFIG,
    again_after,
    disk_of,
    filled,
    flip,
    log_again,
    offsets_by_time,
    open_log,
    readable,
)

ONE = len(batch(1))


@pytest.mark.parametrize("count", [BLOCK_ENTRIES, BLOCK_ENTRIES + 1, 5 * BLOCK_ENTRIES + 3])
def test_the_last_entry_up_to_a_value_is_found_in_a_large_file(count: int) -> None:
    index = SparseIndex(SimulatedFiles().open("index", create=True), OFFSET_ENTRY, max_bytes=1 << 20)
    entries = [(3 * number, 5 * number) for number in range(1, count + 1)]
    for entry in entries:
        index.append(*entry)
    for column, step in ((0, 3), (1, 5)):
        values = [entry[column] for entry in entries]
        for value in range(0, step * (count + 2)):
            below = bisect_right(values, value)
            assert index.floor(column, value) == (entries[below - 1] if below else None)


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".timeindex", 12), (".index", 8)])
def test_indexes_are_made_anew_where_their_last_entry_cannot_be_right(suffix: str, entry_bytes: int) -> None:
    """Retention goes by the largest timestamp of a segment, and looks at nothing else of it."""
    log = filled()
    for position in (0, entry_bytes - 4):
        again = again_after(
            log, lambda content, at=position: content.__setitem__(at - entry_bytes, 0x80), suffix=suffix
        )  # type: ignore[misc]
        assert again.segments[1].largest_timestamp == log.segments[1].largest_timestamp
        assert again.segments[1].time_index.last == log.segments[1].time_index.last


def test_an_index_that_is_damaged_again_leads_past_no_record() -> None:
    """It is made anew once. After that, a lookup by time looks at all of the segment."""
    log = filled(replace(CONFIG, index_interval_bytes=1))
    times, path = offsets_by_time(log_again(log)), log.segments[1].path + ".timeindex"

    def spoil(content: bytearray) -> None:
        for last in range(11, len(content), 12):
            content[last] ^= 4

    again = again_after(log, spoil, suffix=".timeindex")
    assert offsets_by_time(again) == times
    for entry in range(len(again.segments[1].time_index)):
        flip(again.files, path, 12 * entry + 11)  # type: ignore[arg-type]
    assert offsets_by_time(again) == times


def test_an_entry_that_leads_to_the_last_bytes_of_a_file_is_not_gone_by() -> None:
    log = filled(replace(CONFIG, index_interval_bytes=1))
    position = (log.segments[1].size_bytes - 5).to_bytes(4, "big")
    again = again_after(log, lambda content: content.__setitem__(slice(12, 16), position), suffix=".index")
    offset = log.segments[1].base_offset + 2
    assert [read_header(one).base_offset for one in again.read(offset, 1, end_offset=40)] == [offset]


def test_an_index_that_has_lost_its_end_is_made_anew() -> None:
    log = filled()
    entries = len(log.segments[1].offset_index)
    with mock.patch("storage.segment_ends.INDEX_BEHIND_BYTES", 100):
        again = again_after(log, lambda content: content.__delitem__(slice(8, None)), suffix=".index")
        assert len(again.segments[1].offset_index) == 1 < entries
        assert readable(again) == (list(range(40)), [])
    assert len(again.segments[1].offset_index) == entries


def indexes_of(segment: Segment) -> list[bytes]:
    """Both, as they are in their files."""
    segment.write_out_indexes()
    return [index._file.read(0, 1 << 20) for index in segment.indexes()]


@pytest.mark.parametrize("back", range(12))
def test_indexes_of_a_log_that_was_cut_are_as_if_made_anew(back: int) -> None:
    """Of any of its segments; and no more is read for it than what lies behind the last entry."""
    log = filled(replace(CONFIG, index_interval_bytes=100))
    log = open_log(disk_of(log), Recovery(clean=True), replace(CONFIG, index_interval_bytes=100))
    end_offset = log.active.base_offset + 5 - back
    entry = log.active.offset_index.floor(0, end_offset - 1 - log.active.base_offset)
    with mock.patch.object(Segment, "batches", autospec=True, side_effect=Segment.batches) as read:
        log.truncate(end_offset)
    if back < 3:
        assert entry is not None and [call.args[1] for call in read.call_args_list] == [entry[1]]
    for segment, end in zip(log.segments, [*log.segment_bases()[1:], end_offset], strict=True):
        assert segment.largest_timestamp == (end - 1, end - 1)
        before = indexes_of(segment)
        segment.rebuild_indexes()
        assert indexes_of(segment)[0] == before[0]
        assert before[1] in (indexes_of(segment)[1], indexes_of(segment)[1][:-12]), "the last word, once it is final"


@pytest.mark.parametrize("interval", [0, *range(ONE - 1, ONE + 2), *range(2 * ONE - 1, 2 * ONE + 2), 1 << 20])
def test_indexes_of_appends_are_as_if_made_anew(interval: int) -> None:
    """Where an entry is due is counted in bytes."""
    log = filled(replace(CONFIG, index_interval_bytes=interval))
    for segment in log.segments[:-1]:
        before = indexes_of(segment)
        segment.rebuild_indexes()
        assert indexes_of(segment) == before


@pytest.mark.parametrize("name", [".index", ".timeindex"])
def test_a_kill_while_indexes_are_emptied_loses_no_timestamp(name: str) -> None:
    """To be made anew: the next start sees that. The offset index goes first: alone it would pass for right."""
    log = filled()
    files, path = disk_of(log), log.segments[1].path
    files.spoil(f"{path}.timeindex", lambda content: content.extend(b"torn"))

    def die(*what: str) -> None:
        if what == ("truncate", path + name):
            raise ProcessDied

    files.watcher = die
    with pytest.raises(ProcessDied):
        _ = open_log(files, Recovery(clean=True)).segments[1].largest_timestamp
    again = open_log(files.kill(), Recovery(clean=True))
    assert again.segments[1].largest_timestamp == log.segments[1].largest_timestamp


def test_an_index_that_was_emptied_has_all_of_its_room_again() -> None:
    files = SimulatedFiles()
    index = SparseIndex(files.open("index", create=True), OFFSET_ENTRY, max_bytes=3 * 8 + 7)
    for number in range(3):
        assert not index.is_full
        index.append(number, number)
    assert index.is_full
    index.keep_below(0, 3)
    assert index.is_full
    index.keep_below(0, 2)
    assert (index.is_full, index.last, len(index)) == (False, (1, 1), 2)
    index.append(5, 5)
    index.clear()
    assert (index.is_full, index.last, len(index), index.floor(0, 9)) == (False, None, 0, None)
    index.append(4, 4)
    index.write_out()
    again = SparseIndex(files.open("index"), OFFSET_ENTRY, max_bytes=8)
    assert (again.is_full, again.last, len(again)) == (True, (4, 4), 1)


@pytest.mark.parametrize("zeros", [1, 2, 20])
def test_a_time_index_that_was_preallocated_is_made_anew(zeros: int) -> None:
    """As Kafka leaves it behind a kill. Retention would take the segment for one without timestamps."""
    log = filled()
    again = again_after(log, lambda content: content.extend(bytes(12 * zeros)), suffix=".timeindex")
    assert again.segments[1].largest_timestamp == log.segments[1].largest_timestamp
    assert len(again.segments[1].time_index) == len(log.segments[1].time_index)


def test_what_is_sent_ends_behind_its_last_batch_though_a_gap_follows() -> None:
    """The end is what aborted transactions are looked up to; an entry of the index leads near to it."""
    config = replace(CONFIG, segment_bytes=1 << 20, index_interval_bytes=1)
    log = SegmentLog.open(SimulatedFiles(), "t-0", config, now_ms=lambda: 0, recovery=Recovery())
    for index in range(8):
        one = bytearray(batch(index))
        one[0:8] = (10 * index).to_bytes(8, "big")
        append_exactly(log, one)
    with mock.patch("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 1):
        for count in range(1, 8):
            sent = log.read_slice(0, count * len(batch(0)), end_offset=log.end_offset, to_send=True)
            assert sent.next_offset == 10 * (count - 1) + 1


@pytest.mark.parametrize("name", [".index", ".timeindex"])
def test_no_index_is_gone_by_while_the_other_cannot_be_read(name: str) -> None:
    """Whether one can be right is seen by both."""
    again = log_again(filled())
    files = again.files
    assert isinstance(files, SimulatedFiles)
    files.fault = lambda operation, path: OSError("bad sector") if operation == "read" and path.endswith(name) else None
    for _ in range(2):
        with pytest.raises(LogDamaged, match="bad sector"):
            _ = again.segments[1].largest_timestamp
    files.fault = None
    assert again.segments[1].largest_timestamp[0] > 0


@pytest.mark.parametrize("lost", [[".index"], [".timeindex"], [".index", ".timeindex"]])
def test_an_index_that_is_missing_is_made_anew_with_the_other(lost: list[str]) -> None:
    """When it is opened: one that is empty looks right."""
    log = filled()
    files, segment = disk_of(log), log.segments[1]
    for suffix in lost:
        files.lose(segment.path + suffix)
    again = Segment(files, "t-0", segment.base_offset, CONFIG, created_ms=0).open_indexes()
    assert [len(index) for index in again.indexes()] == [len(index) for index in segment.indexes()]
    assert indexes_of(again) == indexes_of(segment)
    assert again.largest_timestamp == segment.largest_timestamp


@pytest.mark.parametrize("number", [1, -1])
@pytest.mark.parametrize("behind", [0, 1, 1 << 20])
def test_a_batch_that_ends_behind_its_segment_is_damage(number: int, behind: int) -> None:
    """For a reader who may read up to there, too: it would wait for it. Of a final segment, and of the active one."""
    log = log_again(filled())
    segment = log.segments[number]
    end = log.segments[2].base_offset if number == 1 else log.end_offset
    assert readable(log) == (list(range(40)), []), "the end of the segment was looked at"
    segment.log.write_at(segment.size_bytes - ONE, (end + behind).to_bytes(8, "big"))
    with pytest.raises(LogDamaged, match="its offsets lie behind the segment's end"):
        log.read_slice(end - 1, 1 << 20, end_offset=end)


@pytest.mark.parametrize("time_ms", [-2, -3, -(1 << 40)])
def test_a_time_before_all_times_is_not_the_last_word(time_ms: int) -> None:
    """It came to be the last when the index was cut behind damage. No batch of the segment has a time either."""
    log = open_log(SimulatedFiles(), Recovery())
    for _ in range(40):
        log.append(batch(-5), leader_epoch=3)
    segment = log.segments[1]
    assert len(segment.time_index) == 0
    segment.time_index.append(time_ms, 1)
    assert readable(log) == (list(range(40)), [])
    assert (len(segment.time_index), segment.largest_timestamp[0]) == (0, -1)


@pytest.mark.parametrize("to_send", [False, True])
def test_a_wrong_entry_of_the_index_ends_no_read_within_a_batch(to_send: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a large read may end is asked of the index, and is not believed unseen."""
    monkeypatch.setattr("storage.segments.segment_reading.LEFT_IN_FILE_BYTES", 100)
    monkeypatch.setattr("storage.segments.segment_reading.MANY_BATCHES", 2)
    log = filled(replace(CONFIG, index_interval_bytes=1))
    base = log.segments[1].base_offset

    def spoil(content: bytearray) -> None:
        for last in range(7, len(content) - 8, 8):
            content[last] ^= 1

    again = again_after(log, spoil, suffix=".index")
    for end_offset in range(base + 1, log.segments[2].base_offset):
        right, read = (one.read_slice(base, 1 << 20, end_offset=end_offset, to_send=to_send) for one in (log, again))
        assert read.next_offset == right.next_offset == end_offset
