"""The look-up of aborted transactions where they overlap (I30)."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from storage.producers.aborted import AbortedIndex, AbortedTransaction, WrittenIndex
from storage.producers.aborted_checkpoint import ABORTED_CHECKPOINT, AbortedCheckpoint
from storage.producers.producer_changes import CompletedTransaction
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import KILLED, Rig, idempotent, in_transaction, on_disk, plain
from tests.unit.partition.test_recovered_state import GOLDEN_ABORTED, state_of


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_transaction_that_began_earlier_and_ends_later_is_found(in_a_file: bool) -> None:
    """Entries stand in the order of their markers. Where the first marker lies behind what was read, a later entry may
    still have begun before it: what bounds the search is the last stable offset, not the marker."""
    files = SimulatedFiles() if in_a_file else None
    if files is not None:
        files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    index.append(CompletedTransaction(1, 12, 30, True, 5))
    index.append(CompletedTransaction(2, 5, 40, True, 41))
    index.append(CompletedTransaction(3, 45, 50, True, 51))
    assert [entry.producer_id for entry in index.collect(0, 20)] == [1, 2]
    assert [entry.producer_id for entry in index.collect(0, 8)] == [2]
    assert [entry.producer_id for entry in index.collect(31, 45)] == [2]


def test_a_truncation_of_a_killed_process_is_synced_later() -> None:
    """Else a power cut brings it back, and with it the end of a transaction that is open again."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    index.append(CompletedTransaction(1, 0, 9, True, 10))
    index.append(CompletedTransaction(1, 10, 19, True, 20))
    index.sync()
    files.sync_folder("")
    files.sync_folder("t-0")
    AbortedIndex(files, "t-0", [0]).truncate(15)
    files = files.kill()
    again = AbortedIndex(files, "t-0", [0])
    again.truncate(15)
    again.sync()
    for seed in range(20):
        assert AbortedIndex(files.crash(Random(seed)), "t-0", [0]).last_offset == 9


@pytest.mark.parametrize("end_offset", [12, 40])
def test_an_entry_behind_its_segment_is_of_an_earlier_life(end_offset: int) -> None:
    """I30: it was cut with the log, which went on in another segment, and a power cut took that back. It would hide
    what the producer has committed since."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    index.append(CompletedTransaction(1, 0, 9, True, 10))
    index.append(CompletedTransaction(1, 10, 30, True, 31))
    again = AbortedIndex(files.kill(), "t-0", [0, 12])
    again.truncate(end_offset)
    assert [entry.last_offset for entry in again.collect(0, 50)] == [9]


def test_what_is_before_the_start_of_the_log_is_forgotten() -> None:
    """And its files are closed: they go with their segments."""
    rig = on_disk(SimulatedFiles())
    for sequence in range(12):
        rig.transact(in_transaction(7, 0, sequence, value=bytes(100)))
        rig.end(7, 0, commit=False, version=0)
        rig.flush()
    index, bases = rig.partition.derived.aborted, rig.log.segment_bases()
    assert len(bases) > 3 and all(index.entries(base) for base in bases[:3])
    rig.partition.delete_records(bases[2])
    assert [bool(index.entries(base)) for base in bases[:3]] == [False, False, True]
    assert [entry.producer_id for entry in index.collect(bases[2], bases[2] + 1)] != []


def test_an_entry_behind_a_torn_one_is_found() -> None:
    """The file was damaged since the log was opened, and was opened again after a compaction."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0])
    index.append(CompletedTransaction(1, 0, 9, True, 10))
    files.spoil("t-0/00000000000000000000.txnindex", lambda content: content.extend(b"torn"))
    index.reload([0])
    assert [entry.producer_id for entry in index.collect(0, 20)] == [1]
    assert +files.held == {path_of(0): 1}
    files.syncs.clear()
    index.sync()
    assert files.syncs == [path_of(0)]
    files.fault = lambda operation, path: OSError("broken")
    with pytest.raises(OSError, match="broken"):
        index.append(CompletedTransaction(2, 12, 19, True, 20))
    files.fault = None
    with cuts(files) as cut:
        index.append(CompletedTransaction(2, 12, 19, True, 20))
        index.append(CompletedTransaction(3, 22, 29, True, 30))
    assert cut == [path_of(0)]
    assert [entry.producer_id for entry in index.collect(0, 30)] == [1, 2, 3]


