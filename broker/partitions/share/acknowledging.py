"""What a member says of its records, and what the passing of time says of them.

A change is staged, written, and then either completed or taken back; until it is written, nobody is handed its records.
What one request says of a partition is staged whole or not at all. A renewal is written nowhere.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from broker.partitions.share.in_flight import InFlightBatch, Run
from broker.partitions.share.states import STATE_AFTER, AcknowledgeType, RecordState, released
from broker.partitions.share.window import Window
from coordinator.share_state.port import StateBatch
from protocol.errors import ErrorCode
from storage.steps import Spent, Steps, never

_TYPES = list(AcknowledgeType)


class AcknowledgementRefused(Exception):
    """What a member says cannot be so. Nothing stays staged. `message` is what the client is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a member says of offsets `first` to `last`: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Until when renewed records are their member's; None where the group may not renew."""

    lock_until_ms: int | None


class Staged:
    """Changes that are being written. `batches` is what is to be kept of them."""

    def __init__(self, window: Window, most_deliveries: int) -> None:
        self._window = window
        self._most_deliveries = most_deliveries
        self._runs: list[Run] = []
        self.renewed: list[tuple[int, int]] = []
        """From where to where; their members have them for longer once all else is staged."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def stage(self, run: Run, state: RecordState) -> None:
        assert run.state is RecordState.ACQUIRED
        assert run.target is None
        run.target = released(run.delivery_count, self._most_deliveries) if state is RecordState.AVAILABLE else state
        self._runs.append(run)

    def batches(self) -> list[StateBatch]:
        """In the order of offsets; neighbours that do not differ are one."""
        made: list[StateBatch] = []
        for run in self._runs:
            assert run.target is not None
            state, count = int(run.target), run.delivery_count
            last = made[-1] if made else None
            if (
                last is not None
                and last.last_offset + 1 == run.first
                and (last.delivery_state, last.delivery_count) == (state, count)
            ):
                made[-1] = StateBatch(last.first_offset, run.last, state, count)
            else:
                made.append(StateBatch(run.first, run.last, state, count))
        return made

    def complete(self, spent: Spent = never) -> Steps[None]:
        """It is written; in steps."""
        for run in self._runs:
            assert run.target is not None
            run.become(run.target)
            if spent():
                yield None
        yield from self._end(spent)

    def take_back(self, spent: Spent = never) -> Steps[None]:
        """It was not written: the records are their member's again, for as long as they were; in steps."""
        for run in self._runs:
            run.target = None
        yield from self._end(spent)

    def _end(self, spent: Spent) -> Steps[None]:
        at = -1
        for run in self._runs:
            if run.last > at:
                for batch in self._window.covering(run.first, run.last):
                    batch.join_runs()
                    at = batch.last
                if spent():
                    yield None
        self._window.forget_done()


def acknowledge(
    window: Window,
    member_id: str,
    said: Sequence[Acknowledgement],
    renewal: Renewal,
    most_deliveries: int,
    spent: Spent = never,
) -> Steps[Staged]:
    """Stage what a member says, in steps. Raises `AcknowledgementRefused`."""
    staged = Staged(window, most_deliveries)
    try:
        for one in said:
            if one.last >= window.start_offset:
                yield from _acknowledge_one(window, member_id, one, renewal, staged, spent)
    except AcknowledgementRefused:
        yield from staged.take_back(spent)
        raise
    if renewal.lock_until_ms is not None:
        for first, last in staged.renewed:
            _renew(window, member_id, first, last, renewal.lock_until_ms)
    return staged


def _renew(window: Window, member_id: str, first: int, last: int, lock_until_ms: int) -> None:
    for batch in window.covering(first, last):
        batch.cut_at((first, last + 1))
        for run in batch.within(first, last):
            if run.state is RecordState.ACQUIRED and run.target is None and run.member_id == member_id:
                run.lock_until_ms = lock_until_ms


