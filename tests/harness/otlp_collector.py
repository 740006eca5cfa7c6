"""A collector of traces in this process: takes OTLP over HTTP, and keeps the spans it was sent."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """A span as it came; `parent` is empty for a root."""

    trace: bytes
    id: bytes
    parent: bytes
    name: str
    start_ns: int
    end_ns: int
    is_error: bool
    message: str
    attributes: dict[str, Any]
    events: tuple[str, ...]
    links: tuple[bytes, ...]
    """Traces that it is linked to."""
    resource: dict[str, Any]


class Collector:
    """What has come so far."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.spans: list[CollectedSpan] = []
        self._came = threading.Condition()

    def take(self, message: bytes) -> None:
        spans = list(_read(ExportTraceServiceRequest.FromString(message)))
        with self._came:
            self.spans += spans
            self._came.notify_all()

    def wait_for_root(self, is_wanted: Callable[[CollectedSpan], bool]) -> tuple[CollectedSpan, list[CollectedSpan]]:
        """A root and its children; they may come in several messages, the root last."""

        def found() -> CollectedSpan | None:
            return next((span for span in self.spans if not span.parent and is_wanted(span)), None)

        with self._came:
            root = self._came.wait_for(found, PATIENCE_S)
        assert root is not None, self.spans
        return root, [span for span in self.spans if span.trace == root.trace and span.parent]

    def wait_for_roots(self, count: int) -> None:
        """Until so many transactions have come."""
        with self._came:
            assert self._came.wait_for(
                lambda: sum(span.name.startswith("transaction ") for span in self.spans) >= count, PATIENCE_S
            )


def _read(message: Any) -> Iterator[CollectedSpan]:
    for of_resource in message.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for span in (span for scope in of_resource.scope_spans for span in scope.spans):
            yield CollectedSpan(
                span.trace_id,
                span.span_id,
                span.parent_span_id,
                span.name,
                span.start_time_unix_nano,
                span.end_time_unix_nano,
                span.status.code == span.status.STATUS_CODE_ERROR,
                span.status.message,
                _values(span.attributes),
                tuple(event.name for event in span.events),
                tuple(link.trace_id for link in span.links),
                resource,
            )


def _values(attributes: Sequence[Any]) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
