"""Conversations with the driver's Python process: lines of JSON, questions there and answers back, on one connection.

Rule 1. A connection is its asker's life: whoever answers notices its end, and what it means is theirs to say.
Rule 2. What cannot be read gets no answer, and the connection ends.
"""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

Answering = Callable[[Iterator[Mapping[str, Any]]], Generator[Mapping[str, Any]]]
"""The answers to the questions of one connection. May raise ValueError, KeyError or TypeError for what is no question;
closed when the connection ends.
"""
LONGEST = 1 << 22
"""Of a line, in bytes."""
_MANY_TASKS = 1024
"""Tasks may begin all at once."""
_KEPT_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A machine that is gone says nothing: after a minute its connections are taken for ended. Not every system has all."""


class ConversationServer:
    """Answers in threads of its own, one for each connection."""

    def __init__(self, bind: str, answer: Answering, name: str) -> None:
        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in _KEPT_ALIVE.items():
                    if hasattr(socket, option):
                        self.connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
                with suppress(ValueError, KeyError, TypeError, OSError):
                    lines = iter(lambda: self.rfile.readline(LONGEST), b"")
                    with closing(answer(json.loads(line) for line in lines)) as answers:
                        for told in answers:
                            self.wfile.write(json.dumps(told).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = _MANY_TASKS

        self._server = Server((bind, 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
