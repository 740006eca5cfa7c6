"""One client connection: bytes in, requests applied in order, answers out in order.

Rule 1. Requests are applied in arrival order and answered in that order (I46). A Produce may be applied while an
earlier Produce waits for its fsync; nothing else overlaps.
Rule 2. An idle connection holds no buffer (see `frame_reader`).
Rule 3. What this client can make us hold is bounded: its queue, the one answer it does not read, and the budget
all connections share. Past any of them its socket is not read.
Rule 4. A client that goes away cancels its waits, never the work: futures are cancelled, tasks run to their end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from types import CoroutineType
from typing import Any, cast

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Call, UnsupportedApiVersions
from broker.disk.file_region import CAN_SEND_FILES
from broker.network.connection_host import ConnectionHost
from broker.network.frame_buffers import FrameLease
from broker.network.frame_reader import FrameReader
from broker.network.region_sender import RegionSender, holds_region
from broker.process.eager import Finished
from broker.process.logging import EventLog
from protocol.errors import ProtocolError
from protocol.schema import Buffer
from storage.log import StorageFailed

QUEUED_REQUESTS = 256
QUEUED_BYTES = 4 << 20
OPEN_ANSWERS = 1024
WRITE_HIGH_WATER_BYTES = 256 << 10

_log = EventLog("connection")


class _Answer:
    """The place of one answer in the order. `parts` is None until it is known; empty for no answer."""

    __slots__ = ("call", "parts")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.parts: list[Buffer] | None = None


class Connection(asyncio.BufferedProtocol):
    """See the head of this file."""

    def __init__(self, host: ConnectionHost, info: ConnectionInfo) -> None:
        self._host = host
        self.info = info
        self.last_active = host.tick
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(host.receive_buffer, host.frame_buffers, host.max_request_bytes)
        self._queued_bytes = self._serial_bytes = self._held_bytes = 0
        self._answers: deque[_Answer] = deque()
        self._serial: _Answer | None = None
        self._serial_wait: asyncio.Future[Any] | None = None
        self._serial_lease: FrameLease | None = None
        self._out: list[Buffer] = []
        self._regions: RegionSender | None = None
        self._write_paused = False
        self._held_answer_bytes = 0
        self._reading = True
        self._closing = False
        self._stopping = False

    # ------------------------------------------------------------------ what the transport tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        socket = transport.get_extra_info("socket")
        self.info.sends_files = CAN_SEND_FILES and socket is not None
        self.info.descriptor = -1 if socket is None else socket.fileno()
        self.info.peer_host, self.info.peer_port = str(peer[0]), int(peer[1]) if len(peer) > 1 else 0
        refusal = self._host.connection_made(self)
        if refusal:
            self._refuse(refusal)
        elif refusal is not None:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        host = self._host
        if self._serial_wait is not None and not isinstance(self._serial_wait, asyncio.Task):
            self._serial_wait.cancel()
        host.requests.give_back(self._held_bytes)
        host.requests.done_reading(self)
        host.answers.release(self._held_answer_bytes)
        self._held_bytes = self._held_answer_bytes = 0
        if self._regions is not None:
            self._regions.drop()
        self._reader.drop()
        self._answers.clear()
        host.connection_lost(self)

    def eof_received(self) -> None:
        """Whoever has finished sending is gone for us, as for Kafka; returning None closes."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        self.last_active = self._host.tick
        try:
            self._queued_bytes += self._reader.received(nbytes)
        except ProtocolError as error:
            self._refuse(str(error))
        self._advance()

    def pause_writing(self) -> None:
        """The client does not read as fast as we answer: stop reading from it until it does."""
        self._write_paused = True
        assert self._transport is not None
        self._held_answer_bytes = self._transport.get_write_buffer_size()
        self._host.answers.hold(self._held_answer_bytes)
        self._check_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._host.answers.release(self._held_answer_bytes)
        self._held_answer_bytes = 0
        if self._regions is not None:
            self._regions.go_on()
        self._advance()

    # ------------------------------------------------------------------ requests

    def _advance(self) -> None:
        """Apply what may be applied now, send what is answered, read on if there is room."""
        queue, answers = self._reader.frames, self._answers
        while queue and self._serial is None and not (self._sending or self._closing or self._stopping):
            frame = queue[0]
            if answers and (frame[:2] != b"\0\0" or len(answers) >= OPEN_ANSWERS):
                break
            queue.popleft()
            self._queued_bytes -= len(frame)
            if type(frame) is memoryview:
                self._apply_leased(frame)
            else:
                self._apply(frame)
        if self._out:
            self._flush()
        held = self._queued_bytes + self._serial_bytes + self._reader.partial_bytes
        if held != self._held_bytes:
            self._account(held)
        if held or not self._reading:
            self._check_reading()

    def _account(self, held: int) -> None:
        """What waits here counts against the budget of all; what was applied at once never did."""
        requests, more = self._host.requests, held - self._held_bytes
        self._held_bytes = held
        if more > 0:
            requests.take(more)
        else:
            requests.give_back(-more)
            if not held:
                requests.done_reading(self)

    def _apply(self, frame: Buffer) -> None:
        call: Call | None = None
        dispatcher = self._host.dispatcher
        try:
            call = dispatcher.read(self.info, frame)
            result = dispatcher.run(call)
            call.request = None  # it may be large, and the answer may take long
            if type(result) is CoroutineType:  # asking whether it is a `Coroutine` costs ten times that
                result = self._host.begin(result)
                if isinstance(result, Finished):
                    result = result.value
            if type(result) is call.entry.response:
                self._answer_in_turn(call, call.encode(result))
                return
        except ProtocolError as error:
            self._refuse(str(error))
        except UnsupportedApiVersions as answer:
            self._out += answer.parts
        except CloseConnection as error:
            self._refuse(str(error))
        except StorageFailed as error:
            self._host.storage_failed(error)
            self.close()
        except Exception as error:  # noqa: BLE001  a bug in one handler is not to end the others
            self._failed(call, error)
        else:
            self._begin_answer(_Answer(call), result, call.weight(len(frame)))

    def _apply_leased(self, frame: memoryview) -> None:
        """A large request. Its buffer may be used again when it is applied or, if it has to wait for that, then."""
        lease = self._reader.lease_of(frame)
        self._apply(frame)
        frame.release()  # the records that a handler holds are views of their own
        if self._serial is not None:
            self._serial_lease = lease
        elif lease is not None:
            lease.give_back()

    def _begin_answer(self, answer: _Answer, result: Any, size_bytes: int) -> None:
        if result is NO_ANSWER:
            return
        if isinstance(result, Deferred):
            self._defer(answer, result.answer)
            return
        self._serial, self._serial_bytes = answer, size_bytes
        self._serial_wait = wait = self._as_future(result)
        wait.add_done_callback(lambda done: self._serial_done(answer, done))

    def _as_future(self, awaitable: Awaitable[Any]) -> "asyncio.Future[Any]":
        if isinstance(awaitable, asyncio.Future):
            return awaitable
        begun = self._host.begin(cast(Coroutine[Any, Any, Any], awaitable))
        if not isinstance(begun, Finished):
            return begun
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(begun.value)
        return done

    def _serial_done(self, answer: _Answer, done: "asyncio.Future[Any]") -> None:
        lease, self._serial_lease = self._serial_lease, None
        if lease is not None:
            lease.give_back()
        if self._closing:
            _look_at_failure(answer, done)
            return
        self._serial = self._serial_wait = None
        self._serial_bytes = 0
        result = self._result_of(answer, done)
        if isinstance(result, Deferred):
            self._defer(answer, result.answer)
        elif answer.parts:
            self._answer_in_turn(answer.call, answer.parts)
        self._advance()

    def _defer(self, answer: _Answer, awaitable: Awaitable[Any]) -> None:
        wait = self._as_future(awaitable)
        self._answers.append(answer)
        wait.add_done_callback(lambda done: self._deferred_done(answer, done))

    def _deferred_done(self, answer: _Answer, done: "asyncio.Future[Any]") -> None:
        if self._closing:
            _look_at_failure(answer, done)
            return
        self._result_of(answer, done)
        answers = self._answers
        while answers and answers[0].parts is not None:
            self._out += answers.popleft().parts or ()
        self._advance()

    def _result_of(self, answer: _Answer, done: "asyncio.Future[Any]") -> Any:
        """What a wait brought; encodes it where it is a response."""
        answer.parts = []
        try:
            result = done.result()
            if result is not NO_ANSWER and not isinstance(result, Deferred):
                answer.parts = answer.call.encode(result)
            elif result is not NO_ANSWER:
                answer.parts = None
        except CloseConnection as error:
            self._refuse(str(error))
        except asyncio.CancelledError:
            self._refuse("the broker is stopping")
        except StorageFailed as error:
            self._host.storage_failed(error)
            self.close()
        except Exception as error:  # noqa: BLE001  a bug in one handler is not to end the others
            answer.parts = self._failed(answer.call, error, send=False)
        else:
            return result
        return None

    def _failed(self, call: Call | None, error: Exception, *, send: bool = True) -> list[Buffer]:
        """A bug of ours: one traceback in the log; the client gets UNKNOWN_SERVER_ERROR, or is disconnected."""
        _log.bug("request failed", error, **self._who(), api=call.entry.name if call else "unreadable")
        parts = call.encode_failure() if call is not None else None
        if parts is None:
            self.close()
        elif send and call is not None:
            self._answer_in_turn(call, parts)
        return parts or []

    # ------------------------------------------------------------------ the socket

    def _answer_in_turn(self, call: Call, parts: list[Buffer]) -> None:
        """A Produce may be refused at once while an earlier one waits for its fsync: its answer stays behind (I46)."""
        if not self._answers:
            self._answer(parts)
            return
        answer = _Answer(call)
        answer.parts = parts
        self._answers.append(answer)

    def _answer(self, parts: list[Buffer]) -> None:
        """Small answers leave together at the end of a turn; one with records at once, so that only one is held."""
        self._out += parts
        if len(parts) > 1:
            self._flush()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is None or self._transport.is_closing():
            return
        if self._regions is not None and (self._regions.active or holds_region(out)):
            self._regions.send(out)
        elif len(out) > 1 and holds_region(out):
            self._regions = RegionSender(
                self._transport, high_water=WRITE_HIGH_WATER_BYTES, finished=self._advance, failed=self._broken
            )
            self._regions.send(out)
        else:
            self._transport.writelines(out)

    @property
    def _sending(self) -> bool:
        """Whether the client has yet to take what it was sent."""
        return self._write_paused or (self._regions is not None and self._regions.active)

    def _broken(self, reason: str) -> None:
        """An answer cannot be sent to its end."""
        _log.warning("connection closed", **self._who(), reason=reason)
        self.abort()

    def _check_reading(self) -> None:
        """Read on, or not."""
        if self._closing or self._transport is None or self._transport.is_closing():
            return
        wanted = (
            not (self._sending or self._stopping)
            and len(self._reader.frames) < QUEUED_REQUESTS
            and self._queued_bytes < QUEUED_BYTES
            and (not self._held_bytes or self._host.requests.may_read(self, self._advance))
        )
        if wanted and not self._reading:
            self._reading = True
            self._transport.resume_reading()
        elif not wanted and self._reading:
            self._reading = False
            self._transport.pause_reading()

    @property
    def busy(self) -> bool:
        """Whether a request is being worked on, or an answer is on its way out."""
        return self.working or self._sending

    @property
    def frame_begun(self) -> bool:
        """Whether the client owes us the rest of a frame."""
        return self._reader.begun

    @property
    def working(self) -> bool:
        """Whether it is our turn: a request is being worked on."""
        return self._serial is not None or bool(self._answers)

    def stop_reading(self) -> None:
        """Take no more requests; those under way are answered."""
        self._stopping = True
        self._check_reading()

    def expire(self, reason: str) -> None:
        """Close a connection that is of no use any more, without waiting for it."""
        _log.info("connection closed", **self._who(), reason=reason)
        self.abort()

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for a client that does not read."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _refuse(self, reason: str) -> None:
        _log.warning("connection closed", **self._who(), reason=reason)
        self.close()

    def _who(self) -> dict[str, Any]:
        info = self.info
        return {"peer": f"{info.peer_host}:{info.peer_port}", "listener": info.listener}


def _look_at_failure(answer: _Answer, done: "asyncio.Future[Any]") -> None:
    """Nobody waits any more; a bug is still a bug."""
    if not done.cancelled() and (error := done.exception()) is not None and not isinstance(error, CloseConnection):
        _log.bug("request failed, its client is gone", error, api=answer.call.entry.name)