def test_what_was_cut_once_is_not_cut_again() -> None:
    files = SimulatedFiles()
    index = in_five_segments(files)
    with cuts(files) as cut:
        index.truncate(33)
        index.truncate(33)
        index.append(CompletedTransaction(1, 31, 36, True, 37))
    assert cut == [path_of(30), path_of(40)]
    index.clear()
    assert (index.last_offset, index.collect(0, 100)) == (-1, []), "a marker at 0 is newer than none"


@contextmanager
def cuts(files: SimulatedFiles) -> Iterator[list[str]]:
    """Which files are cut meanwhile."""
    cut: list[str] = []

    def remember(operation: str, path: str) -> None:
        if operation == "truncate":
            cut.append(path)

    files.watcher = remember
    yield cut
    files.watcher = None


def in_five_segments(files: SimulatedFiles) -> AbortedIndex:
    """Each has one aborted transaction. That of the last one is not synced yet."""
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0, 10, 20, 30, 40])
    for base in (0, 10, 20, 30, 40):
        if base == 40:
            index.sync()
        index.append(CompletedTransaction(1, base, base + 5, True, base + 6))
    return index


def merge(files: SimulatedFiles, index: AbortedIndex, bases: list[int], left: list[int]) -> None:
    """What compaction does: those that end at `left` stay in the index."""
    for base in bases:
        files.rename(path_of(base), f"{path_of(base)}.deleted")
    packed = [AbortedTransaction(1, end - 5, end, end + 1).pack() for end in left]
    files.write_whole(path_of(bases[0]), *packed)
    looker, files.looker = files.looker, None
    written = WrittenIndex(files.open(path_of(bases[0])), packed)
    files.looker = looker
    index.merged(bases, written)


def path_of(base: int) -> str:
    return f"t-0/{base:020d}.txnindex"


