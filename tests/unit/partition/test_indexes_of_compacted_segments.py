"""The indexes that compaction writes beside a segment are those that would be made of its bytes: whoever searches by
offset or time, or opens the log again, goes by them."""

from dataclasses import replace
from random import Random

import pytest

from protocol.records.batch import CorruptRecords, read_header
from storage.cleaner.cleaning import Work
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment
from storage.steps import never
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import Rig, plain
from tests.unit.partition.test_aborted_index import in_five_segments, merge, path_of
from tests.unit.partition.test_compaction import COMPACTED, compact_all, opened

BATCH_BYTES = len(plain(b"v", key=b"000"))
INDEXES = (".index", ".timeindex")


def segments_of(rig: Rig) -> list[Segment]:
    assert isinstance(rig.log, SegmentLog)
    return rig.log.segments


def compacted(files: SimulatedFiles, seed: int) -> Rig:
    """Keys of which some come again; times that rise, stay, fall and begin with 0; segments that become one."""
    random = Random(seed)
    config = replace(COMPACTED, segment_bytes=14 * BATCH_BYTES, index_interval_bytes=3 * BATCH_BYTES)
    rig = opened(files, config=config)
    now_ms = 0
    for number in range(100):
        now_ms += random.choice((0, 0, 1, 5, -2)) if number > 40 else 0
        key = number % 3 if number < 15 else random.randrange(70)
        rig.produce(plain(b"v", key=b"%03d" % key, timestamp_ms=max(0, now_ms)))
    for _ in range(2):  # what the first pass has made smaller becomes one in the second
        before = len(segments_of(rig))
        rig.produce(plain(b"v", key=b"000", timestamp_ms=now_ms))
        rig.log.roll()
        rig.flush()
        assert compact_all(rig)
    assert 2 < len(segments_of(rig)) < before
    return rig


@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_that_are_made_of_its_bytes(seed: int) -> None:
    files = SimulatedFiles()
    rig = compacted(files, seed)
    entries = 0
    for segment in segments_of(rig)[:-1]:
        written = [bytes(files.inode(segment.path + suffix).content) for suffix in INDEXES]
        segment.rebuild_indexes()
        assert written == [bytes(files.inode(segment.path + suffix).content) for suffix in INDEXES]
        entries += len(segment.offset_index)
    assert entries > 3


@pytest.mark.parametrize("seed", range(3))
def test_a_log_goes_on_with_them_as_if_it_were_opened_again(seed: int) -> None:
    """What is looked up by offset and time, and the ages of segments, before and after a restart."""
    files = SimulatedFiles()
    rig = compacted(files, seed)
    rig.produce(plain(b"v", key=b"later", timestamp_ms=50))
    rig.flush()

    def known(one: Rig) -> object:
        times = [segment.largest_timestamp for segment in segments_of(one)]
        places = [[segment.locate(offset) for offset in range(one.log.end_offset)] for segment in segments_of(one)]
        sizes = [(segment.base_offset, segment.size_bytes, segment.first_timestamp_ms) for segment in segments_of(one)]
        return times, places, sizes, one.consume()

    assert known(rig) == known(opened(files.kill(), config=rig.partition.config.log))


def test_what_cannot_be_read_is_remembered_up_to_a_bound() -> None:
    """A log full of what no pass can read costs a pass no memory without end."""
    work, header = Work(never), read_header(plain(b"v"))
    for offset in range(1_500):
        work.cannot_read(header._replace(base_offset=offset), CorruptRecords("nonsense"))
    assert [offset for offset, _ in work.unreadable] == list(range(1_000))


def test_what_became_one_before_the_start_is_not_kept_open() -> None:
    files = SimulatedFiles()
    index = in_five_segments(files)
    index.trimmed(20)
    merge(files, index, [0, 10], [5, 15])
    assert +files.held == {path_of(base): 1 for base in (20, 30, 40)}
    assert (index.entries(0), index.last_offset) == ([], 45)
