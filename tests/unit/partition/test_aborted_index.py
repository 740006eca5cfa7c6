"""The look-up of aborted transactions where they overlap (I30)."""

from random import Random

import pytest

from storage.producers.aborted import AbortedIndex
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
