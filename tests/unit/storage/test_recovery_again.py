"""A crash within recovery, or soon after it: the next start finds the same log, and takes nothing for lost."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from storage.checkpoints import read_offsets
from storage.epochs import EpochCache, read_epochs
from storage.files import TEMPORARY
from storage.log import LogConfig
from storage.producers.producer_entry import NO_OFFSET, CachedBatch, ProducerEntry
from storage.producers.producer_snapshot import SIDECAR_SUFFIX, SNAPSHOT_SUFFIX, SnapshotFiles
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from tests.harness.loop import ProcessDied
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch

CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=0)
FORGETFUL = Recovery(recovery_point=5, log_start_offset=9)
"""DeleteRecords up to 9 was written down, and a power cut has taken all behind 5 (page-cache durability)."""
EPOCHS = "t-0/leader-epoch-checkpoint"
PRODUCER = ProducerEntry(0, -1, 0, 0, NO_OFFSET, (CachedBatch(0, 1, 0, 0),))


def opened(files: SimulatedFiles, recovery: Recovery) -> SegmentLog:
    return SegmentLog.open(files, "t-0", CONFIG, now_ms=lambda: 1_000, recovery=recovery)


def filled(count: int) -> SimulatedFiles:
    files = SimulatedFiles()
    log = opened(files, Recovery())
    for index in range(count):
        log.append(batch(index), leader_epoch=3)
    log.close()
    return files


def killed_at_each_step(files: SimulatedFiles, recovery: Recovery) -> Iterator[SimulatedFiles]:
    """The disk after a start that was killed before each of its operations, and after one that was not."""
    for steps in range(1_000):
        tried, left = files.kill(), steps

        def count(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ProcessDied

        tried.watcher = count
        try:
            opened(tried, recovery)
        except ProcessDied:
            tried.watcher = None
            yield tried
            continue
        tried.watcher = None
        yield tried
        return


def done_to(files: SimulatedFiles, recovery: Recovery) -> list[tuple[str, str]]:
    """What a start changes and syncs, in order; afterwards it has nothing open."""
    done: list[tuple[str, str]] = []
    files.watcher = lambda operation, path: done.append((operation, path.removeprefix("t-0/")))
    opened(files, recovery).close()
    assert not +files.held
    return [one for one in done if not one[0].startswith("after ")]


def test_a_tail_is_cut_before_the_file_is_synced() -> None:
    files, name = filled(3), f"{0:020d}.log"
    files.spoil(f"t-0/{name}", lambda content: content.extend(b"torn"))
    changes = [operation for operation, path in done_to(files.kill(), Recovery()) if path == name]
    assert changes[:2] == ["truncate", "sync"]


def test_a_replacement_has_its_name_for_good_before_its_indexes_are_made() -> None:
    """Not when it is first read: that would take long."""
    files, name = filled(12), f"{0:020d}"
    files.write_whole(f"t-0/{name}.log.swap", files.open(f"t-0/{name}.log").read(0, 1 << 20))
    changes = done_to(files.kill(), Recovery(same_boot=True, recovery_point=12))
    assert changes[:6] == [
        ("delete", f"{name}.index"),
        ("delete", f"{name}.timeindex"),
        ("rename", f"{name}.log.swap"),
        ("sync_folder", "t-0"),
        ("create", f"{name}.index"),
        ("create", f"{name}.timeindex"),
    ]


@pytest.mark.parametrize("later", [Recovery(same_boot=True, log_start_offset=9), FORGETFUL])
def test_a_log_that_begins_anew_is_not_missed_by_the_next_start(later: Recovery) -> None:
    log = opened(filled(5), FORGETFUL)
    files: SimulatedFiles = log.files  # type: ignore[assignment]
    again = opened(files.kill(), later)
    assert (again.start_offset, again.end_offset, again.latest_epoch()) == (9, 9, 3)


def test_a_log_that_begins_anew_does_so_whenever_the_start_dies() -> None:
    for number, files in enumerate(killed_at_each_step(filled(5), FORGETFUL)):
        for seed in range(5):
            again = opened(files.crash(Random(seed)), FORGETFUL)
            assert (again.start_offset, again.end_offset) == (9, 9), number
        assert number < 200


def test_epochs_are_cut_though_a_compaction_was_under_way() -> None:
    """Retention took the first segment, a replacement of the second stood ready, and the epochs were not cut yet."""
    files = filled(12)
    bases = opened(files.kill(), Recovery(clean=True, recovery_point=12)).segment_bases()
    assert len(bases) > 2
    first, second = (f"t-0/{base:020d}.log" for base in bases[:2])
    files.rename(first, first + ".deleted")
    files.write_whole(second + ".swap", files.open(second).read(0, 1 << 20))
    found = Recovery(same_boot=True, recovery_point=12, sync=False)
    for after in killed_at_each_step(files, found):
        assert opened(after.kill(), found).start_offset == bases[1]


def test_what_compaction_has_renamed_is_not_taken_for_deleted() -> None:
    files = filled(12)
    first = f"t-0/{0:020d}.log"
    files.write_whole(first + ".swap", files.open(first).read(0, 1 << 20))
    files.rename(first, first + ".deleted")
    files, steps = files.kill(), list[tuple[str, str]]()
    files.watcher = lambda operation, path: steps.append((operation, path))
    log = opened(files, Recovery(same_boot=True, recovery_point=12))
    assert steps[steps.index(("after rename", first + ".swap")) + 1] == ("sync_folder", "t-0"), "it is there to stay"
    assert log.start_offset == 0 and log.epoch_end(3) == (3, 12)
    log.close()
    assert not +files.held, "all is closed"
    assert files.open(EPOCHS).read(0, 100) == b"0\n1\n3 0\n"


def test_a_replacement_takes_away_every_segment_that_begins_within_it() -> None:
    """Also one of a single batch, which begins where the last batch of the replacement does."""
    files = SimulatedFiles()
    log = opened(files, Recovery())
    for index in range(3):
        log.append(batch(index, index, value=bytes(200)), leader_epoch=3)
    log.close()
    assert log.segment_bases() == [0, 2, 4]
    contents = [files.open(f"t-0/{base:020d}.log").read(0, 1 << 20) for base in (0, 2)]
    files.write_whole(f"t-0/{0:020d}.log.swap", b"".join(contents))
    assert opened(files, Recovery(same_boot=True, recovery_point=6)).segment_bases() == [0, 4]


def epochs_of(files: SimulatedFiles) -> bytes:
    return files.open(EPOCHS).read(0, 1000)


@pytest.mark.parametrize("length", [-1, -(1 << 31), -12])
def test_a_damaged_replacement_takes_the_place_of_what_it_holds(length: int) -> None:
    """Its batches say which segments go. A length that leads back, or nowhere, ends them."""
    files = filled(12)
    bases = opened(files.kill(), Recovery(clean=True, recovery_point=12)).segment_bases()
    first, second = (files.open(f"t-0/{base:020d}.log").read(0, 1 << 20) for base in bases[:2])
    damaged = second[:8] + length.to_bytes(4, "big", signed=True) + second[12:]
    files.write_whole(f"t-0/{0:020d}.log.swap", first + damaged)
    log = opened(files, Recovery(same_boot=True, recovery_point=12))
    assert log.segment_bases() == bases
    assert [len(log.read(offset, 1, end_offset=12)) for offset in range(12)] == [1] * 12


def test_a_flush_puts_no_older_epochs_in_the_place_of_newer_ones() -> None:
    """They were cut while it was under way; after a kill the next start would miss what was deleted."""
    log = opened(SimulatedFiles(), Recovery())
    for index in range(12):
        log.append(batch(index), leader_epoch=3)
    flush = log.begin_flush()
    assert flush is not None and flush.is_checkpoint
    begun = log.segment_bases()[1]
    log.remove_oldest(1)
    flush.run()
    log.finish_flush(flush)
    log.disposal.take_due(1_000, at_most=1)()
    files: SimulatedFiles = log.files  # type: ignore[assignment]
    assert epochs_of(files) == b"0\n1\n3 %d\n" % begun
    assert opened(files.kill(), Recovery(same_boot=True, recovery_point=12)).start_offset == begun


@pytest.mark.parametrize("ended", ["killed", "closed"])
def test_epochs_that_a_power_cut_brought_back_are_cut_again(ended: str) -> None:
    """Records were deleted, and then their segments, by a later life."""
    files = filled(12)
    cut = Recovery(recovery_point=12, log_start_offset=8)
    log = opened(files, cut)
    begun = log.segment_bases()[1]
    log.remove_oldest(1)
    log.disposal.take_due(1_000, at_most=1)()
    if ended == "closed":
        log.close()
    again = opened(files.kill(), replace(cut, same_boot=True, clean=ended == "closed"))
    assert begun <= again.start_offset == 8 and again.epoch_end(3) == (3, 12)


@pytest.mark.parametrize("deleted_to", [12, 9])
def test_records_that_are_there_again_have_their_epochs(deleted_to: int) -> None:
    """A deletion was not written down before the kill. Consumers that ask for an epoch that is not known any more are
    reset."""
    log = opened(SimulatedFiles(), Recovery())
    for index in range(12):
        log.append(batch(index), leader_epoch=index // 4)
    log.flush_now(closing=True)
    log.trim(deleted_to)
    for known in (Recovery(same_boot=True, recovery_point=12), Recovery(recovery_point=12)):
        again = opened(log.files.kill(), known)  # type: ignore[attr-defined]
        assert again.start_offset == 0
        assert [again.epoch_end(epoch) for epoch in range(3)] == [(0, 4), (1, 8), (2, 12)]


def test_a_number_that_was_cut_is_not_taken_for_another() -> None:
    files = filled(12)
    files.spoil(EPOCHS, lambda content: content.__setitem__(slice(None), b"0\n1\n3 1"))
    assert read_epochs(files, "t-0") is None
    for size in range(1, len(b"0\n1\nt 0 120\n")):
        files.write_whole("checkpoint", b"0\n1\nt 0 120\n"[:size])
        assert read_offsets(files, "checkpoint") == {}


def test_what_a_start_has_cut_is_not_there_again() -> None:
    """Page-cache durability: that start synced nothing else, the log went on in another segment, and was killed."""
    files = filled(4)
    files.open(f"t-0/{0:020d}.log").append([b"torn"])
    files.open(f"t-0/{0:020d}.log").sync()
    log = opened(files, Recovery(recovery_point=4, sync=False))
    log.roll()
    log = opened(files.kill(), Recovery(recovery_point=4, same_boot=True, sync=False))
    log.append(batch(5), leader_epoch=3)
    log.close()
    for seed in range(20):
        left: SimulatedFiles = log.files.crash(Random(seed))  # type: ignore[attr-defined]
        assert left.open(f"t-0/{0:020d}.log").size() == log.segments[0].size_bytes
        left.delete(EPOCHS)
        assert opened(left, Recovery(recovery_point=5)).end_offset == 5


@pytest.mark.parametrize("known", [Recovery(same_boot=True), Recovery(recovery_point=4)])
def test_an_index_that_cannot_be_right_is_made_anew_by_a_start(known: Recovery) -> None:
    """Entries before the one that it begins with are not looked at one by one."""
    config = replace(CONFIG, segment_bytes=1 << 20, index_interval_bytes=1)
    files = SimulatedFiles()
    log = SegmentLog.open(files, "t-0", config, now_ms=lambda: 1_000, recovery=Recovery())
    for index in range(6):
        log.append(batch(index), leader_epoch=3)
    log.close()
    for entry in range(5):
        left = files.kill()
        left.open(f"t-0/{0:020d}.index").write_at(8 * entry + 4, b"\x40")
        again = SegmentLog.open(left, "t-0", config, now_ms=lambda: 1_000, recovery=known)
        assert again.end_offset == 6
        assert [len(again.read(offset, 1, end_offset=6)) for offset in range(6)] == [1] * 6


@pytest.mark.parametrize("entry", [struct.pack(">qi", -1, 1), struct.pack(">qi", 1_000, -1)])
def test_a_time_index_of_what_never_was_is_made_anew(entry: bytes) -> None:
    files = filled(12)
    files.write_whole(f"t-0/{0:020d}.timeindex", entry)
    log = opened(files, Recovery(recovery_point=12, clean=True))
    time_ms, offset = log.segments[0].largest_timestamp
    assert len(log.segments) > 1 and time_ms >= 0 and 0 <= offset < log.segments[1].base_offset


@pytest.mark.parametrize("recovery", [Recovery(), Recovery(same_boot=True)])
def test_epochs_that_were_cut_off_do_not_stay_between_those_that_are_there(recovery: Recovery) -> None:
    """The file is that of before a truncation: a power cut has taken the one that followed it."""
    files = SimulatedFiles()
    log = opened(files, Recovery())
    for epoch in (3, 3, 6, 7):
        log.append(batch(1), leader_epoch=epoch)
    log.close()
    files.write_whole(EPOCHS, b"0\n3\n3 0\n5 1\n7 3\n")
    again = opened(files.kill(), recovery)
    assert [again.epoch_end(epoch) for epoch in (3, 4, 5, 6, 7)] == [(3, 2), (3, 2), (3, 2), (6, 3), (7, 4)]


def test_where_nothing_is_cut_from_the_beginning_epochs_are_not_written_again() -> None:
    files = filled(12)
    log = opened(files := files.kill(), Recovery(clean=True, recovery_point=12, log_start_offset=0))
    written: list[str] = []
    files.watcher = lambda operation, path: written.append(path)
    assert log.segment_bases()[0] == 0
    log.trim(3)
    assert [path for path in written if "epoch" in path]
    written.clear()
    log.trim(3)
    assert written == []
    assert EpochCache().assign(-1, 0) is False
    epochs = EpochCache([(3, 5), (4, 9)])
    assert [epochs.assign(epoch, 12) for epoch in (-1, 3, 4)] == [False] * 3
    assert [epochs.truncate_start(offset) for offset in (0, 4, 5)] == [False] * 3
    assert epochs.entries == [(3, 5), (4, 9)]
    assert epochs.truncate_start(6) and epochs.entries == [(3, 6), (4, 9)]


@pytest.mark.parametrize("seed", range(8))
def test_no_power_cut_takes_an_epoch_behind_which_the_recovery_point_is(seed: int) -> None:
    """Recovery reads no header before it: the file is on the disk when it moves."""
    config = replace(CONFIG, segment_bytes=1 << 20, index_interval_bytes=1)
    log = SegmentLog.open(files := SimulatedFiles(), "t-0", config, now_ms=lambda: 1_000, recovery=Recovery())
    for epochs in ((3,), (5, 8, 8, 8)):
        for epoch in epochs:
            log.append(batch(1), leader_epoch=epoch)
        log.flush_now(closing=True)
    known = Recovery(recovery_point=log.recovery_point)
    assert known.recovery_point == 5
    again = SegmentLog.open(files.crash(Random(seed)), "t-0", config, now_ms=lambda: 1_000, recovery=known)
    assert [again.epoch_end(epoch) for epoch in (3, 5, 7)] == [(3, 1), (5, 2), (5, 2)]


def test_what_was_cut_off_stays_cut_off() -> None:
    """After the next crash nobody looks there, if the log goes on in another segment."""
    files = filled(12)
    last = max(name for name in files.list("t-0") if name.endswith(".log"))
    files.open(f"t-0/{last}").append([b"torn"])
    files, steps = files.kill(), list[tuple[str, str]]()
    files.watcher = lambda operation, path: steps.append((operation, path))
    opened(files, Recovery(same_boot=True, recovery_point=12, sync=False))
    assert steps[steps.index(("truncate", f"t-0/{last}")) + 1] == ("sync", f"t-0/{last}")


def test_what_a_kill_leaves_of_a_snapshot_goes_at_the_next_start() -> None:
    """Each snapshot has a name of its own: nothing would ever replace what was half-written of it."""
    files, left = filled(2), set[str]()

    def start_over(operation: str, path: str) -> None:
        again = files.kill()
        left.update(name for name in again.list("t-0") if name.endswith(TEMPORARY))
        assert opened(again, Recovery(recovery_point=2)).end_offset == 2
        assert not [name for name in again.list("t-0") if name.endswith(TEMPORARY)]

    files.watcher = start_over
    SnapshotFiles(files, "t-0").write(2, {7: PRODUCER.pack()}, durable_offset=2)
    assert left == {f"{2:020d}{suffix}{TEMPORARY}" for suffix in (SIDECAR_SUFFIX, SNAPSHOT_SUFFIX)}


def test_the_epoch_of_records_that_were_all_deleted_is_still_known() -> None:
    """Only where the log ends at its start: elsewhere what begins at the end goes with what is cut off."""
    for begins, end_offset, log_start_offset, stays in (
        (9, 9, 9, True),
        (9, 9, 8, False),
        (9, 8, 8, False),
        (9, 10, 8, True),
        (0, 0, 0, False),
    ):
        epochs = EpochCache([(3, begins)])
        assert epochs.truncate_end(end_offset, log_start_offset=log_start_offset) is not stays
        assert epochs.entries == [(3, begins)] * stays


def test_a_log_of_which_all_waits_for_deletion_begins_anew() -> None:
    """Nothing of it had to be on the disk."""
    files, first = filled(2), f"t-0/{0:020d}.log"
    files.rename(first, first + ".deleted")
    log = opened(files := files.kill(), Recovery())
    assert (log.start_offset, log.end_offset, log.epoch_end(3)) == (0, 0, (3, 0))
    assert not files.exists(first + ".deleted")
