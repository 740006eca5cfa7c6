"""A `ShardLog` in memory whose durability a test decides, and a clock and a timer a test moves."""

import heapq
from collections.abc import Callable, Sequence

from coordinator.machine import Marker, ProducerStamp, Record
from coordinator.ports import AppendRefused
from protocol.errors import ErrorCode
from protocol.records.batch import headers_in
from protocol.records.control import end_transaction_marker
from protocol.records.record import NewRecord, build_batch
from protocol.schema import Buffer


class MemoryShardLog:
    """Keeps real batches. With `durable` everything is durable at once; otherwise only after `sync`.

    `refuse` makes the next appends fail, `max_batch_bytes` those that are larger. `copy` gives a prefix, for reloading
    at every point.
    """

    def __init__(self, *, durable: bool = True, max_batch_bytes: int = 1_048_588) -> None:
        self.max_batch_bytes = max_batch_bytes
        self.batches: list[tuple[int, bytes]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        self.durable = durable
        self._refusals: list[ErrorCode] = []
        self._callbacks: list[Callable[[], None]] = []

    def append(self, records: Sequence[Record], *, stamp: ProducerStamp | None, now_ms: int) -> int:
        self._maybe_refuse()
        made = [NewRecord(key=record.key, value=record.value, timestamp_ms=now_ms) for record in records]
        batch = build_batch(
            made,
            base_offset=self.end_offset,
            producer_id=-1 if stamp is None else stamp.producer_id,
            producer_epoch=-1 if stamp is None else stamp.producer_epoch,
            base_sequence=-1 if stamp is None else 0,
            transactional=stamp is not None,
        )
        if len(batch) > self.max_batch_bytes:
            raise AppendRefused(ErrorCode.MESSAGE_TOO_LARGE)
        return self._add(batch)

    def append_built(self, batch: bytes, *, now_ms: int) -> int:
        self._maybe_refuse()
        return self._add(self.end_offset.to_bytes(8, "big") + batch[8:])

    def append_marker(self, marker: Marker, *, now_ms: int) -> int:
        self._maybe_refuse()
        batch = end_transaction_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        # A marker is built with offset 0; the base offset is the first field of a batch and outside its CRC.
        return self._add(self.end_offset.to_bytes(8, "big") + batch[8:])

    def read(self, offset: int, max_bytes: int) -> list[Buffer]:
        found: list[Buffer] = []
        size = 0
        for base, batch in self.batches:
            header = next(headers_in(batch))[1]
            if header.next_offset <= offset:
                continue
            if found and size + len(batch) > max_bytes:
                break
            found.append(batch)
            size += len(batch)
            assert base == header.base_offset
        return found

    def when_durable(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def sync(self, up_to: int | None = None) -> None:
        """Make everything durable, or what lies below `up_to`, and notify the watchers."""
        end_offset = self.end_offset if up_to is None else up_to
        if self.durable_offset != end_offset:
            self.durable_offset = end_offset
            for callback in list(self._callbacks):
                callback()

    def refuse(self, error: ErrorCode, times: int = 1) -> None:
        """Refuse the next `times` appends with `error`."""
        self._refusals.extend([error] * times)

    def copy(self, batches: int | None = None) -> "MemoryShardLog":
        """An independent, durable log of the first `batches` batches (all of them by default)."""
        twin = MemoryShardLog(durable=self.durable, max_batch_bytes=self.max_batch_bytes)
        twin.batches = self.batches[:batches]
        if twin.batches:
            twin.end_offset = next(headers_in(twin.batches[-1][1]))[1].next_offset
        twin.durable_offset = twin.end_offset
        return twin

    def _maybe_refuse(self) -> None:
        if self._refusals:
            raise AppendRefused(self._refusals.pop(0))

    def _add(self, batch: bytes) -> int:
        offset = self.end_offset
        self.batches.append((offset, batch))
        self.end_offset = next(headers_in(batch))[1].next_offset
        if self.durable:
            self.sync()
        return offset


class VirtualTime:
    """A clock and a timer in one. `advance` runs what is due, in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._alarms: list[tuple[int, int, VirtualAlarm]] = []
        self._sequence = 0

    def now_ms(self) -> int:
        return self._now_ms

    def at(self, wall_ms: int, callback: Callable[[], None]) -> "VirtualAlarm":
        alarm = VirtualAlarm(callback)
        self._sequence += 1
        heapq.heappush(self._alarms, (wall_ms, self._sequence, alarm))
        return alarm

    def advance(self, milliseconds: int) -> None:
        """Let time pass; callbacks run at the time for which they were set (never earlier than now)."""
        end_ms = self._now_ms + milliseconds
        while self._alarms and self._alarms[0][0] <= end_ms:
            at_ms, _, alarm = heapq.heappop(self._alarms)
            self._now_ms = max(self._now_ms, at_ms)
            if not alarm.cancelled:
                alarm.callback()
        self._now_ms = end_ms


class VirtualAlarm:
    """One pending callback."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class CollectingTicket:
    """A ticket that keeps its result, and insists on getting just one."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self.errors: list[ErrorCode] = []

    @property
    def waiting(self) -> bool:
        return not self.answers and not self.errors

    @property
    def answer(self) -> object:
        assert self.answers, f"no answer; refused with {self.errors}" if self.errors else "no answer yet"
        return self.answers[0]

    def release(self, answer: object) -> None:
        assert self.waiting, "a ticket was answered twice"
        self.answers.append(answer)

    def refuse(self, error: ErrorCode) -> None:
        assert self.waiting, "a ticket was answered twice"
        self.errors.append(error)
