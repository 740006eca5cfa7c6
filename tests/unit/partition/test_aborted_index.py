"""The look-up of aborted transactions where they overlap (I30)."""

from random import Random

import pytest

from storage.producers.aborted import AbortedIndex, AbortedTransaction
from storage.producers.aborted_checkpoint import AbortedCheckpoint
from storage.producers.producer_state import CompletedTransaction
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import in_transaction
from tests.unit.partition.rig import on_disk as partition_on_disk


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_transaction_that_began_earlier_and_ends_later_is_found(on_disk: bool) -> None:
    """Entries stand in the order of their markers. Where the first marker lies behind what was read, a later entry may
    still have begun before it: what bounds the search is the last stable offset, not the marker."""
    files = SimulatedFiles() if on_disk else None
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
    rig = partition_on_disk(SimulatedFiles())
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
    index.append(CompletedTransaction(2, 12, 19, True, 20))
    assert [entry.producer_id for entry in index.collect(0, 20)] == [1, 2]


def test_of_two_checkpoints_the_later_stays_whichever_is_written_last() -> None:
    files = SimulatedFiles()
    files.make_folder("t-0")
    checkpoint = AbortedCheckpoint(files, "t-0")
    earlier, later = checkpoint.take({0: (1, 5)}), checkpoint.take({0: (2, 7)})
    assert earlier is not None and later is not None
    later()
    earlier()
    assert AbortedCheckpoint(files, "t-0").known == {0: (2, 7)}


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
    data = b"".join(AbortedTransaction(1, end - 5, end, end + 1).pack() for end in left)
    files.write_whole(path_of(bases[0]), data)
    index.merged(bases)


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
    assert looked_at == {path_of(10)}
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


@pytest.mark.parametrize(
    ("bases", "left"), [([0, 10], [25, 35, 45]), ([10, 20], [25, 35, 45]), ([0, 10, 20], [25, 45])]
)
def test_segments_before_the_start_may_become_one(bases: list[int], left: list[int]) -> None:
    """Their transactions are forgotten already, and segments go on that are not."""
    files = SimulatedFiles()
    index = in_five_segments(files)
    index.trimmed(20)
    merge(files, index, bases, [end for end in left if bases[0] <= end < bases[-1] + 10])
    if len(bases) == 3:
        merge(files, index, [0, 30], [25])
    assert [entry.last_offset for entry in index.collect(20, 100)] == left
