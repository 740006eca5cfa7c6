"""The thread that turns transactions into spans of OpenTelemetry and sends them to a collector.

Rule 1. The broker's loop never waits for it; its end waits for `FLUSH_S` at most, and not at all for a collector that
took nothing last time.
Rule 2. What the collector refuses is gone: it is told once, and again when it goes on.

A transaction is looked at no earlier than one turn after its end: the answer to its EndTxn may be noted after it.
Sampling, headers, certificates and timeouts are OpenTelemetry's own, with its variables (`OTEL_TRACES_SAMPLER`,
`OTEL_EXPORTER_OTLP_HEADERS` and others).
"""

import contextlib
import logging
import threading
from importlib.metadata import PackageNotFoundError, version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, set_span_in_context

from broker.process.logging import EventLog
from broker.tracing.transaction_trace import TracedSpan, TransactionTrace, trace_of
from broker.tracing.waiting_transactions import WaitingTransactions

SERVICE = "tallystick"
TURN_S = 0.5
FLUSH_S = 2.0
LET_GO_S = 0.2
"""How long the end waits for a collector that takes nothing."""
MOST_SPANS = 512
"""Of one message."""
NS_OF_MS = 1_000_000

_log = EventLog("tracing")


class _Collected(SpanProcessor):  # type: ignore[misc]
    """Keeps spans that have ended and are sampled."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        if span.context.trace_flags.sampled:
            self.spans.append(span)


class _LastWords(logging.Handler):
    """What the exporter says of its failures: it goes into a line of ours, not into one of its own for each try."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class Exporting:
    """Of one broker; `waiting.take` is for its journal."""

    def __init__(self, exporter: SpanExporter, node_id: int) -> None:
        self.waiting = WaitingTransactions()
        self._exporter = exporter
        self._reason = _quiet()
        self._collected = _Collected()
        provider = TracerProvider(resource=_resource(node_id), shutdown_on_exit=False)
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer(SERVICE)
        self._is_failing = False
        self._told_dropped = 0
        self._stop = threading.Event()
        # A daemon: one that hangs in a collector does not keep the process.
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    @staticmethod
    def to(address: str, node_id: int) -> "Exporting":
        """To a collector, in OTLP over HTTP."""
        return Exporting(OTLPSpanExporter(endpoint=address), node_id)

    def stop(self) -> None:
        """After the broker has stopped: send what is left, for a bounded time."""
        self._stop.set()
        self._thread.join(LET_GO_S if self._is_failing else FLUSH_S)
        if self._thread.is_alive():
            _log.warning("traces were left behind", transactions=len(self.waiting))
        self._exporter.shutdown()

    # -- in its own thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        older = 0
        while not self._stop.wait(TURN_S):
            self._convert(older)
            self._tell_dropped()
            older = len(self.waiting)
        self._convert(len(self.waiting))
        self._tell_dropped()

    def _convert(self, count: int) -> None:
        for _ in range(count):
            self._make(trace_of(self.waiting.next()))
            if len(self._collected.spans) >= MOST_SPANS:
                self._send()
        self._send()

    def _make(self, trace: TransactionTrace) -> None:
        links = []
        for span in trace.before:
            made = self._begin(span, Context())
            self._end(made, span)
            links.append(Link(made.get_span_context()))
        root = self._begin(trace.root, Context(), links)
        if root.is_recording():  # else it is not sampled, and its children are not either
            inside = set_span_in_context(root, Context())
            for span in trace.children:
                self._end(self._begin(span, inside), span)
            for state, at_ms in trace.states:
                root.add_event(state, timestamp=at_ms * NS_OF_MS)
        self._end(root, trace.root)

    def _begin(self, span: TracedSpan, inside: Context, links: list[Link] | None = None) -> Span:
        return self._tracer.start_span(
            span.name,
            inside,
            SpanKind.SERVER if span.is_request else SpanKind.INTERNAL,
            span.attributes,
            links,
            start_time=span.start_ms * NS_OF_MS,
        )

    @staticmethod
    def _end(made: Span, span: TracedSpan) -> None:
        made.set_status(Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK))
        made.end(end_time=span.end_ms * NS_OF_MS)

    def _send(self) -> None:
        spans, self._collected.spans = self._collected.spans, []
        if not spans:
            return
        was_failing = self._is_failing
        self._is_failing = self._exporter.export(spans) is not SpanExportResult.SUCCESS
        if self._is_failing and not was_failing:
            _log.warning("the collector takes no traces, they are thrown away", reason=self._reason.text)
        elif was_failing and not self._is_failing:
            _log.info("the collector takes traces again")

    def _tell_dropped(self) -> None:
        dropped = self.waiting.dropped
        if dropped != self._told_dropped:
            _log.warning(
                "transactions without a trace: too many waited", count=dropped - self._told_dropped, all=dropped
            )
            self._told_dropped = dropped


def _resource(node_id: int) -> Resource:
    """Who sends; what OpenTelemetry's variables say of it goes before (`OTEL_SERVICE_NAME`)."""
    said = {"service.name": SERVICE, "service.instance.id": str(node_id)}
    with contextlib.suppress(PackageNotFoundError):  # run from its sources
        said["service.version"] = version(SERVICE)
    return Resource.create(said).merge(OTELResourceDetector().detect())


def _quiet() -> _LastWords:
    logger, words = logging.getLogger("opentelemetry.exporter"), _LastWords()
    logger.handlers[:] = [words]
    logger.propagate = False
    return words
