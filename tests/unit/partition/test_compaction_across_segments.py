"""A transaction whose data and marker lie in segments that are compacted one after the other (KAFKA-8351)."""

from dataclasses import replace
from random import Random
from unittest import mock

import pytest

from broker.partitions.derived import marker_in
from storage.cleaner import compaction
from storage.producers.aborted import AbortedIndex
from storage.producers.producer_snapshot import SnapshotFiles
from storage.producers.producer_state import ProducerState
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment import Segment
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import KILLED, NOW_MS, Rig, idempotent, plain
from tests.unit.partition.test_compaction import COMPACTED, batches, compact_all, filled, latest, one_pass, opened

ONE = len(plain(b"v", key=b"00"))


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


@pytest.mark.parametrize("time_ms", [-1, 0, NOW_MS])
def test_a_compacted_segment_has_one_entry_for_one_time(time_ms: int) -> None:
    """The earliest there is included: a segment without an entry would have no record of a known time; -1 is none."""
    rig = opened(SimulatedFiles())
    for number in range(30):
        rig.produce(plain(b"v" * 30, key=b"%d" % (number % 20), timestamp_ms=time_ms))
    rig.flush()
    assert compact_all(rig)
    assert isinstance(rig.log, SegmentLog)
    for segment in rig.log.segments[:-1]:
        assert len(segment.time_index) == (time_ms >= 0) and segment.largest_timestamp[0] == time_ms


@pytest.mark.parametrize("interval", [0, *range(ONE - 1, ONE + 2), *range(2 * ONE - 1, 2 * ONE + 2), 1 << 20])
def test_indexes_of_a_compacted_segment_are_as_if_made_anew(interval: int) -> None:
    """Where an entry is due is counted in the bytes that stay."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=24 * ONE, index_interval_bytes=interval))
    for number in range(60):
        rig.produce(plain(b"v", key=b"%02d" % (number % 40), timestamp_ms=NOW_MS + 7 * number % 5))
    rig.log.roll()
    rig.flush()
    rig.now_ms += 100
    assert isinstance(rig.log, SegmentLog)
    with mock.patch.object(Segment, "rebuild_indexes", autospec=True) as anew:
        assert compact_all(rig)
        before = [[index._file.read(0, 1 << 20) for index in one.indexes()] for one in rig.log.segments]
    assert not anew.called
    assert [segment.size_bytes // ONE for segment in rig.log.segments] == [4, 24, 12, 0]
    for compacted, held in zip(rig.log.segments[:-1], before, strict=False):
        compacted.rebuild_indexes()
        assert [index._file.read(0, 1 << 20) for index in compacted.indexes()] == held


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


def with_aborted(files: SimulatedFiles) -> Rig:
    """Committed and aborted values of few keys, in turn, over many segments, of which two fit into one."""
    rig = opened(files)
    for number in range(16):
        for producer_id in (8, 9):
            batch = idempotent(
                producer_id, 0, number, transactional=True, key=b"%d" % (number % 5), value=b"v" * number
            )
            rig.produce(batch, transactional_id="x")
            rig.end(producer_id, 0, commit=producer_id == 8, version=0)
    rig.flush()
    rig.log.configure(replace(COMPACTED, segment_bytes=1_100))
    return rig


def certain(files: SimulatedFiles, rig: Rig) -> None:
    """The index is as it would be opened, and so is the checkpoint of what is before the active segment."""
    assert isinstance(rig.log, SegmentLog)
    index, again = rig.partition.derived.aborted, AbortedIndex(files.kill(), "t-0", rig.log.segment_bases())
    assert [index.entries(base) for base in rig.log.segment_bases()] == [
        again.entries(base) for base in rig.log.segment_bases()
    ]
    assert index.last_offset == again.last_offset
    assert [held for path, held in (+files.held).items() if path.endswith(".txnindex") and held > 1] == []


@pytest.mark.parametrize("ends", ["killed", "without power"])
def test_a_start_after_any_step_of_a_pass_shows_no_aborted_record(ends: str, caplog: pytest.LogCaptureFixture) -> None:
    """I30, I34."""
    files = SimulatedFiles()
    rig = with_aborted(files)
    expected, end_offset = latest(rig), rig.partition.end_offset
    before, steps = len(rig.log.segment_bases()), 0
    recovery = KILLED if ends == "killed" else Recovery(recovery_point=rig.log.recovery_point)
    for steps, work in enumerate(one_pass(rig, NOW_MS), 1):
        if work is not None:
            work()
        again = opened(files.kill() if ends == "killed" else files.crash(Random(steps)), recovery)
        assert (latest(again), again.partition.end_offset) == (expected, end_offset)
        certain(files, rig)
    assert (before, len(rig.log.segment_bases()), steps) == (11, 6, 22)
    certain(files, rig)
    caplog.clear()
    again = opened(files.kill())
    assert latest(again) == latest(rig) == expected
    assert caplog.records == []  # or the index was made anew


def test_a_pass_merges_so_many_segments_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one goes on with what came of it."""
    monkeypatch.setattr(compaction, "MERGED_AT_ONCE", 3)
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=10_000))
    counts = []
    for _ in range(3):
        for number in range(12):
            rig.produce(plain(b"v", key=b"k%d" % number))
            rig.log.roll()
        rig.flush()
        before = rig.log.segment_bases()
        assert compact_all(rig)
        after = rig.log.segment_bases()
        counts.append((len(before), len(after)))
        assert after[:-1] == before[:-1:3]
    assert counts == [(13, 5), (17, 7), (19, 7)]


def test_one_segment_never_holds_more_offsets_than_an_index_can_say() -> None:
    """Its entries are relative to where it begins, in 32 bits."""
    log = SegmentLog.open(SimulatedFiles(), "t-0", COMPACTED, now_ms=lambda: NOW_MS, recovery=KILLED)
    log.configure(replace(COMPACTED, segment_bytes=10_000))
    steps = (1 << 30) - 1, (1 << 30) - 1, 1, 1 << 30, 5
    for number, step in enumerate(steps):
        log.append(plain(b"v", key=b"%d" % number), leader_epoch=1)
        log.end_offset += step - 1  # as after many records that were superseded
        log.roll()
    log.append(plain(b"v", key=b"active"), leader_epoch=1)
    log.flush_now()
    planned = finish(compaction.plan(log, first_dirty_offset=0, last_stable_offset=log.end_offset, now_ms=NOW_MS))
    assert planned is not None
    groups = compaction._groups(log, planned, log.end_offset, None)
    assert [[segment.base_offset for segment in group] for group in groups] == [
        [0, (1 << 30) - 1, (1 << 31) - 2],
        [(1 << 31) - 1, (1 << 31) - 1 + (1 << 30)],
    ]


def test_a_plan_is_given_up_where_segments_leave_the_log_meanwhile() -> None:
    """They must not be looked into any more: a file that is opened would be made again."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, cleanup_delete=True))
    filled(rig, 40)
    rig.partition.close()
    files = rig.log.files.kill()  # type: ignore[attr-defined]
    again = opened(
        files, Recovery(clean=True, recovery_point=rig.log.end_offset), replace(COMPACTED, cleanup_delete=True)
    )
    assert isinstance(again.log, SegmentLog)
    steps = again.partition.compaction_due(NOW_MS, lambda: True)
    assert next(steps) is None and next(steps) is None
    again.log.remove_oldest(5)
    files.looker = lambda operation, path: pytest.fail(f"{operation} {path}")
    with pytest.raises(StopIteration) as planned:
        next(steps)
    assert planned.value.value is None
