"""A line to a server of buckets, on which requests go astray as a test wants it. It stands between both on a port of
its own, and passes on what it is not told to spoil.
"""

import contextlib
import http.client
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 60.0
REFUSED = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
NOT_THERE = b"<DeleteResult><Error>%s<Code>NoSuchKey</Code><Message>There is none.</Message></Error></DeleteResult>"


class Fault(Enum):
    """What becomes of a request."""

    FAILS = "it does not arrive, and is answered 503"
    HANGS = "it arrives nowhere, and nobody answers"
    ANSWER_LOST = "it is done, and the connection ends"
    LATE = "nobody answers, and it is done when the line is mended"
    UNANSWERED = "it is done, and nobody answers until the line is mended"
    REFUSED = "it does not arrive, and is answered 403"
    ANOTHER_WAS_FASTER = "objects are removed, and it is told that one of them was not there"


class Line:
    """`close` it. `spoil` is asked for each request (method, path); None: nothing happens to it."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.spoil: Callable[[str, str], Fault | None] = lambda method, path: None
        self.asked: Counter[str] = Counter()
        """By method, what has come."""
        self.spoiled: list[tuple[str, str]] = []
        """Method and path of what was not passed on as it should be."""
        self.done: list[tuple[str, str]] = []
        """Those of them that the server has done."""
        self.changed = threading.Condition()
        self._mended = threading.Event()
        self._closed = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        """The server can be reached, at the port where it was before."""
        self._server = _Server(("127.0.0.1", self.port), _handler_of(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def cut(self) -> None:
        """Nobody answers at the port any more, and the connections end."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for one in list(getattr(self._server, "connections")):  # noqa: B009
            with contextlib.suppress(OSError):  # It may end by itself in this very moment.
                one.shutdown(socket.SHUT_RDWR)
        self._server = None

    def close(self) -> None:
        self._closed.set()
        self.mend()
        if self._server is not None:
            self.cut()

    def mend(self) -> None:
        """Nothing is spoiled from now on; what was to be late arrives."""
        self.spoil = lambda method, path: None
        self._mended.set()

    def spoil_next(self, fault: Fault, *methods: str, times: int = 1) -> None:
        """So many of the next requests with these methods."""
        left = [times]

        def spoil(method: str, path: str) -> Fault | None:
            if method in methods and left[0] > 0:
                left[0] -= 1
                return fault
            return None

        self.spoil = spoil

    def wait_until_done(self, count: int) -> None:
        """Until so much was done that nobody was told of."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.done) >= count, PATIENCE_S), "nothing was asked"

    def handle(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        fault = self.spoil(asked.command, asked.path)
        with self.changed:
            self.asked[asked.command] += 1
            if fault is not None:
                self.spoiled.append((asked.command, asked.path))
            self.changed.notify_all()
        if fault in (Fault.FAILS, Fault.REFUSED):
            return _answer(asked, 503 if fault is Fault.FAILS else 403, b"" if fault is Fault.FAILS else REFUSED, [])
        if fault is Fault.HANGS:
            self._mended.wait()
            asked.close_connection = True
            return None
        if fault is Fault.LATE:
            self._mended.wait()
        if not self._closed.is_set():
            status, headers, found = self._pass_on(asked, body)
            if fault is Fault.ANOTHER_WAS_FASTER:
                key = re.search(rb"<Key>[^<]*</Key>", body)
                return _answer(asked, 200, NOT_THERE % (key[0] if key else b""), [])
            if fault is None:
                return _answer(asked, status, found, headers)
            with self.changed:
                self.done.append((asked.command, asked.path))
                self.changed.notify_all()
        if fault is Fault.UNANSWERED:
            self._mended.wait()
        asked.close_connection = True
        asked.connection.shutdown(socket.SHUT_RDWR)
        return None

    def _pass_on(self, asked: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        passed = http.client.HTTPConnection("127.0.0.1", self.to, timeout=PATIENCE_S)
        try:
            passed.putrequest(asked.command, asked.path, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers.items():
                passed.putheader(name, value)
            passed.endheaders(body)
            answer = passed.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            passed.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who has asked is gone."""


def _handler_of(line: Line) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *arguments: object) -> None:
            """Nobody wants to know."""

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", lambda self: line.handle(self))
    return Handler


def _answer(asked: BaseHTTPRequestHandler, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
    asked.send_response_only(status)
    own = ("content-length", "transfer-encoding", "connection")
    for name, value in headers:
        if name.lower() not in own:
            asked.send_header(name, value)
    asked.send_header("Content-Length", str(len(body)))
    asked.end_headers()
    if asked.command != "HEAD":
        asked.wfile.write(body)