def _acknowledge_one(
    window: Window, member_id: str, said: Acknowledgement, renewal: Renewal, staged: Staged, spent: Spent
) -> Steps[None]:
    _check_bounds(window, said)
    at = max(said.first, window.start_offset)
    pieces = _pieces(said, at)
    if renewal.lock_until_ms is None and any(kind is AcknowledgeType.RENEW for _, _, kind in pieces):
        raise _wrong_state("Renewing acquisition locks is not enabled for the group.")
    while at <= said.last:
        (batch,) = window.covering(at, at)
        last = min(batch.last, said.last)
        _check(batch, member_id, at, last)
        _stage(batch, at, last, pieces, staged)
        if spent():
            yield None
        at = max(last + 1, window.start_offset)


def _stage(
    batch: InFlightBatch,
    first: int,
    last: int,
    pieces: Sequence[tuple[int, int, AcknowledgeType]],
    staged: Staged,
) -> None:
    """Stage what is said of a part of a batch, which may be all of it."""
    begin = bisect_right(pieces, first, key=itemgetter(0)) - 1
    end = bisect_right(pieces, last, key=itemgetter(0))
    is_whole = first == batch.first and last == batch.last and end - begin == 1
    batch.in_parts = batch.in_parts or not is_whole
    batch.cut_at([max(first, pieces[begin][0]), *(piece[0] for piece in pieces[begin + 1 : end]), last + 1])
    position = begin
    for run in batch.within(first, last):
        while pieces[position][1] < run.first:
            position += 1
        kind = pieces[position][2]
        if kind is not AcknowledgeType.RENEW:
            staged.stage(run, STATE_AFTER[kind])
        else:
            staged.renewed.append((run.first, run.last))


def _check_bounds(window: Window, said: Acknowledgement) -> None:
    if not window.batches:
        raise _wrong_state("Batch record not found. The request batch offsets are not found in the cache.")
    if said.first >= window.next_offset:
        raise AcknowledgementRefused(
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The first offset in request is past acquired records.",
        )
    if said.last >= window.next_offset:
        raise AcknowledgementRefused(
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        )


def _check(batch: InFlightBatch, member_id: str, first: int, last: int) -> None:
    """Whether the member may say anything of these records."""
    for run in batch.within(first, last):
        if run.state is not RecordState.ACQUIRED:
            raise _wrong_state(NOT_ACQUIRED if batch.in_parts else NOT_ACQUIRED_BATCH)
        if run.target is not None:
            raise _wrong_state(BEING_WRITTEN)
        if run.member_id != member_id:
            raise _wrong_state(NOT_OWNER if batch.in_parts else NOT_OWNER_OF_BATCH)


NOT_ACQUIRED_BATCH = "The batch cannot be acknowledged. The batch is not in the acquired state."
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER_OF_BATCH = "Member is not the owner of batch record"
NOT_OWNER = "Member is not the owner of offset"
BEING_WRITTEN = "The record state is invalid. The acknowledgement of delivery could not be completed."


def _wrong_state(message: str) -> AcknowledgementRefused:
    return AcknowledgementRefused(ErrorCode.INVALID_RECORD_STATE, message)


def _pieces(said: Acknowledgement, offset: int) -> list[tuple[int, int, AcknowledgeType]]:
    """(first, last, type) of neighbours that are said the same of, from `offset` on: what lies before the window may be
    much more."""
    if len(said.types) == 1:
        return [(offset, said.last, AcknowledgeType(said.types[0]))]
    made: list[tuple[int, int, AcknowledgeType]] = []
    for kind, same in groupby(said.types[offset - said.first :]):
        count = len(list(same))
        made.append((offset, offset + count - 1, _TYPES[kind]))
        offset += count
    return made


def give_back(window: Window, is_given: Callable[[Run], bool], most_deliveries: int) -> Staged:
    """Stage that acquired records go back: those of a member that leaves, or whose time is over."""
    staged = Staged(window, most_deliveries)
    for run in window.runs():
        if run.state is RecordState.ACQUIRED and run.target is None and is_given(run):
            staged.stage(run, RecordState.AVAILABLE)
    return staged