def test_of_segments_that_became_one_nothing_else_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of those that went stays open."""
    files = SimulatedFiles()
    index = in_five_segments(files)
    looked_at = set[str]()
    files.looker = lambda operation, path: looked_at.add(path)
    monkeypatch.setattr(files, "list", None)
    merge(files, index, [10, 20], [25])
    assert looked_at == set()
    assert [entry.last_offset for entry in index.collect(0, 100)] == [5, 25, 35, 45]
    assert [entry.last_offset for entry in index.collect(21, 30)] == [25]
    assert (index.entries(20), index.last_offset) == ([], 45)
    assert +files.held == {path_of(base): 1 for base in (0, 10, 30, 40)}
    merge(files, index, [0, 10, 30], [])
    assert +files.held == {path_of(40): 1}


def test_the_newest_marker_is_known_when_segments_became_one() -> None:
    """A look-up behind it is not made: it must not be taken for older than it is."""
    files = SimulatedFiles()
    index = in_five_segments(files)
    index.segment_rolled(50)
    merge(files, index, [20, 30], [])
    assert index.last_offset == 45
    merge(files, index, [40], [])
    assert index.last_offset == 15
    merge(files, index, [0, 10, 20], [5, 15])
    assert index.last_offset == 15
    merge(files, index, [0, 40], [])
    assert (index.last_offset, index.collect(0, 100)) == (-1, [])
    index.append(CompletedTransaction(1, 50, 55, True, 56))
    assert [entry.last_offset for entry in index.collect(0, 100)] == [55]


def test_what_is_not_synced_is_not_said_of_segments_that_became_one() -> None:
    """Of what was dirty only the rest is synced later: the index of what became one is on the disk already."""
    files = SimulatedFiles()
    index = in_five_segments(files)
    write = index.write_down(only_synced=True)
    assert write is not None
    write()
    before = AbortedCheckpoint(files, "t-0").known
    assert before is not None and sorted(before) == [0, 10, 20, 30]
    index.truncate(33)  # leaves the segments from 30 on to be synced
    merge(files, index, [20, 30], [25])
    write = index.write_down(only_synced=True)
    assert write is not None
    write()
    known = AbortedCheckpoint(files, "t-0").known
    assert known == {0: before[0], 10: before[10], 20: before[20]}
    files.syncs.clear()
    index.sync()
    assert files.syncs == [path_of(40)]
    assert index.write_down() is None


def test_the_newest_marker_is_looked_for_behind_segments_that_were_emptied() -> None:
    files = SimulatedFiles()
    index = in_five_segments(files)
    index.truncate(10)
    index.append(CompletedTransaction(1, 41, 45, True, 46))
    merge(files, index, [40], [])
    assert index.last_offset == 5


def test_a_newest_marker_at_the_very_beginning_of_a_segment_may_go() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0, 10])
    index.append(CompletedTransaction(1, 0, 5, True, 6))
    index.append(CompletedTransaction(1, 6, 10, True, 11))
    merge(files, index, [10], [])
    assert index.last_offset == 5


@pytest.mark.parametrize(
    ("bases", "left"), [([0, 10], [25, 35, 45]), ([10, 20], [25, 35, 45]), ([0, 10, 20], [25, 45])]
)
def test_segments_before_the_start_may_become_one(bases: list[int], left: list[int]) -> None:
    """Their transactions are forgotten already, and segments go on that are not."""
    files = SimulatedFiles()
    index = in_five_segments(files)
    index.trimmed(20)
    opened = set[str]()
    files.looker = lambda operation, path: opened.add(path) if operation == "open" else None
    merge(files, index, bases, [end for end in left if bases[0] <= end < bases[-1] + 10])
    assert opened == set()
    if len(bases) == 3:
        merge(files, index, [0, 30], [25])
    assert [entry.last_offset for entry in index.collect(20, 100)] == left


# ------------------------------------------------------------------------------- an index that is not what was written


def with_aborted(files: SimulatedFiles, count: int = 3, rig: Rig | None = None) -> Rig:
    rig = rig or on_disk(files)
    for number in range(count):
        rig.transact(in_transaction(5, 0, number))
        rig.end(5, 0, commit=False, version=0)
    return rig


def test_an_index_of_an_earlier_version_is_made_anew_once(caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    rig = with_aborted(files)
    known = rig.partition.derived.aborted.collect(0, 100)
    rig.partition.close()
    files.lose(f"t-0/{ABORTED_CHECKPOINT}")
    for made_anew in (True, False):
        caplog.clear()
        again = on_disk(files := files.kill(), recovery=Recovery(clean=True, recovery_point=rig.log.end_offset))
        assert again.partition.derived.aborted.collect(0, 100) == known
        assert bool(caplog.records) == made_anew


def test_the_index_is_certain_after_a_kill_at_any_moment(caplog: pytest.LogCaptureFixture) -> None:
    """Neither before the first snapshot, nor with entries behind it."""
    files = SimulatedFiles()
    rig = with_aborted(files)
    on_disk(files.kill(), recovery=KILLED)
    rig.partition.derived.snapshot()
    rig.transact(in_transaction(5, 0, 3))
    rig.end(5, 0, commit=False, version=0)
    again = on_disk(files.kill(), recovery=KILLED)
    assert len(again.partition.derived.aborted.collect(0, 100)) == 4
    assert caplog.records == []


@pytest.mark.parametrize("more", [GOLDEN_ABORTED, GOLDEN_ABORTED[:20]], ids=["an entry", "a part of one"])
def test_an_index_with_more_than_was_written_is_made_anew(more: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """I30: an entry that nobody wrote hides what the same producer has committed. Below the snapshot no replay comes
    by, and only in the segment that holds its end may there be more than was synced."""
    files = SimulatedFiles()
    rig = on_disk(files)
    while len(rig.log.segment_bases()) == 1:
        rig.produce(plain(b"v"))
    rig = with_aborted(files, 10, rig)
    bases, known = rig.log.segment_bases(), rig.partition.derived.aborted.collect(0, 100)
    assert not rig.partition.derived.aborted.entries(bases[0]) and len(bases) > 3
    rig.partition.close()
    files.open(path_of(bases[2])).append([more])
    again = on_disk(files, recovery=Recovery(clean=True, recovery_point=rig.log.end_offset))
    assert again.partition.derived.aborted.collect(0, 100) == known
    assert len(caplog.records) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_aborted_and_decided_stays_so_when_the_log_is_cut(
    lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """I29, I30: what stands before the cut, with a snapshot or without. The index is looked at as it is on the disk."""
    files = SimulatedFiles()
    rig = with_aborted(files)
    rig.flush()
    if lost:
        rig.partition.close()
        rig = on_disk(files, recovery=Recovery(clean=True, recovery_point=rig.log.end_offset))
    known = rig.partition.derived.aborted.collect(0, 100)
    seen: list[int] = []
    rig.partition.watch(lambda: seen.append(rig.partition.last_stable_offset))
    rig.produce(plain(b"v"))
    rig.transact(in_transaction(6, 0, 0))
    if lost:
        files.lose("t-0/00000000000000000000.txnindex")
    rig.log.truncate(7)
    assert rig.partition.derived.aborted.collect(0, 100) == known
    assert len(known) == 3
    assert seen == [rig.partition.last_stable_offset] == [rig.partition.high_watermark] == [6]
    assert bool(caplog.records) == lost


def test_an_index_made_anew_is_certain_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    """Up to the snapshot and behind it: the next start reads what is behind the snapshot only."""
    files = SimulatedFiles()
    rig = with_aborted(files)
    rig.partition.derived.snapshot()
    rig.transact(in_transaction(5, 0, 3))
    rig.end(5, 0, commit=False, version=0)
    known = rig.partition.derived.aborted.collect(0, 100)
    files.lose(f"t-0/{ABORTED_CHECKPOINT}")
    for lines in (1, 0):
        caplog.clear()
        again = on_disk(files := files.kill(), recovery=KILLED)
        assert again.partition.derived.aborted.collect(0, 100) == known
        assert [record.levelname for record in caplog.records] == ["WARNING"] * lines
    assert len(known) == 4


def test_of_unsynced_segments_nothing_is_said_after_a_compaction() -> None:
    """A power cut would make what is said wrong, and the index be made anew from the whole log."""
    files = SimulatedFiles()
    rig = with_aborted(files, 10)
    bases = rig.log.segment_bases()
    rig.flush()
    rig.partition.derived.snapshot()
    known = AbortedCheckpoint(files, "t-0").known
    assert known is not None and bases[-1] in known
    rig.transact(in_transaction(5, 0, 10))
    rig.end(5, 0, commit=False, version=0)
    files.write_whole(path_of(bases[0]), b"")
    written = WrittenIndex(files.open(path_of(bases[0])), [])
    finish(rig.partition.derived.segments_compacted(bases[:1], written))
    assert AbortedCheckpoint(files, "t-0").known == {base: known[base] for base in known if base != bases[0]}


def test_producers_without_records_survive_an_index_rebuild() -> None:
    """I24: the snapshot is not given up for the index."""
    files = SimulatedFiles()
    rig = on_disk(files)
    rig.produce(idempotent(6, 0, 0))
    while len(rig.log.segment_bases()) < 3:
        rig.transact(in_transaction(5, 0, rig.partition.end_offset // 2))
        rig.end(5, 0, commit=False, version=0)
    rig.flush()
    rig.partition.derived.snapshot()
    assert isinstance(rig.log, SegmentLog)
    rig.log.remove_oldest(1)
    rig.partition.close()
    base = rig.log.segment_bases()[0]
    known = state_of(rig)
    assert base > 0 and 6 in known
    files.lose(f"t-0/{base:020d}.txnindex")
    again = on_disk(files, recovery=Recovery(clean=True, recovery_point=rig.log.end_offset, log_start_offset=base))
    assert state_of(again) == known
    assert again.partition.derived.aborted.entries(base)


def test_a_marker_at_the_very_beginning_of_the_next_segment_is_not_forgotten() -> None:
    """It is not of those that became one; the newest decides whether anybody has to look at all."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0, 10, 20])
    for first, end in ((0, 5), (10, 15), (16, 20)):
        index.append(CompletedTransaction(1, first, end, True, end + 1))
    index.sync()
    merge(files, index, [0, 10], [5, 15])
    assert index.last_offset == 20
    assert [entry.last_offset for entry in index.collect(16, 30)] == [20]
