"""Runs one machine over one log: append, replay, and release the answers when all they saw is durable.

Rule 1. The records of an outcome are appended as one batch and replayed at once, before anyone else reads state.
Rule 2. An append that is refused changes nothing: no replay, and every ticket of the outcome is refused.
Rule 3. Answers leave in the order in which they were decided, when the log is durable up to where it ended at the time
        of the decision; reads and errors too, for they may have seen what is not durable yet.
Rule 4. Loading goes through the same `replay`. A machine that its log contradicts is dropped and loaded again.
Rule 5. An operation that raises has changed nothing that is logged: its tickets are refused with UNKNOWN_SERVER_ERROR,
        all others go on.
Rule 6. No asyncio here: the owner of the shard calls `load_slice` until it is loaded. One thread; no `submit` from
        within an operation or a replay, nor by a ticket that such a one refuses.

What a log raises besides `AppendRefused` (a failed disk) is not caught: the process is to end.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from coordinator.loading import Entry, UnreadableLog, replaying
from coordinator.machine import (
    AnyOutcome,
    AnyTicket,
    Machine,
    Marker,
    OperationRefused,
    Outcome,
    ProducerStamp,
    Record,
    ReplayedMarker,
    ReplayedRecord,
    UnreadableValue,
)
from coordinator.ports import AppendRefused, Cancel, Clock, ShardLog, Timer
from protocol.codec import read_version
from protocol.errors import ErrorCode, ProtocolError

M = TypeVar("M", bound=Machine)

RETRY_EXPIRY_MS = 100
"""How long a shard waits before it acts again on a deadline whose record the log refused."""

COORDINATOR_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client of a coordinator is answered when the log behind it refuses. Everything else passes unchanged."""


def _raise(error: Exception) -> None:
    raise error


def _pass(offset: int, reason: str) -> None:
    pass


