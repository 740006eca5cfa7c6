"""One share partition: its window, what is kept of it, and the locks of its members.

What a member says is written by the persister before it counts; what was handed out is not written. Records that are
being deleted are the group's until that is written, too: the next leader may find them there. Somebody else that
serves it, a new state epoch, or a persister that cannot be reached ends it: `is_fenced`, and whoever asks for it next
begins with what is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.partitions.partition import Partition
from broker.partitions.read import FetchedData
from broker.partitions.share.acknowledging import (
    Acknowledgement,
    AcknowledgementRefused,
    Renewal,
    Staged,
    acknowledge,
    give_back,
)
from broker.partitions.share.acquiring import Acquired, Acquisition, Bounds, Wish
from broker.partitions.share.fetched_batches import aborted_among, batches_of, part_of
from broker.partitions.share.in_flight import Run
from broker.partitions.share.settings import ShareGroupSettings, StartAt
from broker.partitions.share.states import RecordState
from broker.partitions.share.window import BadState, Window
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steps import run_steps
from coordinator.share_state.answers import Verdict
from coordinator.share_state.port import NO_START_OFFSET, PartitionState, Persister
from protocol.errors import ErrorCode
from protocol.schema import Buffer
from storage.log import LogDamaged, OffsetOutOfRange

_log = EventLog("share_groups")

SHARE_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a member hears of an error of the persister; UNKNOWN_SERVER_ERROR of others."""
FENCING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""With these the persister is asked again, as Kafka's does by itself: its consumers give up on them."""
FIRST_PAUSE_S, LAST_PAUSE_S, MOST_PAUSES = 0.05, 1.0, 30
NOTHING_KEPT = {
    ErrorCode.INVALID_REQUEST: "nothing is kept of it",
    ErrorCode.UNKNOWN_SERVER_ERROR: "what is kept of it cannot be read",
}
MOST_BYTES = 1 << 20
"""What is read of one partition in one go; a member fetches the rest next."""


T = TypeVar("T")
Own = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]
"""Runs work that no request waits for, or that goes on when its request is gone."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a member is handed of one partition."""

    records: list[Buffer]
    acquired: list[Acquired]

    @property
    def count(self) -> int:
        return sum(one.last_offset - one.first_offset + 1 for one in self.acquired)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records))


