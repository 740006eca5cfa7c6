"""A token endpoint (RFC 6749, 4.4) that is told what to answer."""

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Answer = tuple[int, Mapping[str, Any]]
"""Status and body."""


class TokenEndpoint:
    """The last of its answers is given for good."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.heard: list[tuple[str | None, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
                self.heard.append((handler.headers["Authorization"], body))
                status, said = answers[min(len(self.heard), len(answers)) - 1]
                written = json.dumps(said).encode()
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(written)))
                handler.end_headers()
                handler.wfile.write(written)

            def log_message(handler, *_said: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
