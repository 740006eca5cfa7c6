"""The scrub: damage in old segments is found before a reader meets it, and nothing else is called damage."""

import pytest

from storage.log import LogConfig, LogDamaged
from storage.recovery import Recovery
from storage.scrub import READ_BYTES, Scrub
from storage.segment_log import SegmentLog
from storage.steps import Steps, finish
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.storage.batches import batch
from tests.unit.storage.test_damage import CONFIG, open_log, readable

OFFSET_AT, LENGTH_AT, DELTA_AT, VALUE_AT = 7, 11, 26, 67


def filled(config: LogConfig = CONFIG) -> SegmentLog:
    """Forty batches in several segments, all of it on the disk."""
    log = open_log(SimulatedFiles(), Recovery(), config)
    for index in range(40):
        log.append(batch(index), leader_epoch=index // 10)
    log.flush_now(closing=True)
    return log


def disk_of(log: SegmentLog) -> SimulatedFiles:
    assert isinstance(log.files, SimulatedFiles)
    return log.files


def scrubbed(log: SegmentLog) -> list[LogDamaged]:
    found: list[LogDamaged] = []
    finish(log.scrub(Scrub(found.append)))
    return found


def walked(steps: Steps[None]) -> int:
    """In how many steps it goes to its end."""
    count = 0
    for step in steps:
        count += 1
        if step is not None:
            step()
    return count


def test_the_loop_neither_reads_nor_sums_up() -> None:
    """All but the ends of segments, which are looked at once, is read where a step says that it blocks."""
    log = filled()
    finish(log.scrub(Scrub(lambda _: None)))
    files, on_the_loop = disk_of(log), list[str]()
    steps = log.scrub(work := Scrub(lambda _: pytest.fail("there is no damage")))
    while True:
        files.fault = lambda operation, path: on_the_loop.append(f"{operation} {path}")
        step = next(steps, None)
        files.fault = None
        if step is None:
            break
        step()
    assert on_the_loop == [] and work.read_bytes == sum(segment.size_bytes for segment in log.segments[:-1])


def test_a_file_deleted_during_a_read_is_no_failure() -> None:
    log = filled()
    steps = log.scrub(Scrub(lambda _: pytest.fail("what is gone is not damaged")))
    next(steps)
    log.remove_oldest(1)
    step = steps.throw(FileNotFoundError("it was unlinked"))
    assert step is not None
    with pytest.raises(OSError, match="bad sector"):
        steps.throw(OSError("bad sector"))


def size_of_batch(log: SegmentLog, index: int = 1) -> int:
    return log.segments[index].size_bytes // (log.segments[index + 1].base_offset - log.segments[index].base_offset)


def test_sound_logs_are_not_damaged() -> None:
    log = filled()
    work = Scrub(lambda _: pytest.fail("there is no damage"))
    finish(log.scrub(work))
    assert work.read_bytes == sum(segment.size_bytes for segment in log.segments[:-1]) > 0


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_batch_is_refused_and_all_others_are_read(which: int) -> None:
    log = filled()
    segment = log.segments[1]
    disk_of(log).damage(segment.path + ".log", which * size_of_batch(log) + VALUE_AT)
    (damaged,) = scrubbed(log)
    offset = segment.base_offset + which
    assert (damaged.offset, damaged.next_offset) == (offset, offset + 1)
    assert scrubbed(log) == [damaged]  # the same: it is named once
    found, refused = readable(log)
    assert refused == [offset] and found == [one for one in range(40) if one != offset]


@pytest.mark.parametrize("to_send", [False, True])
def test_a_large_read_ends_before_the_damage(to_send: bool) -> None:
    log = filled()
    segment = log.segments[1]
    disk_of(log).damage(segment.path + ".log", size_of_batch(log) + VALUE_AT)
    scrubbed(log)
    part = log.read_slice(0, 1 << 20, end_offset=log.end_offset, to_send=to_send)
    assert part.next_offset == segment.base_offset + 1
    with pytest.raises(LogDamaged, match="checksum"):
        log.read_slice(part.next_offset, 1 << 20, end_offset=log.end_offset, to_send=to_send)


@pytest.mark.parametrize("field", [OFFSET_AT - 3, LENGTH_AT, LENGTH_AT - 2, DELTA_AT, DELTA_AT - 3, 16])
def test_damaged_headers_never_let_a_record_vanish(field: int) -> None:
    """Each offset is read, or refused; what is not sound is refused."""
    log = filled()
    segment = log.segments[1]
    disk_of(log).damage(segment.path + ".log", size_of_batch(log) + field)
    assert scrubbed(log)
    found, refused = readable(log)
    assert sorted({*found, *refused}) == list(range(40))
    assert segment.base_offset + 1 in refused
    assert set(range(segment.base_offset + 1)) <= set(found)
    assert set(range(log.segments[2].base_offset, 40)) <= set(found)


def test_a_large_batch_is_looked_at_piece_by_piece() -> None:
    log = filled(LogConfig(segment_bytes=READ_BYTES))
    files = disk_of(log)
    log.append(batch(1, value=b"v" * 3 * READ_BYTES), leader_epoch=0)
    log.append(batch(1), leader_epoch=0)
    log.flush_now(closing=True)
    large = log.segments[-2]
    steps = log.scrub(Scrub(lambda _: pytest.fail("there is no damage")))
    assert walked(steps) >= large.size_bytes // READ_BYTES
    files.damage(large.path + ".log", large.size_bytes - 2)
    (damaged,) = scrubbed(log)
    assert (damaged.offset, damaged.next_offset) == (large.base_offset, log.segments[-1].base_offset)


@pytest.mark.parametrize("how", ["deleted", "given up"])
def test_it_gives_up_within_a_large_batch(how: str) -> None:
    log = open_log(SimulatedFiles(), Recovery(), LogConfig(segment_bytes=READ_BYTES))
    for value in (b"v" * 5 * READ_BYTES, b"v"):
        log.append(batch(1, value=value), leader_epoch=0)
    log.flush_now(closing=True)
    work = Scrub(lambda _: pytest.fail("what is gone is not damaged"))
    steps = log.scrub(work)
    for _ in range(2):
        step = next(steps)
        assert step is not None
        step()
    if how == "deleted":
        log.abandon()
    else:
        log.remove_oldest(1)
    read_bytes = work.read_bytes
    assert 0 < read_bytes < 5 * READ_BYTES
    assert walked(steps) == 0 and work.read_bytes == read_bytes


def test_damaged_neighbours_are_one_damage() -> None:
    """From where the first begins up to the next sound batch."""
    log = filled()
    segment = log.segments[1]
    for which in (1, 2):
        disk_of(log).damage(segment.path + ".log", which * size_of_batch(log) + VALUE_AT)
    (damaged,) = scrubbed(log)
    assert (damaged.offset, damaged.next_offset) == (segment.base_offset + 1, segment.base_offset + 3)
    assert readable(log)[1] == [segment.base_offset + 1, segment.base_offset + 2]


def test_unsynced_bytes_are_not_scrubbed() -> None:
    log = open_log(SimulatedFiles(), Recovery())
    for index in range(40):
        log.append(batch(index), leader_epoch=0)
    assert log.recovery_point == 0 and len(log.segments) > 2
    work = Scrub(lambda _: pytest.fail("nothing is known to be there"))
    finish(log.scrub(work))
    assert work.read_bytes == 0


def test_it_gives_up_when_the_log_is_deleted_under_it() -> None:
    log = filled()
    work = Scrub(lambda _: pytest.fail("a deleted log is not damaged"))
    steps = log.scrub(work)
    next(steps)
    log.abandon()
    read_bytes = work.read_bytes
    assert list(steps) == [] and work.read_bytes == read_bytes


def test_it_goes_on_where_retention_took_a_segment() -> None:
    log = filled()
    work = Scrub(lambda _: pytest.fail("what is gone is not damaged"))
    steps = log.scrub(work)
    next(steps)
    log.remove_oldest(2)
    assert walked(steps) and work.read_bytes > 0


@pytest.mark.parametrize("left", [-5, 10])
def test_a_file_that_is_too_short_is_damage(left: int) -> None:
    """Of its last batch all but the end is left, or little more than the beginning."""
    log = filled()
    segment = log.segments[1]
    segment.log.truncate(segment.size_bytes + (left if left < 0 else left - size_of_batch(log)))
    (damaged,) = scrubbed(log)
    end = log.segments[2].base_offset
    assert (damaged.offset, damaged.next_offset) == (end - 1, end)
    with pytest.raises(LogDamaged):
        log.read(end - 1, 1, end_offset=40)
    assert readable(log)[1] == [damaged.offset]


def test_a_missing_segment_is_not_passed_over() -> None:
    """A start looks at the last segment alone: a file that is gone in the middle is noticed by the scrub."""
    log = filled()
    gone, behind = log.segments[2], log.segments[3]
    disk_of(log).lose(gone.path + ".log")
    log.close()
    log = open_log(disk_of(log), Recovery(recovery_point=40, clean=True), CONFIG)
    (damaged,) = scrubbed(log)
    assert (damaged.offset, damaged.next_offset) == (gone.base_offset, behind.base_offset)
    found, refused = readable(log)
    lost = range(gone.base_offset, behind.base_offset)
    assert refused == list(lost) and found == [one for one in range(40) if one not in lost]
