"""The thread that sends: all of it at the end, samples as variables say, and nothing is kept that is refused."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from broker.tracing.exporting import Exporting
from tests.unit.tracing.test_transaction_trace import Story


def told(exporter: InMemorySpanExporter, transactions: int = 1) -> None:
    """So many transactions end, then the broker."""
    exporting = Exporting(exporter, 7)
    story = Story()
    story.journal.on_ended = exporting.waiting.take
    for _ in range(transactions):
        story.ask("InitProducerId", "Empty")
        story.ask("AddPartitionsToTxn", "Ongoing")
        story.ask("EndTxn", "PrepareAbort", because="EndTxn, abort")
        story.change("CompleteAbort")
    exporting.stop()
    assert len(exporting.waiting) == 0


class Kept(InMemorySpanExporter):  # type: ignore[misc]
    """Also after its end."""

    def shutdown(self) -> None:
        pass


class Refusing(Kept):
    """Takes nothing."""

    def export(self, spans: list[ReadableSpan]) -> SpanExportResult:
        super().export(spans)
        return SpanExportResult.FAILURE


def test_what_waits_at_the_end_is_sent() -> None:
    told(exporter := Kept())
    spans = {span.name: span for span in exporter.get_finished_spans()}
    root = spans["transaction tx"]
    assert set(spans) == {"transaction tx", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "PrepareAbort"}
    assert root.status.description == "aborted: EndTxn, abort"
    assert spans["EndTxn"].parent.span_id == root.context.span_id
    assert spans["InitProducerId"].parent is None
    assert [link.context.span_id for link in root.links] == [spans["InitProducerId"].context.span_id]
    assert root.resource.attributes["service.instance.id"] == "7"


def test_what_opentelemetry_is_told_of_the_service_goes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    told(exporter := Kept())
    said = exporter.get_finished_spans()[0].resource.attributes
    assert (said["service.name"], said["deployment.environment.name"]) == ("orders-broker", "test")


def test_a_sampler_that_wants_nothing_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    told(exporter := Kept())
    assert exporter.get_finished_spans() == ()


def test_many_go_in_messages_of_a_bounded_size() -> None:
    sizes: list[int] = []

    class Counting(Kept):
        def export(self, spans: list[ReadableSpan]) -> SpanExportResult:
            sizes.append(len(spans))
            return super().export(spans)

    told(Counting(), 300)
    assert sum(sizes) == 300 * 5
    assert max(sizes) < 600


def test_what_is_refused_is_not_sent_again_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    told(exporter := Refusing(), 300)
    assert len(exporter.get_finished_spans()) == 300 * 5
    assert [record.getMessage() for record in caplog.records] == ["the collector takes no traces, they are thrown away"]
