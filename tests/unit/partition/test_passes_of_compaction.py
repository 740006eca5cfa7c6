"""One pass of compaction, looked at closely: what it leaves alone, when it gives way, and how it ends early."""

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from protocol.records.record import NewRecord, build_batch
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.cleaner.cleaning import AT_ONCE_BYTES, Work
from storage.cleaner.compaction import Pass, compact, plan
from storage.log import LATEST_MS, StorageFailed
from storage.producers.aborted import AbortedTransaction
from storage.segment_log import SegmentLog
from storage.steps import NoLongerTrue, Spent, Steps, finish, never, while_true
from tests.harness.simulated_files import SimulatedFiles
from tests.unit.partition.rig import NOW_MS, Rig, plain
from tests.unit.partition.test_compaction import (
    COMPACTED,
    batches,
    compact_all,
    filled,
    keyed,
    latest,
    one_pass,
    opened,
)
from tests.unit.partition.test_compaction_spares import contents

ONE_SEGMENT = replace(COMPACTED, segment_bytes=1 << 20)


def log_of(rig: Rig) -> SegmentLog:
    assert isinstance(rig.log, SegmentLog)
    return rig.log


def nothing(*_: object) -> Steps[None]:
    yield None


def a_pass(
    rig: Rig,
    *,
    first_dirty_offset: int = 0,
    spent: Spent = never,
    max_keys: int = 100,
    before_swap: Callable[[], Steps[None]] = nothing,
) -> Steps[Pass]:
    """A pass over all that is rolled."""
    log = log_of(rig)
    last = log.segment_bases()[-1]
    planned = finish(plan(log, first_dirty_offset=first_dirty_offset, last_stable_offset=last, now_ms=NOW_MS))
    assert planned is not None
    return compact(
        log,
        planned,
        aborted=[],
        last_batch_of=lambda _: None,
        now_ms=NOW_MS,
        work=Work(spent),
        before_swap=before_swap,
        after_swap=nothing,
        max_keys=max_keys,
    )


def in_segments(rig: Rig, *segments: list[bytes]) -> None:
    """Each list of batches in a segment of its own; the last one is followed by the active one."""
    for data in segments:
        for one in data:
            rig.produce(one)
        log_of(rig).roll()
    rig.flush()


def of_keys(*keys: bytes) -> bytes:
    return build_batch([NewRecord(b"of " + key, key, NOW_MS) for key in keys])


def refuse(files: SimulatedFiles, operation: str, ending: str) -> None:
    files.fault = lambda what, path: (
        OSError(errno.EIO, "bad sector", path) if what == operation and path.endswith(ending) else None
    )


def test_a_segment_of_which_nothing_goes_is_left_alone() -> None:
    files = SimulatedFiles()
    rig = opened(files)
    in_segments(rig, [of_keys(b"a"), of_keys(b"b"), of_keys(b"c"), of_keys(b"d")])
    before, names = list(log_of(rig).segments), files.list("t-0")
    done = finish(a_pass(rig))
    assert (done.first_dirty_offset, done.segments_before, done.segments_after) == (4, 0, 0)
    assert log_of(rig).segments == before
    assert files.list("t-0") == names, "nothing that was being written is left"
    assert log_of(rig).replacement is None
    assert not [path for path in +files.held if path.endswith(".cleaned")]


def test_a_segment_from_which_whole_batches_go_is_replaced() -> None:
    """Also where those that stay are as they were."""
    rig = opened(SimulatedFiles())
    in_segments(rig, [of_keys(b"a"), of_keys(b"b"), of_keys(b"a"), of_keys(b"c")])
    done = finish(a_pass(rig))
    assert (done.segments_before, done.segments_after) == (1, 1)
    assert done.bytes_after < done.bytes_before
    assert [header.base_offset for header, _ in batches(rig)] == [1, 2, 3]
    assert log_of(rig).replacement is None


def test_snapshots_stay_where_segments_are_replaced() -> None:
    """They are of offsets, not of files; those that must not stay are forgotten before."""
    files = SimulatedFiles()
    rig = opened(files)
    in_segments(rig, [of_keys(b"a"), of_keys(b"a"), of_keys(b"b")])
    snapshot = f"t-0/{0:020d}.snapshot"
    files.write_whole(snapshot, b"of producers")
    finish(a_pass(rig))
    assert contents(files, snapshot) == b"of producers" and not files.exists(f"{snapshot}.deleted")


