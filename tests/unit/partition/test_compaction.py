"""Compaction keeps what a reader is owed and what recovery needs. Cites I34."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.topic_config import TopicConfig
from broker.partitions.derived import marker_in
from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader, headers_in
from protocol.records.record import NewRecord, build_batch, records_of
from storage.cleaner.cleaning import Work
from storage.cleaner.compaction import compact, plan
from storage.log import LogConfig, StorageFailed
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_state import ProducerState
from storage.recovery import Recovery
from storage.retention import enforce_retention
from storage.segment_log import SegmentLog
from storage.steps import Steps, finish, never
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import KILLED, NOW_MS, Rig, idempotent, on_disk, plain

COMPACTED = LogConfig(
    segment_bytes=500,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    cleanup_delete=False,
    cleanup_compact=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
)


def opened(files: SimulatedFiles, recovery: Recovery = KILLED, config: LogConfig = COMPACTED) -> Rig:
    return on_disk(files, config=config, recovery=recovery)


def one_pass(rig: Rig, now_ms: int) -> Steps[None]:
    """The steps of a pass, where one is due."""
    planned = finish(rig.partition.compaction_due(now_ms))
    if planned is not None:
        assert rig.partition.compactor is not None
        yield from rig.partition.compactor.run(planned, now_ms)


def steps_done(rig: Rig, now_ms: int) -> int:
    """Run one pass; how many steps it had."""
    count = 0
    for work in one_pass(rig, now_ms):
        count += 1
        if work is not None:
            work()
    return count


def compact_all(rig: Rig, *, steps: int = 1 << 30) -> bool:
    """Run one pass, or its first steps; True when it came to its end."""
    for work in one_pass(rig, rig.now_ms):
        if work is not None:
            work()
        steps -= 1
        if steps <= 0:
            return False
    return True


def latest(rig: Rig) -> dict[bytes | None, bytes]:
    """The newest committed value of every key; a tombstone is as good as nothing."""
    values = {seen.key: seen.value for seen in rig.consume(rig.partition.log_start_offset)}
    return {key: value for key, value in values.items() if value is not None}


def batches(rig: Rig) -> list[tuple[BatchHeader, bytes]]:
    log = rig.log
    data = b"".join(bytes(part) for part in log.read(log.start_offset, 1 << 30, end_offset=log.end_offset))
    return [(header, data[at : at + header.size]) for at, header in headers_in(data)]


def sequences(rig: Rig) -> dict[int, tuple[int, int]]:
    """Epoch and last sequence of every producer, from the log alone."""
    state = ProducerState()
    assert isinstance(rig.log, SegmentLog)
    for header, batch in rig.log.replay(0):
        state.replay(header, marker_in(header, batch) if batch is not None else None, NOW_MS)
    entries = {producer_id: ProducerEntry.unpack(packed) for producer_id, packed in state.packed_entries().items()}
    return {producer_id: (entry.epoch, entry.last_sequence) for producer_id, entry in entries.items()}


def keyed(
    producer_id: int, epoch: int, sequence: int, key: bytes, value: bytes | None, *, transactional: bool
) -> bytes:
    return build_batch(
        [NewRecord(value, key, NOW_MS)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


class Writers:
    """Random producers over few keys, some of them transactional."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def write(self, rig: Rig) -> None:
        random, producers = self.random, rig.partition.derived.producers
        producer_id = random.randrange(1, 6)
        entry = producers.entry(producer_id)
        epoch, sequence = (0, 0) if entry is None else (entry.epoch, entry.last_sequence + 1)
        is_open = entry is not None and entry.transaction_first_offset >= 0
        if is_open and random.random() < 0.5:
            version = random.choice([0, 2])
            rig.end(producer_id, epoch + (version == 2), commit=random.random() < 0.5, version=version)
            return
        self.count += 1
        value = None if random.random() < 0.2 else b"%d" % self.count
        key = b"key-%d" % random.randrange(8) + b"!" * random.choice([0, 30])
        transactional = is_open or producer_id < 4
        batch = keyed(producer_id, epoch, sequence, key, value, transactional=transactional)
        rig.produce(batch, transactional_id="tx")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30))
def test_passes_and_crashes_do_not_change_what_readers_get(seed: int) -> None:
    """I34: the newest committed values stay, markers outlive their data, nothing at or behind the last stable offset is
    touched, and the log alone still has every producer's epoch and last sequence."""
    random = Random(seed)
    files = SimulatedFiles()
    rig, writers = opened(files), Writers(random)
    for _ in range(6):
        for _ in range(random.randrange(30)):
            writers.write(rig)
        rig.flush()
        expected, known, stable = latest(rig), sequences(rig), rig.partition.last_stable_offset
        undecided = [entry for entry in batches(rig) if entry[0].base_offset >= stable]
        rig.now_ms += random.choice([0, 2_000])
        fate = random.randrange(4)
        finished = compact_all(rig, steps=random.randrange(1, 14) if fate else 1 << 30)
        if not finished or fate == 1:
            now_ms = rig.now_ms
            recovery_point = rig.log.recovery_point  # type: ignore[attr-defined]
            files = files.crash(random) if fate == 2 else files.kill()
            rig = opened(files, Recovery(recovery_point=recovery_point) if fate == 2 else KILLED)
            rig.now_ms = now_ms
        assert latest(rig) == expected
        assert [entry for entry in batches(rig) if entry[0].base_offset >= stable] == undecided
        assert sequences(rig) == known
        check_transactions(rig)