class SharePartition:
    """See the head of this file. `settings` are read at each use; `own` runs what no request waits for."""

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        *,
        persister: Persister,
        settings: Callable[[], ShareGroupSettings],
        environment: Environment,
        own: Own,
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self._persister = persister
        self._settings = settings
        self._environment = environment
        self._own = own
        self._window: Window | None = None
        self._state_epoch = -1
        self.error = ErrorCode.NONE
        """Why it could not be begun with, or was fenced."""
        self.is_fenced = False
        """Whether it has come to an end."""
        self._begun = False
        self._watchers: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    # -------------------------------------------------------------------------------------------------------- beginning

    def begin(self) -> bool:
        """Whether it can be used; it is begun with, once. Its watchers are called when that has ended."""
        if not self._begun:
            self._begun = True
            self._own(self._read_state())
        return self._window is not None and not self.error

    async def _read_state(self) -> None:
        partition = self.partition
        topic_id, index, epoch = partition.topic_id, partition.index, partition.leader_epoch
        state = await _patiently(lambda: self._persister.read_state(self.group_id, topic_id, index, epoch))
        if isinstance(state, PartitionState):
            try:
                start = state.start_offset if state.start_offset != NO_START_OFFSET else await self._first_offset()
                window = Window.restored(start, state.batches)
                self._state_epoch = state.state_epoch
                self._window = None if self.is_fenced else window
            except BadState as bad:
                self._cannot_go_on(f"what is kept of it cannot be: {bad}")
            except (LogDamaged, OSError) as failed:
                _log.error("a share partition cannot be begun with", group=self.group_id, why=str(failed))
                self.error = ErrorCode.KAFKA_STORAGE_ERROR
        elif state in SHARE_ERRORS:
            self.error = SHARE_ERRORS[state]
        else:
            self._cannot_go_on(NOTHING_KEPT.get(state, state.name))
        self._wake()

    def _cannot_go_on(self, why: str) -> None:
        """Until who operates this sets offsets, which begins anew with the partition."""
        place = {"group": self.group_id, "partition": self.partition.name}
        _log.error("a share partition cannot be served", **place, why=why, repair="kafka-share-groups --reset-offsets")
        self.error = ErrorCode.UNKNOWN_SERVER_ERROR

    async def _first_offset(self) -> int:
        """`share.auto.offset.reset`: where a group begins that has read nothing yet."""
        partition, settings = self.partition, self._settings()
        if settings.start_at is StartAt.EARLIEST:
            return partition.log.written_start
        if settings.start_at is StartAt.TIMESTAMP:
            since_ms = max(0, self._environment.wall_ms() - settings.back_ms)
            found = await run_steps(
                self._environment,
                lambda spent: partition.offset_for_timestamp(since_ms, read_committed=False, spent=spent),
            )
            if found is not None:
                return found.offset
        return partition.high_watermark

    # -------------------------------------------------------------------------------------------------------- acquiring

    def readable_bytes(self, at_most: int) -> int:
        """How much a member could be handed now, counted up to `at_most` or a little more."""
        data = self._read(at_most)
        return 0 if data is None else sum(map(len, data.records))

    def acquire(self, wish: Wish, max_bytes: int, *, at_least_one: bool = True) -> Delivery | None:
        """Hand records to a member, with `at_least_one` a batch however large it is. None where there is nothing.
        Raises what a read of the log does."""
        data = self._read(max_bytes, at_least_one=at_least_one)
        if data is None or self._window is None:
            return None
        settings, now_ms = self._settings(), self._environment.monotonic_ms()
        lock_until_ms = now_ms + settings.record_lock_duration_ms
        bounds = Bounds(settings.max_record_locks, settings.delivery_count_limit, lock_until_ms)
        batches = batches_of(data.records)
        acquired = taken = Acquisition(self._window, batches, wish, bounds).run(self._window.next_fetch_offset())
        for batch in aborted_among(batches, data.aborted or ()):
            self._archive_aborted(batch.first, batch.last, wish.member_id)
            acquired = list(_without(acquired, batch.first, batch.last))
        self._window.forget_done()
        if not acquired:
            if taken:
                self._wake()  # what lies behind aborted transactions may be had at once
            return None
        self._check_locks_at(lock_until_ms)
        records = part_of(data.records, batches, acquired[0].first_offset, acquired[-1].last_offset)
        return Delivery(records, acquired)

    def _read(self, max_bytes: int, *, at_least_one: bool = True) -> FetchedData | None:
        """Batches from the next record on that can be handed out; None where there is none."""
        window, partition, settings = self._window, self.partition, self._settings()
        if window is None:
            return None
        window.move_start(partition.log.written_start)
        offset, committed = window.next_fetch_offset(), settings.read_committed
        if offset >= partition.visible_end(read_committed=committed):
            return None
        if offset == window.next_offset and len(window) >= settings.max_record_locks:
            return None
        try:
            most = min(max_bytes, MOST_BYTES)
            data = partition.read(offset, most, read_committed=committed, at_least_one=at_least_one)
        except OffsetOutOfRange:
            return None
        return data if data.records else None

    def _archive_aborted(self, first: int, last: int, member_id: str) -> None:
        """KIP-932: records of aborted transactions are nobody's where the group reads what is committed."""
        assert self._window is not None
        for batch in self._window.covering(first, last):
            batch.cut_at((first, last + 1))
            for run in batch.within(first, last):
                if run.state is RecordState.ACQUIRED and run.target is None and run.member_id == member_id:
                    run.become(RecordState.ARCHIVED)
            batch.in_parts = batch.in_parts or len(batch.runs) > 1

    # ---------------------------------------------------------------------------------------------------- acknowledging

    def acknowledge(self, member_id: str, said: Sequence[Acknowledgement]) -> "asyncio.Task[Verdict] | None":
        """What a member says of its records: a task that ends when it is kept or refused, and goes on when nobody waits
        for it. None where the share partition has come to an end."""
        window = self._window
        return None if window is None else self._own(self._acknowledge(window, member_id, said))

    async def _acknowledge(self, window: Window, member_id: str, said: Sequence[Acknowledgement]) -> Verdict:
        settings = self._settings()
        window.move_start(self.partition.log.written_start)
        until_ms = self._environment.monotonic_ms() + settings.record_lock_duration_ms
        renewal = Renewal(until_ms if settings.renew_allowed else None)
        limit = settings.delivery_count_limit
        try:
            staged = await run_steps(
                self._environment, lambda spent: acknowledge(window, member_id, said, renewal, limit, spent)
            )
        except AcknowledgementRefused as refused:
            self._wake()
            return Verdict(refused.code, refused.message)
        return Verdict(await self._write(window, staged) if staged else ErrorCode.NONE)

    async def release(self, member_id: str) -> None:
        """A member has left: what it was handed goes back."""
        await self._give_back(lambda run: run.member_id == member_id)

    async def _give_back(self, is_given: Callable[[Run], bool], *, even_unwritten: bool = False) -> None:
        if self._window is None:
            return
        self._window.move_start(self.partition.log.written_start)
        staged = give_back(self._window, is_given, self._settings().delivery_count_limit)
        if staged:
            await self._write(self._window, staged, even_unwritten=even_unwritten)

    async def _write(self, window: Window, staged: Staged, *, even_unwritten: bool = False) -> ErrorCode:
        """`even_unwritten`: what is staged comes to be whether or not it could be written."""
        partition, error = self.partition, ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            batches = staged.batches()
            error = await _patiently(
                lambda: self._persister.write_state(
                    self.group_id,
                    partition.topic_id,
                    partition.index,
                    state_epoch=self._state_epoch,
                    leader_epoch=partition.leader_epoch,
                    start_offset=window.start_offset,
                    delivery_complete_count=window.delivery_complete_count(),
                    batches=batches,
                )
            )
        finally:
            told = ErrorCode.NONE if not error else SHARE_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            taken_back = error and not even_unwritten
            await run_steps(
                self._environment, lambda spent: staged.take_back(spent) if taken_back else staged.complete(spent)
            )
        if told in FENCING:
            self.fence(told)
        elif self._window is not None:
            if told:
                self._check_locks_at(self._environment.monotonic_ms())  # some may have timed out meanwhile
            self._wake()
        return told

    # ------------------------------------------------------------------------------------------------------------ locks

    def _check_locks_at(self, at_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        wait_ms = max(0, at_ms - self._environment.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._check_locks)

    def _check_locks(self) -> None:
        """Give back what was not acknowledged in time: as in Kafka, even where that cannot be written. Otherwise nobody
        could be handed it, and it would be tried again and again."""
        self._timer = None
        window, now_ms = self._window, self._environment.monotonic_ms()
        if window is None:
            return
        locks = [run.lock_until_ms for run in window.runs() if run.state is RecordState.ACQUIRED and not run.target]
        late = any(until_ms <= now_ms for until_ms in locks)
        left = [until_ms for until_ms in locks if until_ms > now_ms]
        if left:
            self._check_locks_at(min(left))
        if late:
            self._own(self._give_back(lambda run: run.lock_until_ms <= now_ms, even_unwritten=True))

    # --------------------------------------------------------------------------------------------------------- watching

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever a member might be handed more, or it has come to an end."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def _wake(self) -> None:
        for callback in list(self._watchers):
            if callback in self._watchers:
                callback()

    def fence(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """End it: nobody is handed anything more of it, and what is in flight is forgotten."""
        self.error = self.error or error
        self.is_fenced = True
        self._window = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What the persister answers, once its log is loaded and it is where it is looked for."""
    pause_s = FIRST_PAUSE_S
    for _ in range(MOST_PAUSES):
        answer = await ask()
        if answer not in PASSING:
            return answer
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LAST_PAUSE_S)
    return await ask()


def _without(acquired: Sequence[Acquired], first: int, last: int) -> "list[Acquired]":
    """What is left when these offsets are taken out."""
    left: list[Acquired] = []
    for one in acquired:
        if one.last_offset < first or one.first_offset > last:
            left.append(one)
            continue
        if one.first_offset < first:
            left.append(Acquired(one.first_offset, first - 1, one.delivery_count))
        if one.last_offset > last:
            left.append(Acquired(last + 1, one.last_offset, one.delivery_count))
    return left