def test_records_without_a_key_go() -> None:
    """They were written before the topic was compacted."""
    rig = opened(SimulatedFiles())
    rig.log.append(plain(b"of nobody") + of_keys(b"a") + of_keys(b"b"), leader_epoch=1)
    rig.partition.derived.producers.skip_to(3)
    in_segments(rig, [])
    finish(a_pass(rig))
    assert [header.base_offset for header, _ in batches(rig)] == [1, 2]


def test_a_pass_ends_where_its_keys_are_full() -> None:
    """What would still fit is behind what did not: the next pass begins before both."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=200))
    in_segments(rig, [of_keys(b"a", b"b")], [of_keys(b"c", b"d")], [of_keys(b"e")])
    assert finish(a_pass(rig, max_keys=3)).first_dirty_offset == 2
    assert finish(a_pass(rig, max_keys=4)).first_dirty_offset == 4
    assert finish(a_pass(rig, max_keys=5)).first_dirty_offset == 5


@pytest.mark.parametrize(("timestamp_ms", "rolls"), [(-1, False), (0, True), (1, True)])
def test_the_active_segment_rolls_for_the_longest_lag_where_its_time_is_known(timestamp_ms: int, rolls: bool) -> None:
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, max_compaction_lag_ms=1_000))
    rig.produce(plain(b"v", key=b"a", timestamp_ms=timestamp_ms))
    rig.flush()
    assert (finish(rig.partition.compaction_due(NOW_MS)) is not None) is rolls
    assert log_of(rig).segment_bases() == [0, 1][: 1 + rolls]


def test_what_lies_behind_full_keys_is_left_alone() -> None:
    """Also what its segment would lose without any key."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=200))
    in_segments(rig, [of_keys(b"a")], [of_keys(b"a")], [of_keys(b"b", b"c")], [plain(b"x", key=b"d")])
    before = log_of(rig).segment_bases()
    done = finish(a_pass(rig, max_keys=2))
    assert (done.first_dirty_offset, done.segments_before, done.segments_after) == (2, 2, 1)
    assert log_of(rig).segment_bases() == [0, *before[2:]]


@pytest.mark.parametrize(("ratio", "is_due"), [(0.0, True), (0.5, True), (0.51, False), (1.0, False)])
def test_a_pass_is_due_from_a_share_of_dirty_bytes_on(ratio: float, is_due: bool) -> None:
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, min_cleanable_dirty_ratio=ratio))
    in_segments(rig, [of_keys(b"a")], [of_keys(b"b")])
    assert (finish(plan(log_of(rig), first_dirty_offset=1, last_stable_offset=2, now_ms=NOW_MS)) is not None) is is_due
    assert finish(plan(log_of(rig), first_dirty_offset=2, last_stable_offset=2, now_ms=NOW_MS)) is None


@pytest.mark.parametrize(("age_ms", "is_due"), [(999, False), (1_000, False), (1_001, True)])
def test_a_pass_is_due_once_a_record_is_older_than_the_longest_lag(age_ms: int, is_due: bool) -> None:
    """KIP-354; for its sake the active segment is rolled."""
    config = replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1_000)
    rig = opened(SimulatedFiles(), config=config)
    in_segments(rig, [of_keys(b"a")])
    rig.produce(of_keys(b"a"))
    rig.flush()
    assert finish(plan(log_of(rig), first_dirty_offset=0, last_stable_offset=2, now_ms=NOW_MS)) is not None
    steps = plan(log_of(rig), first_dirty_offset=1, last_stable_offset=2, now_ms=NOW_MS + age_ms)
    assert finish(steps) is None, "the active one is not compacted"
    planned = finish(rig.partition.compaction_due(NOW_MS + age_ms))
    assert planned is not None and len(planned.segments) == 1 + is_due
    assert log_of(rig).segment_bases() == [0, 1, *([2] if is_due else [])]


def test_transactions_that_were_aborted_side_by_side_are_known_from_their_first_records() -> None:
    """Entries are in the order of the markers, and those that end first may have begun last."""
    entries = [AbortedTransaction(2, 1, 4, 0), AbortedTransaction(1, 0, 5, 6)]
    transactions = CleanedTransactions(entries)
    rig = opened(SimulatedFiles())
    rig.transact(keyed(1, 0, 0, b"a", b"", transactional=True))
    rig.transact(keyed(2, 0, 0, b"b", b"", transactional=True))
    rig.transact(keyed(3, 0, 0, b"c", b"", transactional=True))
    rig.log.flush_now()
    assert [transactions.data_seen(header) for header, _ in batches(rig)] == [True, True, False]