class ShardState(Enum):
    """Where a shard is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class NotReady(Exception):
    """The shard takes no operations now: COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Shard(Generic[M]):
    """One machine over one `ShardLog`. See the head of this file."""

    def __init__(
        self,
        make: Callable[[], M],
        log: ShardLog,
        clock: Clock,
        timer: Timer,
        *,
        name: str,
        compacted: bool = False,
    ) -> None:
        """`compacted`: the log keeps the last record of each key, and loading need not replay the others."""
        self.name = name
        self.log = log
        self.state = ShardState.LOADING
        self.incarnation = 0
        """Counts the machines this shard has had: work kept for an earlier one is dropped."""
        self.on_reload: Callable[[], None] | None = None
        """Called when the machine was dropped and `load_slice` has to be called again."""
        self.ignored = self.unreadable = 0
        """Records of the log that are of a type this machine does not know, and those whose value it cannot read."""
        self.on_ignored: Callable[[int, str], None] = _pass
        self.on_unreadable: Callable[[int, str], None] = _pass
        """Called for each of them with its offset and a sentence."""
        self.on_bug: Callable[[Exception], None] = _raise
        """Called with what an operation raised, when its tickets have been refused."""
        self.on_decided: Callable[[AnyOutcome, int], None] | None = None
        """Called with each outcome whose records were appended and replayed, and its time, for whoever takes notes; it
        must not submit."""
        self.machine = make()
        self._make = make
        self._clock = clock
        self._timer = timer
        self._compacted = compacted
        self._replaying: Iterator[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._waiting: deque[tuple[int, list[tuple[AnyTicket, Any]]]] = deque()
        self._unanswered: dict[AnyTicket, None] = {}
        self._holds_requests = True
        self._deciding = False
        self._settling = False
        self._moved = False
        self._alarm: Cancel | None = None
        self._alarm_ms: int | None = None
        log.when_durable(self._durable_moved)

    # -- loading ---------------------------------------------------------------------------------------------

    def load_slice(self, max_bytes: int, spent: Callable[[], bool] = lambda: False) -> bool:
        """Replay the log, `max_bytes` read at a time, until the time is `spent`; True when everything was replayed and
        the shard is live. `spent` is asked every few records. See `coordinator.loading`."""
        if self.state is not ShardState.LOADING:
            return True
        try:
            if self._replaying is None:
                self._replaying = replaying(
                    self.log, self._replay_logged, max_bytes=max_bytes, compacted=self._compacted
                )
            for _ in self._replaying:
                if spent():
                    return False
            self.machine.loaded(self._clock.now_ms())
        except Exception:
            self.close()
            raise
        self._replaying = None
        self.state = ShardState.ACTIVE
        self._moved = True
        self._rearm()
        self._settle()
        return True

    def _replay_logged(self, entry: Entry) -> None:
        """One entry of the log. What is of an unknown type is ignored, as by Kafka (KIP-915): a later version may have
        left it. Raises `UnreadableLog` where nobody knows what an entry is about."""
        try:
            if isinstance(entry, ReplayedRecord) and not self.machine.knows(entry.key):
                self.ignored += 1
                self.on_ignored(entry.offset, f"unknown type {read_version(entry.key)}")
            else:
                self.machine.replay(entry)
        except UnreadableValue as unreadable:
            self.unreadable += 1
            self.on_unreadable(entry.offset, str(unreadable))
        except ProtocolError as error:
            raise UnreadableLog(entry.offset, str(error)) from error

    def reload(self) -> None:
        """Drop the machine and what waits for it, and load again from the log (NOT_COORDINATOR to waiting requests)."""
        self._drop()
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.LOADING
        self.machine = self._make()
        self.ignored = self.unreadable = 0
        self._replaying = None
        if self.on_reload is not None:
            self.on_reload()

    def hold_no_requests(self) -> None:
        """The node stops: a request that waits for others (a JoinGroup for its members) is answered NOT_COORDINATOR,
        now and from now on. What waits for the disk only still gets its answer."""
        self._holds_requests = False
        decided = {ticket for _, answers in self._waiting for ticket, _ in answers}
        for ticket in [ticket for ticket in self._unanswered if ticket not in decided]:
            del self._unanswered[ticket]
            ticket.refuse(ErrorCode.NOT_COORDINATOR)

    def close(self) -> None:
        """Take no more operations. Waiting requests are answered NOT_COORDINATOR."""
        self.state = ShardState.CLOSED
        self._drop()

    def _drop(self) -> None:
        self.incarnation += 1
        self._disarm()
        self._waiting.clear()
        abandoned = list(self._unanswered)
        self._unanswered.clear()
        for ticket in abandoned:
            ticket.refuse(ErrorCode.NOT_COORDINATOR)

    # -- operations ------------------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether the machine may be looked at as it is: it is live, and all it says is durable."""
        return self.state is ShardState.ACTIVE and self.log.durable_offset >= self.log.end_offset

    def on_durable(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the durable offset moved or the shard was loaded, before answers that became
        durable are released. For follow-up work that is derived from state; it may submit."""
        self._listeners.append(listener)

    def submit(self, operation: Callable[[M, int], AnyOutcome], *tickets: AnyTicket) -> None:
        """Run one operation. Its answers are released when durable; `tickets` it does not answer stay with the
        machine. Raises `NotReady`; after that nothing has happened and no ticket was touched."""
        if self.state is ShardState.LOADING:
            raise NotReady(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is ShardState.CLOSED:
            raise NotReady(ErrorCode.NOT_COORDINATOR)
        assert not self._deciding, "an operation, a replay or a refusal submitted another operation"
        for ticket in tickets:
            self._unanswered[ticket] = None
        self._deciding = True
        try:
            self._decide(operation, tickets)
        finally:
            self._deciding = False
        if not self._holds_requests:
            self.hold_no_requests()
        if self.state is ShardState.ACTIVE:
            self._rearm()
        self._settle()

    def _decide(self, operation: Callable[[M, int], AnyOutcome], tickets: tuple[AnyTicket, ...]) -> None:
        now_ms = self._clock.now_ms()
        try:
            outcome = operation(self.machine, now_ms)
        except OperationRefused as refused:
            self._refuse(refused.error, tickets, Outcome())
            return
        except Exception as bug:  # noqa: BLE001  one request that we cannot take is not to concern the others
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, tickets, Outcome())
            self.on_bug(bug)
            return
        try:
            for entry in self._append(outcome, now_ms):
                self.machine.replay(entry)
        except AppendRefused as refusal:
            self._refuse(refusal.error, tickets, outcome)
        except Exception:
            # What is in memory cannot be trusted any more, the log can.
            self.reload()
            raise
        else:
            if self.on_decided is not None and outcome.records:
                self.on_decided(outcome, now_ms)
            if outcome.answers:
                self._waiting.append((self.log.end_offset, outcome.answers))

    def _append(self, outcome: AnyOutcome, now_ms: int) -> list[ReplayedRecord | ReplayedMarker]:
        if outcome.marker is not None:
            assert not outcome.records, "a marker is written alone"
            marker = outcome.marker
            offset = self.log.append_marker(marker, now_ms=now_ms)
            return [ReplayedMarker(offset, now_ms, _stamp_of(marker), marker.commit)]
        records = outcome.records
        if outcome.block is not None:
            assert not records, "a block stands in their place"
            outcome.block.replay(self.log.append_built(outcome.block.batch, now_ms=now_ms))
            return []
        if not records:
            return []
        offset = self.log.append(records, stamp=outcome.stamp, now_ms=now_ms)
        return _replayed(records, offset, now_ms, outcome.stamp)

    def _refuse(self, error: ErrorCode, tickets: tuple[AnyTicket, ...], outcome: AnyOutcome) -> None:
        code = COORDINATOR_ERROR.get(error, error)
        concerned = dict.fromkeys((*tickets, *(ticket for ticket, _ in outcome.answers)))
        for ticket in concerned:
            self._unanswered.pop(ticket, None)
            ticket.refuse(code)
        if error is ErrorCode.NOT_COORDINATOR:
            # Somebody newer owns the log: what we know may be stale. It is all in the log.
            self.reload()

    # -- answers ---------------------------------------------------------------------------------------------

    def _durable_moved(self) -> None:
        self._moved = True
        if not self._deciding:
            self._settle()

    def _settle(self) -> None:
        """Listeners first, then the answers that are due, until neither is left."""
        if self._settling or self.state is not ShardState.ACTIVE:
            return
        self._settling = True
        try:
            while True:
                if self._moved:
                    self._moved = False
                    for listener in self._listeners:
                        listener()
                elif self._waiting and self._waiting[0][0] <= self.log.durable_offset:
                    for ticket, answer in self._waiting.popleft()[1]:
                        if ticket in self._unanswered:
                            del self._unanswered[ticket]
                            ticket.release(answer)
                else:
                    return
        finally:
            self._settling = False

    # -- deadlines -------------------------------------------------------------------------------------------

    def _rearm(self) -> None:
        """An alarm that rings too early does no harm and is cheaper than a new one for every deadline that moves."""
        wanted = self.machine.next_deadline_ms()
        if wanted is not None and (self._alarm_ms is None or wanted < self._alarm_ms):
            self._arm(wanted)

    def _arm(self, at_ms: int) -> None:
        self._disarm()
        self._alarm_ms = at_ms
        self._alarm = self._timer.at(at_ms, self._expire)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._alarm_ms = None

    def _expire(self) -> None:
        """One bounded step; a deadline that is still in the past afterwards is armed again, so the loop breathes."""
        self._alarm = None
        self._alarm_ms = None
        if self.state is not ShardState.ACTIVE:
            return
        due = self.machine.next_deadline_ms()
        now_ms = self._clock.now_ms()
        if due is None or due > now_ms:
            self._rearm()
            return
        end_offset = self.log.end_offset
        self.submit(lambda machine, at_ms: machine.expire(at_ms))
        if self.machine.next_deadline_ms() == due and self.log.end_offset == end_offset:
            self._arm(now_ms + RETRY_EXPIRY_MS)


def _stamp_of(marker: Marker) -> ProducerStamp:
    return ProducerStamp(marker.producer_id, marker.producer_epoch)


def _replayed(
    records: Sequence[Record], offset: int, now_ms: int, stamp: ProducerStamp | None
) -> list[ReplayedRecord | ReplayedMarker]:
    return [
        ReplayedRecord(offset + index, now_ms, stamp, record.key or b"", record.value)
        for index, record in enumerate(records)
    ]
