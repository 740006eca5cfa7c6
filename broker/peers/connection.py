"""One connection to another node: requests go out as they come, answers come back in that order.

Rule 1. Whatever goes wrong ends the connection, and everybody who waits gets `PeerUnreachable`: an answer that is not
the next one, that is too large, that cannot be read or that does not come in time. What is behind it has no owner.
Rule 2. A caller that goes away leaves an empty place in the row; its answer is taken and thrown away.
Rule 3. What is held is what others ask for: a request until it is sent, for no longer than its patience, and one answer
of at most `MOST_ANSWER_BYTES`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

from broker.peers.port import PeerUnreachable, R
from protocol.errors import ProtocolError
from protocol.framing import LENGTH, RESPONSES, read_response, request_parts
from protocol.schema import schema_of

MOST_ANSWER_BYTES = 100 << 20
"""As much as a node takes of a request by default (`socket.request.max.bytes`)."""


class _Waiting(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    until_s: float
    answer: "asyncio.Future[object]"


class PeerConnection(asyncio.Protocol):
    """See the head of this file. `name` is who is at the other end, for people; `on_end` is called once, with the
    reason."""

    def __init__(self, name: str, client_id: str, patience_s: float, on_end: Callable[[str], None]) -> None:
        self.has_answered = False
        """Since it is in use: what is said in greeting does not show that the node serves."""
        self.lost: asyncio.Future[None] | None = None
        """Done when the transport is gone; None where there never was one."""
        self._name = name
        self._client_id = client_id
        self._patience_s = patience_s
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended = ""
        """Why, if it is."""
        self._is_left = False
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent. One that the other side is closing is not open."""
        return self._transport is not None and not self._ended and not self._transport.is_closing()

    async def ask(self, request: object, version: int, response: type[R]) -> R:
        """The answer to a request. Raises `PeerUnreachable`."""
        assert RESPONSES[schema_of(type(request)).api_key] is response
        answer = await self._send(request, version)
        assert isinstance(answer, response)
        return answer

    def _send(self, request: object, version: int) -> "asyncio.Future[object]":
        if not self.is_open:
            raise PeerUnreachable(self._ended or f"{self._name} closes the connection")
        assert self._transport is not None
        correlation_id = self._next_correlation_id
        parts = request_parts(request, version, correlation_id, self._client_id)
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        answer: asyncio.Future[object] = self._loop.create_future()
        until_s = self._loop.time() + self._patience_s
        self._waiting.append(_Waiting(correlation_id, schema_of(type(request)).api_key, version, until_s, answer))
        self._transport.writelines(parts)
        self._watch()
        return answer

    def end(self, problem: str) -> None:
        """End it at once, unsent bytes and all; `problem` reads on from the name of the node."""
        if self._ended:
            return
        self._ended = f"{self._name} {problem}"
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        self._received = bytearray()
        if self._transport is not None:
            self._transport.abort()
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(PeerUnreachable(self._ended))
        self._on_end(problem)

    def leave(self) -> None:
        """End it when what is under way is answered."""
        self._is_left = True
        if not self._waiting:
            self.end("is left for another connection")

    # -- time ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """All have the same patience, so that the first is due first; one timer is enough."""
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_at(self._waiting[0].until_s, self._look_at_the_oldest)

    def _look_at_the_oldest(self) -> None:
        self._timer = None
        if self._waiting and self._waiting[0].until_s <= self._loop.time():
            self.end(f"did not answer in {self._patience_s:g} s")
        else:
            self._watch()

    # -- called by asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.lost = self._loop.create_future()
        if self._ended:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        position = 0
        while len(self._received) - position >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._received, position)
            if not 0 <= length <= MOST_ANSWER_BYTES:
                self.end(f"announces an answer of {length} bytes")
                return
            begin = position + LENGTH.size
            if len(self._received) - begin < length:
                break
            position = begin + length
            self._take(bytes(memoryview(self._received)[begin:position]))
            if self._ended:
                return
        del self._received[:position]

    def connection_lost(self, error: Exception | None) -> None:
        if self.lost is not None and not self.lost.done():
            self.lost.set_result(None)
        self.end(f"is gone: {error}" if error else "closed the connection")

    def _take(self, frame: bytes) -> None:
        """Give a frame to whoever has waited for longest."""
        if not self._waiting:
            self.end("answers what nobody asked")
            return
        oldest = self._waiting[0]
        try:
            correlation_id, message = read_response(oldest.api_key, oldest.version, frame)
        except ProtocolError as problem:
            self.end(f"answers what cannot be read: {problem}")
            return
        if correlation_id != oldest.correlation_id:
            self.end(f"answers {correlation_id} where {oldest.correlation_id} is due")
            return
        self._waiting.popleft()
        self.has_answered = True
        if not oldest.answer.done():
            oldest.answer.set_result(message)
        if self._is_left:
            self.leave()
