"""One client connection: bytes in, requests applied in order, answers out in order.

Rule 1. Requests are applied in arrival order and answered in that order (I46). A Produce may be applied while an
earlier Produce waits for its fsync; nothing else overlaps.
Rule 2. An idle connection holds no buffer (see `frame_reader`).
Rule 3. What this client can make us hold is bounded: its queue, the answers it does not take (`answer_sender`), and
the budget all connections share (`memory_budget`). Past any of them its socket is not read.
Rule 4. What has been received is worked on in turns (`turns`), so that one that sends much does not delay the others.
Rule 5. A client that goes away cancels its waits, never the work: futures are cancelled, tasks run to their end. One
that has ended its connection in order is gone when what it has sent is done.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, cast

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Call, Decoded, UnsupportedApiVersions
from broker.network.answer_sender import AnswerSender
from broker.network.client_socket import note_socket
from broker.network.connection_host import ConnectionHost
from broker.network.frame_buffers import FrameLease
from broker.network.frame_reader import FrameReader
from broker.network.muting import Muting
from broker.network.outcomes import as_future, failed, result_of
from broker.network.pending_answer import PRODUCE_KEY, AnswersInOrder, PendingAnswer
from broker.process.eager import Finished, is_coroutine
from broker.process.logging import EventLog
from protocol.compile_encoder import LargeMessage
from protocol.errors import ProtocolError
from protocol.schema import Buffer
from storage.log import StorageFailed

QUEUED_REQUESTS, QUEUED_BYTES = 256, 4 << 20
OPEN_ANSWERS = 1024
QUEUED_OVERHEAD_BYTES: Final = 64
"""What a request in the queue costs beside its bytes."""

_log = EventLog("connection")


class Connection(asyncio.BufferedProtocol):
    """See the head of this file."""

    def __init__(self, host: ConnectionHost, info: ConnectionInfo) -> None:
        self._host = host
        self.info = info
        self.last_active = host.tick
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(host.receive_buffer, host.frame_buffers, host.max_request_bytes)
        self.requests = host.requests if info.gate is None else host.strangers
        """The budget that its requests count in."""
        if (gate := info.gate) is not None:
            self._reader.admit(min(host.max_request_bytes, gate.max_frame_bytes))
            gate.opens = self._become_known
        self._queued_bytes = self._serial_bytes = self._held_bytes = 0
        self._order = AnswersInOrder()
        self._serial: PendingAnswer | None = None
        self._serial_wait: asyncio.Future[Any] | None = None
        self._serial_lease: FrameLease | None = None
        self._sender: AnswerSender
        self._due = False  # it waits for its turn
        self._reading = True
        self._closing = self._stopping = self._resting = False  # resting: stopping or muted, it takes no more requests
        self._ended = False  # its client sends nothing more
        self.muting = Muting(self._unmute, self._reader.frames)
        info.mute = self.mute

    # ------------------------------------------------------------------ callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host = self._host
        self._sender = AnswerSender(self._transport, host.answers, self, host.answer_bytes, finished=self._advance)
        note_socket(self.info, transport)
        self._reading = False
        refusal = self._host.connection_made(self)
        self._reading = True
        if self._resting:  # the transport begins to read only after this
            asyncio.get_running_loop().call_soon(self._check_reading)
        if refusal:
            self.refuse(refusal)
        elif refusal is not None:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = self.info.is_lost = True
        self.muting.forget()
        self.info.mute = self.info.gate = None
        if self._serial_wait is not None and not isinstance(self._serial_wait, asyncio.Task):
            self._serial_wait.cancel()
        self.requests.leave(self)
        self._held_bytes = 0
        self._sender.drop()
        self._reader.drop()
        self._order.waiting.clear()
        self._host.connection_lost(self)

    def _become_known(self) -> None:
        """It is authenticated: its requests may be long, and count with those of others who are."""
        self.requests.leave(self)
        self.requests, self._held_bytes = self._host.requests, 0
        self._reader.admit(self._host.max_request_bytes)

    def eof_received(self) -> bool:
        """Whether the socket has to stay open: a client that has finished sending is gone when what it has sent is done
        and answered, as for Kafka. With acks=0 it could not wait for that."""
        self.info.is_lost = self._ended = True
        self._settle()
        return not self._closing

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        self.last_active = self._host.tick
        try:
            self._queued_bytes += self._reader.received(nbytes)
        except ProtocolError as error:
            self.refuse(str(error))
        if (timer := self._host.timer) is not None:
            timer.arrived(self._reader.frames, self._order)
        self._advance()

    def pause_writing(self) -> None:
        """The client does not read as fast as we answer: stop reading from it until it does."""
        self._sender.pause()
        self._check_reading()

    def resume_writing(self) -> None:
        self._sender.resume()
        self._advance()

    # ------------------------------------------------------------------ requests

    def _advance(self) -> None:
        """Apply what may be applied now, send what is answered, read on if there is room."""
        if self._reader.frames and not self._due and not self._closing:
            began = self._host.turns.begin()
            if began is None:
                self._due = self._host.turns.wait(self._go_on)
            else:
                self._work(began)
        self._settle()

    def _settle(self) -> None:
        if self._sender.waiting:
            self._sender.flush()
        queued = len(self._reader.frames) * QUEUED_OVERHEAD_BYTES + self._queued_bytes
        held = queued + self._serial_bytes + self._reader.partial_bytes
        if held != self._held_bytes and not self._closing:
            more, self._held_bytes = held - self._held_bytes, held  # what was applied at once never counts
            self.requests.change(self, more)
        if self._ended and not self._closing and self._is_done:
            self.close()
        elif held or not self._reading:
            self._check_reading()

    @property
    def _is_done(self) -> bool:
        """Whether all that was sent is answered, but for what only waits."""
        left = self._reader.frames or self._order.waiting or self._sender.blocked
        return not left and (self._serial is None or self._serial.only_waits)

    def _work(self, began: float) -> None:
        """Apply requests until one has to wait, or others are to have a turn."""
        turns, queue, answers, sender = self._host.turns, self._reader.frames, self._order.waiting, self._sender
        while queue and self._serial is None and not (sender.blocked or self._closing or self._resting):
            frame = queue[0]
            if answers and (frame[:2] != PRODUCE_KEY or not self._may_overlap):
                break
            queue.popleft()
            self._queued_bytes -= len(frame)
            if type(frame) is memoryview:
                self._apply_leased(frame)
            else:
                self._apply(frame)
            if queue and turns.ends(began):
                self._due = turns.wait(self._go_on)
                break
        turns.worked(began)

    @property
    def _may_overlap(self) -> bool:
        """Whether one more Produce may be applied before those ahead of it are answered."""
        return len(self._order.waiting) < OPEN_ANSWERS and self._order.known_bytes < self._host.answer_bytes

    def _go_on(self) -> None:
        self._due = False
        if not self._closing:
            self._work(self._host.turns.clock())
            self._settle()

    def _apply(self, frame: Buffer) -> None:
        try:
            call = self._host.dispatcher.read(self.info, frame)
        except ProtocolError as error:
            self.refuse(str(error))
        except UnsupportedApiVersions as answer:
            self._sender.add(answer.parts)
        else:
            if call.undecoded is None:
                self._handle(call, len(frame))
            else:
                decoding = PendingAnswer(call, len(frame))
                self._begin_answer(decoding, self._host.dispatcher.decode(call), call.weight(len(frame)))

    def _handle(self, call: Call, size_bytes: int) -> None:
        """Have a decoded request worked on, and its answer sent or waited for."""
        dispatcher = self._host.dispatcher
        try:
            result = dispatcher.run(call)
            call.request = None  # it may be large, and the answer may take long
            if type(result) is not call.entry.response and is_coroutine(result):
                result = self._host.begin(result)
                if isinstance(result, Finished):
                    result = result.value
            if type(result) is call.entry.response:
                try:
                    parts = call.encode(result)
                except LargeMessage:
                    result = Deferred(dispatcher.encode(call, result))
                else:
                    self._answer_in_turn(call, parts)
                    return
        except ProtocolError as error:
            self.refuse(str(error))
        except CloseConnection as last:
            self.end(call, last)
        except StorageFailed as failure:
            self.storage_failed(failure)
        except Exception as bug:  # noqa: BLE001  a bug in one handler is not to end the others
            if parts := failed(self, call, bug):
                self._answer_in_turn(call, parts)
        else:
            self._begin_answer(PendingAnswer(call), result, call.weight(size_bytes))

    def _apply_leased(self, frame: memoryview) -> None:
        """A large request. Its buffer may be used again when it is applied or, if it has to wait for that, then."""
        lease = self._reader.lease_of(frame)
        self._apply(frame)
        frame.release()  # the records that a handler holds are views of their own
        self._keep_or_give_back(lease)

    def _keep_or_give_back(self, lease: FrameLease | None) -> None:
        if self._serial is not None:
            self._serial_lease = lease
        elif lease is not None:
            lease.give_back()

    def _begin_answer(self, answer: PendingAnswer, result: Any, size_bytes: int) -> None:
        if result is NO_ANSWER:
            return
        if isinstance(result, Deferred):
            self._defer(answer, result.answer)
            return
        self._serial, self._serial_bytes = answer, size_bytes
        self._serial_wait = wait = as_future(self._host, result)
        wait.add_done_callback(lambda done: self._serial_done(answer, done))

    def _serial_done(self, answer: PendingAnswer, done: "asyncio.Future[Any]") -> None:
        lease, self._serial_lease = self._serial_lease, None
        self._serial, self._serial_wait, self._serial_bytes = None, None, 0
        if self._closing:
            answer.drop(done)
        else:
            result = result_of(self, self._host.dispatcher, answer, done)
            if isinstance(result, Decoded):
                self._handle(answer.call, answer.request_bytes)
            elif isinstance(result, Deferred):
                self._defer(answer, result.answer)
            elif answer.parts:
                self._answer_in_turn(answer.call, answer.parts)
        self._keep_or_give_back(lease)
        if not self._closing:
            self._advance()

    def _defer(self, answer: PendingAnswer, awaitable: Awaitable[Any]) -> None:
        self._order.put(answer)
        self._wait_for(answer, awaitable)

    def _wait_for(self, answer: PendingAnswer, awaitable: Awaitable[Any]) -> None:
        as_future(self._host, awaitable).add_done_callback(lambda done: self._deferred_done(answer, done))

    def _deferred_done(self, answer: PendingAnswer, done: "asyncio.Future[Any]") -> None:
        if self._closing:
            answer.drop(done)
            return
        result = result_of(self, self._host.dispatcher, answer, done)
        if isinstance(result, Deferred):
            self._wait_for(answer, result.answer)
            return
        self._order.known(answer, self._sender.add)
        self._advance()

    # ------------------------------------------------------------------ the socket

    def _answer_in_turn(self, call: Call, parts: list[Buffer]) -> None:
        """A Produce may be refused at once while an earlier one waits for its fsync: its answer stays behind (I46)."""
        if not self._order.waiting:
            self._sender.add(parts)
            return
        answer = PendingAnswer(call)
        answer.parts = parts
        self._order.put(answer)

    def _check_reading(self) -> None:
        """Read on, or not."""
        if self._closing or self._ended or self._transport is None or self._transport.is_closing():
            return
        wanted = (
            not (self._sender.blocked or self._resting)
            and len(self._reader.frames) < QUEUED_REQUESTS
            and self._queued_bytes < QUEUED_BYTES
            and (not self._held_bytes or self.requests.may_read(self, self._advance))
        )
        if wanted and not self._reading:
            self._reading = True
            self.last_active = self._host.tick  # it was not its client that was silent
            self._transport.resume_reading()
        elif not wanted and self._reading:
            self._reading = False
            self._transport.pause_reading()

    @property
    def busy(self) -> bool:
        """Whether a request is being worked on, or an answer is on its way out."""
        return self.working or self._sender.blocked

    @property
    def stalls(self) -> bool:
        """Whether it is the client's turn while memory is short: it owes us the rest of a frame, and we read."""
        return self._reader.begun and self._reading and self.requests.exhausted

    def count_unsent(self) -> None:
        """Say how much of its answers the client has yet to take."""
        self._sender.count()

    @property
    def working(self) -> bool:
        """Whether it is our turn: a request is being worked on."""
        return self._serial is not None or bool(self._order.waiting)

    def stop_reading(self) -> None:
        """Take no more requests; those under way are answered."""
        self._stopping = self._resting = True
        self.muting.forget()
        self._check_reading()

    def mute(self, milliseconds: int) -> None:
        """Take no requests for so long: the client used more than its quota (KIP-219), or came too fast."""
        if not (self._closing or self._stopping) and self.muting.begin(milliseconds):
            self._resting = True
            self._check_reading()

    def _unmute(self) -> None:
        self._resting = False
        self._advance()

    def expire(self, reason: str) -> None:
        """Close a connection that is of no use any more, without waiting for it."""
        _log.info("connection closed", **self.info.told, reason=reason)
        self.abort()

    def close(self) -> None:
        self._closing = self.info.is_lost = True
        self.muting.forget()
        if self._transport is not None:
            self._sender.flush()
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for a client that does not read."""
        self._closing = self.info.is_lost = True
        self.muting.forget()
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, reason: str) -> None:
        """Close a connection whose client did what it may not, and say why."""
        _log.warning("connection closed", **self.info.told, reason=reason)
        self.close()

    def end(self, call: Call, last: CloseConnection) -> None:
        """Close it as a handler wishes, behind its last answer if it has one."""
        if last.answer is not None:
            self._sender.add(call.encode(last.answer))
        if reason := str(last):
            self.refuse(reason)
        else:
            self.close()

    def storage_failed(self, error: StorageFailed) -> None:
        """A disk refused a write: the process is to end."""
        self._host.storage_failed(error)
        self.close()