def test_work_gives_way_by_bytes_and_by_time() -> None:
    work = Work(never)
    assert not work.moved(AT_ONCE_BYTES - 1)
    assert work.moved(1)
    assert not work.moved(AT_ONCE_BYTES - 1)
    assert work.moved_bytes == 2 * AT_ONCE_BYTES - 1
    assert Work(lambda: True).moved(1)


def test_a_pass_whose_segments_go_while_it_reads_their_keys_does_nothing() -> None:
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, segment_bytes=100))
    for key in (b"a", b"a", b"b", b"a", b"b"):
        rig.produce(of_keys(key))
    assert log_of(rig).segment_bases() == [0, 1, 2, 3, 4]
    steps = a_pass(rig, spent=lambda: True)
    next(steps)
    log_of(rig).truncate(2)
    done = finish(steps)
    assert (done.segments_before, done.first_dirty_offset) == (0, 0)


def test_a_pass_ends_before_damage_that_it_meets_while_it_copies() -> None:
    """Of a part whose keys an earlier pass has seen to; what lies behind stays, for it may be the end of a
    transaction."""
    files = SimulatedFiles()
    rig = opened(files, config=replace(COMPACTED, segment_bytes=100))
    in_segments(rig, [of_keys(b"a")], [of_keys(b"b")], [of_keys(b"a"), of_keys(b"a")])
    damaged = log_of(rig).segments[1]
    damaged.log.write_at(damaged.size_bytes - 1, b"\xff")
    done = finish(a_pass(rig, first_dirty_offset=2))
    assert done.damaged is not None and done.damaged.segment is damaged
    assert done.first_dirty_offset == 2
    assert [header.base_offset for header, _ in batches(rig)][-2:] == [2, 3]


