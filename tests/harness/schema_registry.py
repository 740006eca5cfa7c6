"""A Schema Registry for tests: what it was given, over HTTP on a port of its own."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorProto


class FakeRegistry:
    """Ids count from 1. `serialized` is what Protobuf schemas are with `format=serialized`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        self.failures = 0
        """How many requests are still to be answered with 503."""
        self.texts: dict[str, str] = {}
        """What a registry makes of the file descriptors that Python's serialiser registers: schemas by their file."""
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def register(self, subject: str, kind: str, text: str, *, serialized: str = "", references: Any = ()) -> int:
        number = len(self._schemas) + 1
        response = {"id": number, "schemaType": kind, "schema": text, "references": list(references)}
        self._schemas.append(response | {"serialized": serialized})
        self._subjects.setdefault(subject, []).append(number)
        return number

    def take(self, path: str, said: dict[str, Any]) -> dict[str, Any] | None:
        """A serialiser registers a schema, or looks up which one it is."""
        parts = urlsplit(path).path.strip("/").split("/")
        subject, kind, text = unquote(parts[1]), said.get("schemaType", "AVRO"), said["schema"]
        serialized = ""
        if kind == "PROTOBUF":
            serialized = text
            name = FileDescriptorProto.FromString(base64.b64decode(text)).name
            text = self.texts.get(name, serialized)
        number = next(
            (one for one in self._subjects.get(subject, ()) if self._schemas[one - 1]["schema"] == text), None
        )
        if number is None and parts[2:] == ["versions"]:
            references = said.get("references") or ()
            number = self.register(subject, kind, text, serialized=serialized, references=references)
        if number is None:
            return None
        return {"id": number, "subject": subject, "version": self._subjects[subject].index(number) + 1, "schema": text}

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

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = registry.take(self.path, said)
            self._send(200 if found else 404, found or {"error_code": 40403, "message": "not found"})

        def _send(self, status: int, response: dict[str, Any]) -> None:
            body = json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
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
