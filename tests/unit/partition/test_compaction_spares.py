"""What compaction must not touch, lose or stumble over: damage, nonsense, bombs, topics that are deleted meanwhile."""

import struct
from dataclasses import replace

import pytest

from protocol.records import compression
from protocol.records.batch import HEADER, HEADER_SIZE, read_header, seal
from protocol.records.record import NewRecord, build_batch, records_of
from storage.cleaner.cleaning import DamagedSegment, Work, whole_batches
from storage.cleaner.compaction import compact, plan
from storage.cleaner.compactor import CHECKPOINT
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.steps import Spent, Steps, finish, never
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, Rig, plain
from tests.unit.partition.test_compaction import (
    COMPACTED,
    batches,
    compact_all,
    filled,
    latest,
    one_pass,
    opened,
    steps_done,
)


def log_of(rig: Rig) -> SegmentLog:
    assert isinstance(rig.log, SegmentLog)
    return rig.log


def damage(files: SimulatedFiles, rig: Rig, number: int, at: int) -> str:
    """One bit of a segment is no longer what it was; returns the path of the file."""
    path = log_of(rig).segments[number].path + ".log"
    file = files.open(path)
    (byte,) = file.read(at, 1)
    file.write_at(at, bytes([byte ^ 1]))
    return path


def contents(files: SimulatedFiles, path: str) -> bytes:
    file = files.open(path)
    return file.read(0, file.size())


@pytest.mark.parametrize("at", [9, HEADER_SIZE + 12, HEADER_SIZE - 1], ids=["a length", "a value", "a count"])
def test_a_damaged_segment_is_not_copied(at: int, caplog: pytest.LogCaptureFixture) -> None:
    """What lies behind the damage cannot be read, and would not be in the copy: the segment stays byte for byte, what
    is before it is compacted, and the broker's log says so once."""
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    path = damage(files, rig, 3, at)
    before, size_bytes = contents(files, path), log_of(rig).size_bytes
    assert compact_all(rig) and compact_all(rig)
    assert contents(files, path) == before
    assert log_of(rig).size_bytes < size_bytes
    warnings = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert len(warnings) == 1 and path in warnings[0]


def test_records_are_not_sealed_again_over_a_wrong_checksum() -> None:
    """A copy with a new checksum would make damage look sound."""
    files = SimulatedFiles()
    rig = opened(files)
    rig.produce(build_batch([NewRecord(b"superseded", b"k0", NOW_MS), NewRecord(b"only here", b"mine", NOW_MS)]))
    filled(rig, 40)
    damage(files, rig, 0, HEADER_SIZE + 12)
    assert compact_all(rig)
    (first, batch), *_ = batches(rig)
    assert first.records_count == 2 and b"only here" in batch


def beyond(timestamp_ms: int) -> bytes:
    """Two records whose times lie beyond 64 bits when they are added up; the first one's key is written again later."""
    records = [NewRecord(b"a", b"k0", NOW_MS), NewRecord(b"b", b"odd", NOW_MS + 40)]
    batch = bytearray(build_batch(records))
    header = read_header(batch)._replace(base_timestamp=timestamp_ms, max_timestamp=timestamp_ms)
    HEADER.pack_into(batch, 0, *header)
    seal(batch)
    return bytes(batch)


def test_timestamps_beyond_64_bits_do_not_end_compaction() -> None:
    """They go round, as a `long` of Java does, before compaction and after it."""
    rig = opened(SimulatedFiles())
    rig.log.append(beyond((1 << 63) - 1), leader_epoch=1)
    rig.partition.derived.producers.skip_to(2)
    filled(rig, 40)
    assert compact_all(rig)
    (left,) = [record for _, batch in batches(rig) for record in records_of(batch) if record.key == b"odd"]
    assert left.timestamp_ms == (1 << 63) - 1 + 40 - (1 << 64)
    assert left.value == b"b"


def test_indexes_of_a_compacted_segment_have_its_timestamps() -> None:
    """The record with the largest time was superseded: the largest is now another's (KIP-734)."""
    rig = opened(SimulatedFiles())
    rig.produce(build_batch([NewRecord(b"", b"k0", NOW_MS + 900), NewRecord(b"", b"mine", NOW_MS + 500)]))
    filled(rig, 40)
    rig.now_ms += 1_000
    assert compact_all(rig)
    assert log_of(rig).segments[0].largest_timestamp == (NOW_MS + 500, 1)
    found = finish(rig.log.max_timestamp())
    assert found is not None and (found.timestamp_ms, found.offset) == (NOW_MS + 500, 1)