def test_a_pass_ends_before_damage_that_it_meets_while_it_reads_keys() -> None:
    """What lies before it is compacted by the keys that were read, and the next pass begins behind them."""
    rig = opened(SimulatedFiles())
    in_segments(rig, [of_keys(b"a")], [of_keys(b"a")], [of_keys(b"a")], [of_keys(b"a")])
    damaged = log_of(rig).segments[2]
    damaged.log.write_at(damaged.size_bytes - 1, b"\xff")
    done = finish(a_pass(rig))
    assert done.damaged is not None and done.damaged.segment is damaged
    assert (done.first_dirty_offset, done.segments_before, done.segments_after) == (2, 2, 1)
    assert (done.bytes_before, done.bytes_after) == (2 * len(of_keys(b"a")), len(of_keys(b"a")))
    assert [header.base_offset for header, _ in batches(rig)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("operation", "name"),
    [("append", ".log.cleaned"), ("sync", ".log.cleaned"), ("sync_folder", "t-0")],
)
def test_a_pass_that_fails_leaves_the_segments_as_they_were(operation: str, name: str) -> None:
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    before, known = list(log_of(rig).segments), latest(rig)
    refuse(files, operation, name)
    failure: list[StorageFailed] = []  # kept, as a process that is to end keeps it: what it holds is not freed
    try:
        finish(one_pass(rig, rig.now_ms))
    except StorageFailed as failed:
        failure.append(failed)
    assert failure and "bad sector" in str(failure[0])
    files.fault = None
    assert log_of(rig).segments[: len(before)] == before and latest(rig) == known
    assert log_of(rig).replacement is None and not log_of(rig).is_flushing
    assert not [path for path in +files.held if path.endswith((".cleaned", ".swap"))]
    assert not [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap"))]
    assert finish(rig.partition.compaction_due(rig.now_ms)) is not None, "it is not under way any more"
    assert compact_all(rig) and latest(rig) == known


def test_a_replacement_that_cannot_be_deleted_is_none_any_more() -> None:
    """Retention would give up its files with the segments, and the disk has just refused that."""
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    files.fault = lambda operation, _: OSError("bad sector") if operation in ("sync_folder", "delete") else None
    with pytest.raises(StorageFailed, match="bad sector"):
        finish(one_pass(rig, rig.now_ms))
    assert log_of(rig).replacement is None


@pytest.mark.parametrize("name", [".log", ".log.swap", ".txnindex.swap"])
def test_a_replacement_that_cannot_take_its_place_ends_the_log(name: str) -> None:
    """What it was made from is gone: nobody may read on as if those offsets had never been. The next start has them."""
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    known = latest(rig)
    planned = finish(rig.partition.compaction_due(rig.now_ms))
    assert planned is not None and rig.partition.compactor is not None
    steps = rig.partition.compactor.run(planned, rig.now_ms)
    refuse(files, "rename", name)
    with pytest.raises(StorageFailed, match="bad sector"):
        finish(steps)
    assert log_of(rig).failed
    assert latest(opened(files.kill())) == known


def test_only_one_pass_is_under_way() -> None:
    rig = opened(SimulatedFiles())
    filled(rig, 40)
    steps = one_pass(rig, rig.now_ms)
    next(steps)
    assert finish(rig.partition.compaction_due(rig.now_ms)) is None
    steps.close()
    assert finish(rig.partition.compaction_due(rig.now_ms)) is not None


def test_what_precedes_a_replacement_is_closed_where_it_fails() -> None:
    """What it has borrowed is given back, however long the error is kept."""
    rig = opened(SimulatedFiles())
    in_segments(rig, [of_keys(b"a"), of_keys(b"a")])
    borrowed = 0

    def refused() -> None:
        raise OSError(errno.EIO, "bad sector")

    def before_swap() -> Steps[None]:
        nonlocal borrowed
        borrowed += 1
        try:
            yield nothing_to_do
            yield refused
        except GeneratorExit:
            borrowed -= 1
            raise

    steps = a_pass(rig, before_swap=before_swap)
    kept: list[OSError] = []
    for step in steps:
        if step is refused:
            break
    assert borrowed == 1
    try:
        steps.throw(OSError(errno.EIO, "bad sector"))
    except OSError as error:
        kept.append(error)
    assert kept and borrowed == 0


def nothing_to_do() -> None:
    """Work on another thread that is done at once."""


@pytest.mark.parametrize("holds", [lambda: True, lambda: False])
def test_steps_that_end_early_are_closed_at_once(holds: Callable[[], bool]) -> None:
    """Not when somebody throws the error away."""
    closed: list[bool] = []

    def steps() -> Steps[None]:
        try:
            yield None
            yield None
        finally:
            closed.append(True)

    kept: list[Exception] = []
    guarded = while_true(steps(), holds)
    next(guarded)
    try:
        guarded.throw(OSError()) if holds() else next(guarded)
    except (OSError, NoLongerTrue) as error:
        kept.append(error)
    assert kept and closed == [True]


def test_a_record_of_the_future_keeps_nothing_behind_it_from_being_compacted() -> None:
    """As in Kafka, timestamps are looked at only where min.compaction.lag.ms asks for it."""
    rig = opened(SimulatedFiles())
    ahead = plain(b"ahead", key=b"ahead", timestamp_ms=NOW_MS + 1_800_000)
    in_segments(rig, [ahead], [of_keys(b"a", b"b")], [of_keys(b"a", b"b")])
    assert compact_all(rig)
    assert [seen.key for seen in rig.consume(0)] == [b"ahead", b"a", b"b"]
    lagging = opened(SimulatedFiles(), config=replace(COMPACTED, min_compaction_lag_ms=1))
    in_segments(lagging, [of_keys(b"a")], [of_keys(b"a")], [ahead], [of_keys(b"a")])
    lagging.now_ms += 2
    assert compact_all(lagging)
    assert [seen.key for seen in lagging.consume(0)] == [b"a", b"ahead", b"a"]


def test_tombstones_that_stay_for_ever_are_compacted_like_others() -> None:
    """The largest delete.retention.ms: a horizon that no batch can say would end each pass."""
    rig = opened(SimulatedFiles(), config=replace(COMPACTED, delete_retention_ms=LATEST_MS))
    gone = build_batch([NewRecord(None, b"gone", NOW_MS)])
    in_segments(rig, [plain(b"value", key=b"gone")], [gone], [of_keys(b"a")])
    for _ in range(2):
        assert compact_all(rig)
        in_segments(rig, [of_keys(b"a")])
        rig.now_ms += 1_000
    assert latest(rig) == {b"a": b"of a"}
    assert next((seen.key, seen.value) for seen in rig.consume(0)) == (b"gone", None)
    assert [header.base_timestamp for header, _ in batches(rig) if header.has_delete_horizon] == [LATEST_MS]
