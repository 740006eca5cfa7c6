"""An index of aborted transactions that is not what was written is made anew, once: from the log up to the snapshot.
And one that is cut at either end with its log has files of the segments that are left, and of no other."""

from random import Random

import pytest

from storage.producers.aborted import AbortedIndex, AbortedTransaction
from storage.producers.producer_changes import CompletedTransaction
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import in_transaction, on_disk


@pytest.mark.parametrize("seed", range(3))
def test_what_was_made_anew_is_right_after_a_power_cut(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """What lies behind the snapshot is not said to be there before it is on the disk: it would be missed."""
    files = SimulatedFiles()
    rig = on_disk(files)
    aborted = []
    for number in range(4):
        begun = rig.transact(in_transaction(5, 0, number)).base_offset
        ended = rig.end(5, 0, commit=False, version=0)
        aborted.append(AbortedTransaction(5, begun, ended, ended + 1))
        if number == 1:
            rig.flush()
            rig.partition.derived.snapshot()
    rig.flush()
    files = files.kill()
    files.open(name_of(0)).truncate(10)
    said = []
    for _ in range(2):
        again = on_disk(files)
        assert again.partition.derived.aborted.collect(0, 100) == aborted
        said.append(any("made anew" in record.getMessage() for record in caplog.records))
        caplog.clear()
        files = files.crash(Random(seed))
    assert said == [True, False]


@pytest.mark.parametrize(("segment", "end_offset", "right"), [
    (0, 9, True), (0, 10, False), (0, 11, False), (0, 30, False),
    (10, 19, True), (10, 20, False), (20, 20, True), (20, 1 << 40, True),
])  # fmt: skip
def test_only_behind_the_snapshot_there_may_be_more_than_was_written(
    segment: int, end_offset: int, right: bool
) -> None:
    """I30: also where a segment ends with the snapshot. Of the last one nobody knows where it ends."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0, 10, 20])
    for base in (0, 10, 20):
        index.append(CompletedTransaction(1, base, base + 5, True, base + 6))
    index.sync()
    write = index.write_down()
    assert write is not None
    write()
    files.open(name_of(segment)).append([AbortedTransaction(1, segment, segment + 7, segment + 8).pack()])
    assert AbortedIndex(files, "t-0", [0, 10, 20]).is_what_was_written(end_offset, 0) is right


@pytest.mark.parametrize(("start_offset", "right"), [(0, False), (9, False), (10, True), (15, True)])
def test_what_no_reader_begins_before_needs_nobody_to_say_that_it_is_right(start_offset: int, right: bool) -> None:
    """Segments that end before the start are forgotten before anything was written down of them, where DeleteRecords is
    that early. Over a store their entries are still beside the log, and there is nothing to make them anew from."""
    files = SimulatedFiles()
    files.make_folder("t-0")
    index = AbortedIndex(files, "t-0", [0, 10])
    index.append(CompletedTransaction(1, 0, 5, True, 6))
    index.sync()
    assert AbortedIndex(files, "t-0", [0, 10]).is_what_was_written(15, start_offset) is right
    index.trimmed(start_offset)
    assert (index.write_down() is None) is right


def test_files_of_an_index_go_with_their_segments() -> None:
    """Neither held open when they were forgotten, nor made anew when what was in them is to be synced."""
    files = SimulatedFiles()
    rig = on_disk(files)
    for number in range(20):
        rig.transact(in_transaction(5, 0, number))
        rig.end(5, 0, commit=False, version=0)
        if number == 10:
            rig.flush()
    bases = rig.log.segment_bases()
    rig.partition.delete_records(bases[2])
    assert not {name_of(base) for base in bases[:2]} & set(+files.held)
    rig.log.truncate(bases[-2])
    rig.partition.derived.snapshot()
    gone = set(bases) - set(rig.log.segment_bases())
    assert gone and not {name_of(base) for base in gone} & {f"t-0/{name}" for name in files.list("t-0")}
    rig.partition.close()
    assert not +files.held


def name_of(base: int) -> str:
    return f"t-0/{base:020d}.txnindex"