def test_nonsense_supersedes_nothing_and_stays(caplog: pytest.LogCaptureFixture) -> None:
    rig = opened(SimulatedFiles())
    nonsense = bytearray(build_batch([NewRecord(b"value", b"k0", NOW_MS)] * 2))
    struct.pack_into(">i", nonsense, HEADER_SIZE - 4, 3)  # three records, it says
    struct.pack_into(">i", nonsense, 23, 2)
    seal(nonsense)
    rig.log.append(bytes(nonsense), leader_epoch=1)
    rig.partition.derived.producers.skip_to(rig.log.end_offset)
    filled(rig, 40)
    for _ in range(3):
        assert compact_all(rig)
        filled(rig)
    assert batches(rig)[0][1][HEADER_SIZE:] == bytes(nonsense)[HEADER_SIZE:]
    assert rig.partition.compactor is not None and rig.partition.compactor.unreadable_batches == 1
    assert len([record for record in caplog.records if "cannot read" in record.getMessage()]) == 1


def test_batches_that_cannot_be_read_are_reported_once_each_pass(caplog: pytest.LogCaptureFixture) -> None:
    rig = opened(SimulatedFiles())

    def nonsense() -> None:
        batch = bytearray(plain(b"v", key=b"a"))
        batch[HEADER_SIZE] = 0x7E  # the length of its record
        seal(batch)
        rig.log.append(bytes(batch), leader_epoch=1)
        rig.partition.derived.producers.skip_to(rig.log.end_offset)

    counts = []
    for count in (2, 1, 0):
        for _ in range(count):
            nonsense()
        if not count:
            rig.produce(plain(b"v", key=b"a"))
        log_of(rig).roll()
        rig.flush()
        assert compact_all(rig) and rig.partition.compactor is not None
        counts.append(rig.partition.compactor.unreadable_batches)
    assert counts == [2, 3, 3]
    said = [record.getMessage() for record in caplog.records if "cannot read the batch" in record.getMessage()]
    assert [line.partition(" at ")[2].partition(" ")[0] for line in said] == ["0", "2"]


def test_damage_is_said_with_its_place() -> None:
    """A segment without batches has none."""
    rig = opened(SimulatedFiles())
    assert [*whole_batches(log_of(rig).active)] == []
    for key in (b"a", b"b"):
        rig.produce(plain(b"v", key=key))
    log_of(rig).roll()
    segment, one = log_of(rig).segments[0], len(plain(b"v", key=b"a"))
    for position, at in ((one + HEADER_SIZE, one), (HEADER_SIZE, 0)):
        segment.log.write_at(position, b"\x7e")
        with pytest.raises(DamagedSegment, match=f"at byte {at} of {2 * one}$"):
            list(whole_batches(segment))


def nothing(*_: object) -> Steps[None]:
    yield None


