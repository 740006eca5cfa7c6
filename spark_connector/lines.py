"""Questions to the driver's Python process: one line of JSON there, one line of JSON back, over a socket.

Rule 1. A question that cannot be read gets no answer, and the connection ends.
"""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

Address = tuple[str, int]
Answering = Callable[[Mapping[str, Any]], Mapping[str, Any]]
PATIENCE_S = 30.0
_LONGEST = 1 << 20


class LineServer:
    """Answers in threads of its own. `answer` may raise ValueError, KeyError or TypeError for what is no question."""

    def __init__(self, bind: str, answer: Answering, name: str) -> None:
        class Handler(socketserver.StreamRequestHandler):
            timeout = PATIENCE_S

            def handle(self) -> None:
                with suppress(ValueError, KeyError, TypeError, OSError):
                    asked = json.loads(self.rfile.readline(_LONGEST))
                    self.wfile.write(json.dumps(answer(asked)).encode() + b"\n")

        self._server = socketserver.ThreadingTCPServer((bind, 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def ask(address: Address, question: Mapping[str, Any], patience_s: float = PATIENCE_S) -> dict[str, Any] | None:
    """The answer; None where the driver had none. Raises OSError where it does not answer at all."""
    with socket.create_connection(address, patience_s) as connection:
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = answers.readline()
    if not answer:
        return None
    found: dict[str, Any] = json.loads(answer)
    return found
