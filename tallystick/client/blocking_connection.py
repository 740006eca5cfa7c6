"""One connection to a broker, for programs that block: bytes come from the socket into one buffer and are not copied
again. It says at first what connections of asyncio say (`greeting`, `sasl`), over the same TLS.

Rule 1. One request may be under way, and no more. Nothing is retried here.
Rule 2. Whatever goes wrong with the connection is `ConnectionLost`; what would go wrong again is a `NoWayIn`.
"""

import socket
import ssl
import time
from collections.abc import Generator
from typing import Any

from protocol.errors import ProtocolError
from protocol.framing import LENGTH, read_response, request_parts
from protocol.schema import schema_of
from tallystick.client.errors import ConnectionLost
from tallystick.client.greeting import Asked, common_version, version_answered, versions_asked, versions_in
from tallystick.client.sasl import conversation, version_of
from tallystick.client.security import PLAINTEXT, Security
from tallystick.client.session import session_end_s
from tallystick.client.tls_refusals import refusal

_LARGEST_ANSWER = 1 << 30


class BlockingConnection:
    """Connected by the constructor."""

    def __init__(
        self, address: tuple[str, int], client_id: str | None, security: Security = PLAINTEXT, *, timeout_s: float
    ) -> None:
        self._address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, range] = {}
        self._ends_s: float | None = None
        token = security.token()
        self._socket = self._opened(security, timeout_s)
        try:
            self._versions = versions_in(self._held(versions_asked()))
            if security.credentials is not None:
                began_s = time.monotonic()
                lasts_ms = self._talked(conversation(security.credentials, token))
                self._ends_s = session_end_s(began_s, lasts_ms)
        except BaseException:
            self.close()
            raise

    @property
    def is_stale(self) -> bool:
        """Whether the broker is about to end its session: then another connection is wanted."""
        return self._ends_s is not None and time.monotonic() > self._ends_s

    def version_for(self, request: type) -> int:
        """The highest version that both sides know. Raises `UnsupportedByBroker`."""
        return common_version(request, self._versions)

    def send(self, request: object, version: int) -> None:
        """Begin a request; `receive` waits for what comes back."""
        self._correlation_id += 1
        try:
            self._socket.sendall(b"".join(request_parts(request, version, self._correlation_id, self._client_id)))
        except OSError as error:
            raise refusal(error, self._address) or ConnectionLost(f"cannot send: {error}") from error

    def receive(self, api_key: int, version: int) -> Any:
        """The response to the request under way; its records are views of what was received."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        if not 4 <= length <= _LARGEST_ANSWER:
            raise ConnectionLost(f"an answer of {length} bytes")
        frame = memoryview(self._exactly(length))
        try:
            correlation_id, message = read_response(api_key, version_answered(api_key, version, frame), frame)
        except ProtocolError as error:
            raise ConnectionLost(f"an answer that cannot be read: {error}") from error
        if correlation_id != self._correlation_id:
            raise ConnectionLost(f"answer {correlation_id} where {self._correlation_id} was due")
        return message

    def close(self) -> None:
        self._socket.close()

    def _opened(self, security: Security, timeout_s: float) -> socket.socket:
        opened = socket.create_connection(self._address, timeout=timeout_s)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.tls is None:
                return opened
            return security.tls.wrap_socket(opened, server_hostname=self._address[0])
        except ssl.SSLError as error:
            opened.close()
            raise refusal(error, self._address) or ConnectionLost(f"TLS was broken off: {error}") from error
        except OSError:
            opened.close()
            raise

    def _held(self, talk: Generator[Asked, Any, Any]) -> Any:
        answer = None
        while True:
            try:
                request, version = talk.send(answer)
            except StopIteration as end:
                return end.value
            answer = self._asked(request, version)

    def _talked(self, talk: Generator[object, Any, int]) -> int:
        answer = None
        while True:
            try:
                request = talk.send(answer)
            except StopIteration as end:
                return int(end.value)
            version = version_of(request)
            answer = self._asked(request, self.version_for(type(request)) if version is None else version)

    def _asked(self, request: object, version: int) -> Any:
        self.send(request, version)
        return self.receive(schema_of(type(request)).api_key, version)

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise refusal(error, self._address) or ConnectionLost(f"cannot receive: {error}") from error
            if not count:
                raise ConnectionLost("closed by the broker")
            view = view[count:]
        return received
