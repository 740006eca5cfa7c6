"""A transaction whose data and marker lie in segments that are compacted one after the other (KAFKA-8351)."""

from dataclasses import replace
from random import Random

import pytest

from broker.partitions.derived import marker_in
from storage.producers.producer_snapshot import SnapshotFiles
from storage.producers.producer_state import ProducerState
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, Rig, idempotent, plain
from tests.unit.partition.test_compaction import COMPACTED, batches, compact_all, filled, one_pass, opened


def replayed(rig: Rig) -> ProducerState:
    """What the log alone says, without any snapshot."""
    state = ProducerState()
    assert isinstance(rig.log, SegmentLog)
    for header, batch in rig.log.replay(0):
        state.replay(header, marker_in(header, batch) if batch is not None else None, NOW_MS)
    return state


def test_a_marker_outlives_its_data_in_an_earlier_segment() -> None:
    """I34: without it, a replay of the log would open the transaction again, and nobody would ever end it."""
    rig = opened(SimulatedFiles())
    large = b"v" * 400  # so that its segment never becomes one with the next
    rig.produce(idempotent(9, 0, 0, transactional=True, key=b"mine", value=large), transactional_id="x")
    filled(rig)
    rig.end(9, 1, commit=True)
    rig.produce(idempotent(9, 1, 0, transactional=True, key=b"other"), transactional_id="x")
    rig.end(9, 2, commit=True)
    for _ in range(4):
        filled(rig)
        assert compact_all(rig)
        rig.now_ms += 1_000
    left = [header for header, _ in batches(rig) if header.producer_id == 9]
    assert [header.is_control for header in left] == [False, True, False, True]
    assert not replayed(rig)._ongoing


def test_no_older_snapshot_outlives_a_pass() -> None:
    """KAFKA-12964, and worse: an older snapshot may hold a transaction open whose marker is compacted away. Replayed
    from there, nobody would ever end it."""
    rig = opened(SimulatedFiles())
    rig.produce(idempotent(9, 0, 0))
    rig.partition.derived.snapshot()
    filled(rig)
    assert isinstance(rig.log, SegmentLog)
    snapshots = SnapshotFiles(rig.log.files, rig.log.folder)
    end_offset = rig.log.segments[-1].base_offset
    assert min(snapshots.offsets()) < end_offset
    assert compact_all(rig)
    assert min(snapshots.offsets()) >= end_offset


@pytest.mark.parametrize("killed", [True, False])
def test_retention_takes_away_what_compaction_would_put_in_its_place(killed: bool) -> None:
    """I24: a start would finish it before a gap, and take what lies behind that for lost."""
    files = SimulatedFiles()
    config = replace(COMPACTED, cleanup_delete=True, segment_bytes=200)
    rig = opened(files, config=config)
    filled(rig, 12)
    rig.flush()
    log, end_offset = rig.log, rig.partition.high_watermark
    assert isinstance(log, SegmentLog)
    steps = one_pass(rig, NOW_MS)
    while not any(name.endswith(".log.swap") for name in files.list("t-0")):
        work = next(steps)
        if work is not None:
            work()
    log.remove_oldest(len(log.segments) - 2)
    left = files.kill() if killed else files
    steps.close()
    for seed in range(20):
        again = opened(left.crash(Random(seed)), Recovery(recovery_point=1), config)
        assert again.partition.end_offset == end_offset


@pytest.mark.parametrize("time_ms", [0, NOW_MS])
def test_a_compacted_segment_has_one_entry_for_one_time(time_ms: int) -> None:
    """The earliest there is included: a segment without an entry would have no record of a known time."""
    rig = opened(SimulatedFiles())
    for number in range(30):
        rig.produce(plain(b"v" * 30, key=b"%d" % (number % 20), timestamp_ms=time_ms))
    rig.flush()
    assert compact_all(rig)
    assert isinstance(rig.log, SegmentLog)
    for segment in rig.log.segments[:-1]:
        assert len(segment.time_index) == 1 and segment.largest_timestamp[0] == time_ms


def test_a_cut_within_a_gap_of_compaction_is_where_it_was_wanted() -> None:
    files = SimulatedFiles()
    rig = opened(files)
    for _ in range(30):
        rig.produce(plain(b"v" * 30, key=b"k"))
    rig.flush()
    assert compact_all(rig) and batches(rig)[0][0].base_offset > 1
    log = SegmentLog.open(files.kill(), "t-0", COMPACTED, now_ms=lambda: NOW_MS, recovery=Recovery(same_boot=True))
    log.truncate(1)
    assert log.end_offset == 1