@pytest.mark.parametrize("spent", [never, lambda: True])
def test_a_batch_of_more_keys_than_a_pass_remembers_stays(spent: Spent) -> None:
    """And supersedes nothing, however far it was looked at."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=1 << 20))
    rig.produce(plain(b"old", key=b"0"))
    rig.produce(build_batch([NewRecord(b"new", b"%d" % number, NOW_MS) for number in range(200)]))
    log_of(rig).roll()
    rig.flush()
    planned = finish(plan(log_of(rig), first_dirty_offset=1, last_stable_offset=201, now_ms=NOW_MS))
    work = Work(spent)
    assert planned is not None
    found = compact(
        log_of(rig),
        planned,
        aborted=[],
        last_batch_of=lambda _: None,
        now_ms=NOW_MS,
        work=work,
        before_swap=nothing,
        after_swap=nothing,
        max_keys=20,
    )
    assert finish(found).first_dirty_offset == 201
    assert [header.records_count for header, _ in batches(rig)] == [1, 200]
    assert [offset for offset, reason in work.unreadable if "20 keys" in reason] == [1]


def bomb(size_bytes: int) -> bytes:
    """A batch of one record of zeros."""
    return build_batch([NewRecord(bytes(size_bytes), b"bomb", NOW_MS)], compression=compression.ZSTD)


def test_a_bomb_is_not_opened_beyond_the_bounds() -> None:
    """More than may be decompressed: it stays as it is, and what is around it is compacted."""
    config = replace(COMPACTED, decompression=compression.Bounds(max_bytes=1 << 20, max_ratio=10))
    rig = opened(SimulatedFiles(), config=config)
    for size_bytes in (2 << 20, 1 << 19):
        rig.log.append(bomb(size_bytes), leader_epoch=1)
    rig.partition.derived.producers.skip_to(2)
    filled(rig, 40)
    before = len(batches(rig))
    assert compact_all(rig)
    assert rig.partition.compactor is not None and rig.partition.compactor.unreadable_batches == 1
    assert len(batches(rig)) < before and [header.records_count for header, _ in batches(rig)[:2]] == [1, 1]


@pytest.mark.parametrize(("value", "looks", "left"), [(b"", 3, 2_000), (None, 4, 1)])
def test_one_large_batch_is_worked_off_in_many_steps(value: bytes | None, looks: int, left: int) -> None:
    """The clock is read every few records, not only between batches; tombstones are looked at once more, to get their
    horizon."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=1 << 20))
    records = [NewRecord(value, b"%d" % number, NOW_MS) for number in range(2_000)]
    rig.produce(build_batch(records, compression=compression.ZSTD))
    rig.produce(plain(b"", key=b"0"))
    log_of(rig).roll()
    rig.flush()
    planned = finish(rig.partition.compaction_due(NOW_MS))
    assert planned is not None and rig.partition.compactor is not None
    breaths = 0
    for work in rig.partition.compactor.run(planned, NOW_MS, lambda: True):
        if work is None:
            breaths += 1
        else:
            work()
    assert breaths >= looks * (2_000 // 64)
    assert len(latest(rig)) == left


def test_the_active_segment_rolls_when_a_record_is_old() -> None:
    """KIP-354: with the next append, as in Kafka, and where none comes, with the next round."""
    config = replace(COMPACTED, max_compaction_lag_ms=1_000, segment_bytes=1 << 20)
    rig = opened(SimulatedFiles(), config=config)
    rig.produce(plain(b"old", key=b"k0"))
    rig.produce(plain(b"new", key=b"k0", timestamp_ms=NOW_MS + 1_001))
    assert len(log_of(rig).segments) == 2
    rig.flush()
    rig.now_ms = NOW_MS + 1_000 + 1_002
    assert compact_all(rig)
    assert [segment.size_bytes > 0 for segment in log_of(rig).segments] == [True, False]
    assert [record.value for _, batch in batches(rig) for record in records_of(batch)] == [b"new"]


# ------------------------------------------------------------------------------------------------ deleted meanwhile


@pytest.mark.parametrize("after", range(1, 40))
def test_a_topic_deleted_at_any_step_fails_nothing(after: int) -> None:
    """Its folder has another name then, and another topic may have its old one."""
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 60)
    steps = one_pass(rig, rig.now_ms)
    error: OSError | None = None
    seen = 0
    names: list[str] | None = None
    while True:
        try:
            step = steps.throw(error) if error is not None else next(steps)
        except StopIteration:
            break
        error, seen = None, seen + 1
        if seen == after:
            rig.partition.discard()
            files.rename("t-0", "t-0.0123-delete")
            files.make_folder("t-0")
            names = files.list("t-0")
        if step is not None:
            try:
                step()
            except OSError as failed:
                error = failed
    if names is None:
        assert files.exists(f"t-0/{CHECKPOINT}")
    else:
        assert files.list("t-0") == names == []


def test_the_checkpoint_is_closed_when_it_was_read() -> None:
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig)
    assert compact_all(rig)
    assert rig.partition.compactor is not None
    again = opened(files := files.kill())
    assert again.partition.compactor is not None
    assert again.partition.compactor.first_dirty_offset == rig.partition.compactor.first_dirty_offset > 0
    assert f"t-0/{CHECKPOINT}" not in +files.held


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.ZSTD])
def test_what_is_left_of_a_packed_batch_without_records_is_a_bare_header(codec: int) -> None:
    """As Kafka writes it: of no codec, since nothing is packed; and no later pass stumbles over it."""
    rig = opened(SimulatedFiles())
    gone = [NewRecord(b"v", b"k0", NOW_MS)]
    rig.produce(build_batch(gone, producer_id=9, producer_epoch=4, base_sequence=10, compression=codec))
    for _ in range(2):
        filled(rig)
        assert compact_all(rig)
        header, batch = batches(rig)[0]
        assert (header.producer_id, header.last_sequence, header.records_count) == (9, 10, 0)
        assert (header.attributes, batch[HEADER_SIZE:]) == (0, b"")


def test_a_segment_is_overdue_by_its_oldest_record() -> None:
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    assert steps_done(rig, NOW_MS)
    rig.partition.close()
    overdue = replace(COMPACTED, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10)
    again = opened(files, Recovery(clean=True), overdue)
    for _ in range(2):
        again.produce(plain(b"v" * 10, key=b"k0", timestamp_ms=NOW_MS + 9))
        again.produce(plain(b"v" * 300, key=b"k0", timestamp_ms=NOW_MS + 9))
    again.flush()
    assert not steps_done(again, NOW_MS + 10)
    assert steps_done(again, NOW_MS + 11)
