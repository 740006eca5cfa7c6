"""Indexes: entries are found wherever they are; wrong or missing ones lead past nothing, and are made anew."""

from bisect import bisect_right
from dataclasses import replace
from unittest import mock

import pytest

from protocol.records.batch import read_header
from storage.log import LogDamaged
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment_format import OFFSET_ENTRY
from storage.segments.sparse_index import BLOCK_ENTRIES, SparseIndex
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch
from tests.unit.storage.exact_appends import append_exactly
from tests.unit.storage.test_damage import CONFIG, again_after, filled, flip, log_again, offsets_by_time, readable


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