def check_transactions(rig: Rig) -> None:
    """Every transaction with data left has its marker left, unless it is still open."""
    waiting: dict[int, int] = {}
    for header, _ in batches(rig):
        if header.is_control:
            waiting.pop(header.producer_id, None)
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, header.base_offset)
    assert sorted(waiting) == sorted(rig.partition.derived.producers._ongoing.values())


def filled(rig: Rig, rounds: int = 12) -> None:
    for number in range(rounds):
        rig.produce(plain(b"%d" % number * 20, key=b"k%d" % (number % 2)))
    rig.flush()


def test_the_active_segment_and_the_undecided_part_are_left_alone() -> None:
    """KAFKA-13194."""
    rig = opened(SimulatedFiles())
    rig.produce(idempotent(9, 0, 0, transactional=True, key=b"open"), transactional_id="x")
    filled(rig)
    assert isinstance(rig.log, SegmentLog)
    assert finish(plan(rig.log, first_dirty_offset=0, last_stable_offset=0, now_ms=NOW_MS)) is None
    before = batches(rig)
    assert compact_all(rig) and batches(rig) == before
    rig.end(9, 1, commit=True)
    rig.flush()
    active = rig.log.segments[-1].base_offset  # type: ignore[attr-defined]
    assert compact_all(rig)
    after = batches(rig)
    assert len(after) < len(before)
    assert [entry for entry in before if entry[0].base_offset >= active] == [
        entry for entry in after if active <= entry[0].base_offset < before[-1][0].next_offset
    ]


def test_a_tombstone_stays_for_its_time() -> None:
    """KIP-534: the first pass that meets it stamps its horizon; it goes in a pass after that, not before."""
    rig = opened(SimulatedFiles())

    def another_round() -> list[bytes | None]:
        filled(rig)
        assert compact_all(rig)
        return [record.value for _, batch in batches(rig) for record in records_of(batch) if record.key == b"gone"]

    rig.produce(plain(b"value", key=b"gone"))
    rig.produce(keyed(-1, -1, -1, b"gone", None, transactional=False))
    assert another_round() == [None]
    stamped = [header for header, _ in batches(rig) if header.has_delete_horizon]
    assert [header.base_timestamp for header in stamped] == [NOW_MS + 1_000]
    rig.now_ms += 999
    assert another_round() == [None]
    rig.now_ms += 1
    assert another_round() == []


def test_a_marker_goes_only_after_its_data_and_its_time() -> None:
    """The data of an aborted transaction goes at once, its marker two passes later; of the fenced producer the last
    marker stays for as long as it is known (KAFKA-8335)."""
    rig = opened(SimulatedFiles())

    def another_round() -> tuple[int, int, int]:
        filled(rig)
        assert compact_all(rig)
        rig.now_ms += 1_000
        found = [header for header, _ in batches(rig) if header.producer_id == 9]
        controls = [header for header in found if header.is_control]
        entries = len(rig.partition.derived.aborted.collect(0, 1 << 40))
        return len(found) - len(controls), len(controls), entries

    rig.produce(idempotent(9, 0, 0, transactional=True, key=b"a"), transactional_id="x")
    rig.end(9, 1, commit=False)
    rig.produce(idempotent(9, 1, 0, transactional=True, key=b"b"), transactional_id="x")
    rig.end(9, 1 + 1, commit=True)
    assert another_round() == (1, 2, 1)
    assert another_round() == (1, 2, 0)
    assert another_round() == (1, 1, 0)
    rig.produce(idempotent(8, 0, 0, key=b"b"))
    assert another_round() == (0, 1, 0)
    for _ in range(3):
        assert another_round() == (0, 1, 0)
    assert sequences(rig)[9] == (2, -1)


def test_a_producers_last_batch_stays_at_least_as_a_header() -> None:
    """KAFKA-8335: its records are superseded, its last sequence is not; a restart without any snapshot still knows."""
    files = SimulatedFiles()
    rig = opened(files)
    rig.produce(idempotent(9, 4, 10, 3, key=b"k0"))
    filled(rig)
    assert compact_all(rig)
    (left,) = [header for header, _ in batches(rig) if header.producer_id == 9]
    assert (left.records_count, left.last_sequence, left.last_offset) == (0, 12, 2)
    found = files.kill()
    for name in found.list("t-0"):
        if name.endswith(".snapshot"):
            found.delete(f"t-0/{name}")
    again = opened(found)
    assert again.produce(idempotent(9, 4, 10, 3, key=b"k0")).base_offset == 0
    assert again.produce(idempotent(9, 4, 13, key=b"k0")).base_offset == rig.partition.end_offset


