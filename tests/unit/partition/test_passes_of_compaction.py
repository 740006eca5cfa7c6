"""One pass of compaction, looked at closely: what it leaves alone, when it gives way, and how it ends early."""

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from protocol.records.record import NewRecord, build_batch
from storage.cleaner.cleaned_transactions import CleanedTransactions
from storage.cleaner.cleaning import AT_ONCE_BYTES, Work
from storage.cleaner.compaction import Pass, compact, plan
from storage.log import StorageFailed
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


@pytest.mark.parametrize(
    ("operation", "name"), [("rename", ".log"), ("rename", ".log.swap"), ("open", ".log"), ("open", ".index")]
)
def test_a_replacement_that_cannot_take_its_place_ends_the_log(operation: str, name: str) -> None:
    """What it was made from is gone: nobody may read on as if those offsets had never been. The next start has them."""
    files = SimulatedFiles()
    rig = opened(files)
    filled(rig, 40)
    known = latest(rig)
    planned = finish(rig.partition.compaction_due(rig.now_ms))
    assert planned is not None and rig.partition.compactor is not None
    steps = rig.partition.compactor.run(planned, rig.now_ms)
    refuse(files, operation, name)
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
