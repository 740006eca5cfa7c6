"""A Schema Registry for tests: what it was given, over HTTP on a port of its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class FakeRegistry:
    """Ids count from 1. `serialized` is what Protobuf schemas are with `format=serialized`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        self.failures = 0
        """How many requests are still to be answered with 503."""
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def register(self, subject: str, kind: str, text: str, *, serialized: str = "", references: Any = ()) -> int:
        number = len(self._schemas) + 1
        response = {"id": number, "schemaType": kind, "schema": text, "references": list(references)}
        self._schemas.append(response | {"serialized": serialized})
        self._subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> dict[str, Any] | None:
        parts, query = urlsplit(path).path.strip("/").split("/"), parse_qs(urlsplit(path).query)
        number = None
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
        elif parts[0] == "subjects" and parts[2] == "versions":
            versions = self._subjects.get(unquote(parts[1]), [])
            number = versions[-1 if parts[3] == "latest" else int(parts[3]) - 1] if versions else None
        if number is None or number > len(self._schemas):
            return None
        response = dict(self._schemas[number - 1])
        serialized = response.pop("serialized")
        if query.get("format") == ["serialized"] and serialized:
            response["schema"] = serialized
        if response["schemaType"] == "AVRO":
            del response["schemaType"]  # As registries do: it is what there was first.
        return response


@contextmanager
def serving() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.credentials.append(self.headers.get("Authorization"))
            found = registry.answer(self.path)
            if registry.failures:
                registry.failures -= 1
                self._send(503, {"message": "not now"})
            elif found is None:
                self._send(404, {"error_code": 40403, "message": "not found"})
            else:
                self._send(200, found)

        def _send(self, status: int, response: dict[str, Any]) -> None:
            body = json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_told: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