def test_the_last_marker_of_a_producer_keeps_its_coordinator_epoch() -> None:
    """I28: an older coordinator is refused after compaction, too, and after a restart that has only the log."""
    files = SimulatedFiles()
    rig = opened(files)
    rig.produce(idempotent(9, 1, 0, transactional=True, key=b"k0"), transactional_id="x")
    rig.end(9, 2, commit=True, coordinator_epoch=7)
    for _ in range(4):
        filled(rig)
        assert compact_all(rig)
        rig.now_ms += 5_000
    found = files.kill()
    for name in found.list("t-0"):
        if name.endswith((".snapshot", ".producers")):
            found.delete(f"t-0/{name}")
    again = opened(found)
    assert again.marker_error(9, 2, coordinator_epoch=6) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    again.end(9, 2, commit=True, coordinator_epoch=7)


def test_small_neighbours_become_one_segment() -> None:
    rig = opened(SimulatedFiles())
    filled(rig, 60)
    before = len(rig.log.segments)  # type: ignore[attr-defined]
    assert compact_all(rig)
    filled(rig, 6)
    assert compact_all(rig)
    assert len(rig.log.segments) < before / 2  # type: ignore[attr-defined]
    assert len(latest(rig)) == 2


def test_nothing_is_read_again_before_enough_is_dirty() -> None:
    files = SimulatedFiles()
    rig = opened(files, config=replace(COMPACTED, min_cleanable_dirty_ratio=0.5))
    filled(rig, 40)
    assert steps_done(rig, NOW_MS)
    rig.partition.close()
    again = opened(files, Recovery(clean=True), replace(COMPACTED, min_cleanable_dirty_ratio=0.9))
    again.produce(plain(b"v" * 200, key=b"k0"))
    again.produce(plain(b"v" * 200, key=b"k0"))
    again.flush()
    assert not steps_done(again, NOW_MS)
    overdue = replace(COMPACTED, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10)
    again.partition.configure(TopicConfig(log=overdue))
    assert steps_done(again, NOW_MS + 11)
    young = replace(COMPACTED, min_compaction_lag_ms=60_000)
    again.partition.configure(TopicConfig(log=young))
    filled(again, 40)
    assert not steps_done(again, NOW_MS + 11)


def test_a_full_map_leaves_the_rest_to_the_next_pass() -> None:
    rig = opened(SimulatedFiles())
    for number in range(30):
        rig.produce(plain(b"v" * 30, key=b"%d" % (number % 10)))
    rig.flush()
    log = rig.log
    assert isinstance(log, SegmentLog)
    first_dirty, passes = 0, 0
    expected = latest(rig)

    def nothing(*_: object) -> Steps[None]:
        yield None

    while planned := finish(plan(log, first_dirty_offset=first_dirty, last_stable_offset=30, now_ms=NOW_MS)):
        steps = compact(
            log,
            planned,
            aborted=[],
            last_batch_of=lambda _: None,
            now_ms=NOW_MS,
            work=Work(never),
            before_swap=nothing,
            after_swap=nothing,
            max_keys=4,
        )
        try:
            while True:
                work = next(steps)
                if work is not None:
                    work()
        except StopIteration as finished:
            assert finished.value.first_dirty_offset > first_dirty
            first_dirty = finished.value.first_dirty_offset
        passes += 1
        assert latest(rig) == expected
    assert passes > 3


def test_a_pass_gives_up_where_retention_was_faster() -> None:
    config = replace(COMPACTED, cleanup_delete=True, retention_bytes=600)
    files = SimulatedFiles()
    rig = opened(files, config=config)
    filled(rig, 40)
    steps = one_pass(rig, NOW_MS)
    assert next(steps) is not None
    assert isinstance(rig.log, SegmentLog)
    while enforce_retention(rig.log, NOW_MS, rig.partition.high_watermark):
        pass
    start = rig.partition.log_start_offset
    assert start > 0
    for work in steps:
        assert work is None
    assert not [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap"))]
    assert batches(rig)[0][0].base_offset == start


def test_a_disk_error_ends_the_pass_and_keeps_the_log() -> None:
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    expected = latest(rig)
    files.fault = lambda operation, path: OSError(28, "full") if operation == "append" and "cleaned" in path else None
    with pytest.raises(StorageFailed):
        compact_all(rig)
    assert latest(opened(files.kill())) == expected


@pytest.mark.parametrize("nth", range(1, 14))
def test_a_disk_that_refuses_a_rename_loses_nothing(nth: int) -> None:
    """A replacement that stands ready stays, once those it was made from begin to go: it may be the only copy (I34)."""
    files = SimulatedFiles()
    rig = opened(files)
    rig.produce(plain(b"kept", key=b"in the first segment only"))
    filled(rig, 40)
    expected = latest(rig)
    renames = 0

    def fails(operation: str, path: str) -> OSError | None:
        nonlocal renames
        renames += operation == "rename"
        return OSError(5, "no") if operation == "rename" and renames == nth else None

    files.fault = fails
    with pytest.raises((StorageFailed, OSError)):
        compact_all(rig)
    files.fault = None
    assert latest(opened(files.kill())) == expected
