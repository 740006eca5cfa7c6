"""One connection to a broker: requests are sent in order, responses come back in that order.

Rule 1. Nothing is retried here, and no error code is looked at but the one of ApiVersions.
Rule 2. Requests that wait when the connection ends get `ConnectionLost`.
"""

import asyncio
import ssl
from collections import deque
from typing import Any, NamedTuple

from protocol.errors import ProtocolError
from protocol.framing import LENGTH, REQUESTS, read_response, request_parts
from protocol.messages.metadata import ApiVersionsResponse
from protocol.schema import schema_of
from tallystick.client.errors import ConnectionLost
from tallystick.client.greeting import common_version, version_answered, versions_asked, versions_in
from tallystick.client.sasl import authenticate
from tallystick.client.security import PLAINTEXT, Credentials, Security
from tallystick.client.session import session_end_s
from tallystick.client.tls_refusals import refusal

_SETUP_S = 10.0
"""As `socket.connection.setup.timeout.ms` of Java's clients. A machine that is gone says nothing, and the next of the
bootstrap servers is to be asked.
"""
_GREETING_S = 30.0
"""How long a broker may take to say what it speaks, and that it lets the client in."""


class _Waiting(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    answer: "asyncio.Future[Any]"


class Connection(asyncio.Protocol):
    """See the head of this file. Make one with `Connection.connect`."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self.versions: dict[int, range] = {}
        """What the broker lists, by API key; empty before `negotiate`."""
        self.features: dict[str, int] = {}
        """Finalised features, such as `transaction.version`."""
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self._address = ("", 0)
        self._session_end_s: float | None = None
        self._is_left = False
        self._lost = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = "tallystick",
        negotiate: bool = True,
        security: Security = PLAINTEXT,
    ) -> "Connection":
        """Open a connection and, unless disabled, request the broker's versions and authenticate."""
        loop = asyncio.get_running_loop()
        # Asked for first: a broker gives a new connection little time to authenticate.
        has_tokens = security.credentials is not None and security.credentials.tokens is not None
        token = await asyncio.to_thread(security.token) if has_tokens else None
        try:
            async with asyncio.timeout(_SETUP_S):
                _, connection = await loop.create_connection(lambda: cls(client_id), host, port, ssl=security.tls)
        except ssl.SSLError as error:
            raise refusal(error, (host, port)) or ConnectionLost(f"TLS was broken off: {error}") from error
        except TimeoutError as error:
            raise ConnectionLost(f"{host}:{port} does not answer") from error
        connection._address = (host, port)
        if negotiate:
            try:
                async with asyncio.timeout(_GREETING_S):
                    await connection.negotiate()
                    if security.credentials is not None:
                        await connection._authenticate(security.credentials, token)
            except TimeoutError as error:
                connection.abort()
                raise ConnectionLost(f"{host}:{port} does not answer: is it a broker?") from error
            except BaseException:
                connection.abort()
                raise
        return connection

    async def negotiate(self) -> ApiVersionsResponse:
        """Learn what the broker speaks."""
        talk, heard = versions_asked(), None
        while True:
            try:
                request, version = talk.send(heard)
            except StopIteration as end:
                answer: ApiVersionsResponse = end.value
                break
            heard = await self.ask(request, version)
        self.versions = versions_in(answer)
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        return answer

    async def _authenticate(self, who: Credentials, token: str | None) -> None:
        began_s = asyncio.get_running_loop().time()
        self._session_end_s = session_end_s(began_s, await authenticate(self, who, token))

    def version_for(self, request: type) -> int:
        """The highest version that both sides know. Raises `UnsupportedByBroker`."""
        return common_version(request, self.versions)

    def ask(self, request: object, version: int | None = None) -> "asyncio.Future[Any]":
        """Send a request; its answer (the response of the same API) can be awaited. The request is under way when this
        returns, so that several may be.

        Typed as `Any` because which class it is follows from the request by table, not by type.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        api_key = schema_of(type(request)).api_key
        chosen = self.version_for(type(request)) if version is None else version
        correlation_id = self._send(request, chosen)
        self._waiting.append(_Waiting(correlation_id, api_key, chosen, answer))
        return answer

    def tell(self, request: object, version: int | None = None) -> None:
        """Send a request that is not answered: a Produce with acks=0."""
        self._send(request, self.version_for(type(request)) if version is None else version)

    def send_bytes(self, data: bytes) -> None:
        """Send whatever you like; for tests of what a broker does with it."""
        self._live_transport().write(data)

    async def wait_until_lost(self) -> None:
        """Until the connection has ended, from either side."""
        await asyncio.shield(self._lost)

    @property
    def is_lost(self) -> bool:
        return self._lost.done()

    @property
    def is_of_use(self) -> bool:
        """Whether requests are to be sent: it is there, and its session has some time left."""
        ends_s = self._session_end_s
        return not self.is_lost and (ends_s is None or asyncio.get_running_loop().time() < ends_s)

    def leave(self) -> None:
        """End the connection when what is under way is answered."""
        self._is_left = True
        if not self._waiting and self._transport is not None:
            self._transport.close()

    async def close(self) -> None:
        """End the connection in an orderly way."""
        if self._transport is not None:
            self._transport.close()
            await self.wait_until_lost()

    def abort(self) -> None:
        """End the connection at once, unsent bytes and all."""
        if self._transport is not None:
            self._transport.abort()

    def _live_transport(self) -> asyncio.Transport:
        if self._transport is None or self.is_lost or self._transport.is_closing():
            raise ConnectionLost("the connection has ended")
        return self._transport

    def _send(self, request: object, version: int) -> int:
        transport = self._live_transport()
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        transport.writelines(request_parts(request, version, correlation_id, self.client_id))
        return correlation_id

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        position = 0
        while len(self._received) - position >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._received, position)
            begin = position + LENGTH.size
            if len(self._received) - begin < length:
                break
            self._answer(bytes(self._received[begin : begin + length]))
            position = begin + length
        del self._received[:position]

    def connection_lost(self, error: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                name = REQUESTS[waiting.api_key].__name__
                waiting.answer.set_exception(
                    refusal(error, self._address)
                    or ConnectionLost(f"{name} was not answered: {error or 'closed by the broker'}")
                )

    def _answer(self, frame: bytes) -> None:
        """Give a frame to the oldest waiting request. A frame that cannot be read ends the connection."""
        if not self._waiting:
            self.abort()
            return
        waiting = self._waiting.popleft()
        version = version_answered(waiting.api_key, waiting.version, frame)
        try:
            correlation_id, message = read_response(waiting.api_key, version, frame)
            if correlation_id != waiting.correlation_id:
                raise ProtocolError(f"answer {correlation_id} where {waiting.correlation_id} was due")
        except ProtocolError as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
            self.abort()
            return
        if not waiting.answer.done():
            waiting.answer.set_result(message)
        if self._is_left and not self._waiting:
            self._live_transport().close()
