"""The driver's notes of leases: those of the newest batch, for who knows the token."""

import pytest

pytest.importorskip("pyspark")

from spark_connector.lines import ask
from spark_connector.metrics import BatchMetrics, sink_metrics
from spark_connector.sink.lease_notes import Notes, NoteServer
from tallystick.client.background import monotonic_s
from tallystick.client.lease import Lease

ONE, TWO = Lease("s", 1, 0, True), Lease("s", 1, 1, False)


def test_the_leases_of_a_batch_are_known_until_the_next() -> None:
    server = NoteServer("127.0.0.1", "127.0.0.1")
    try:
        notes = server.notes
        assert notes.of("a", 3) == []
        notes.keep("a", 3, ONE)
        notes.keep("a", 3, TWO)
        notes.keep("b", 3, ONE)
        assert notes.of("a", 3) == [ONE, TWO]
        assert notes.of("b", 3) == [ONE] and notes.of("a", 2) == []
        notes.keep("a", 4, TWO)
        assert notes.of("a", 3) == [] and notes.of("a", 4) == [TWO]
        assert ask(notes.address, {"token": "guessed", "sink": "a", "batch": 4}) is None
        assert ask(notes.address, {"token": notes.token, "sink": "a"}) is None
    finally:
        server.close()


def test_what_a_batch_came_to_is_kept_for_the_drivers_program() -> None:
    metrics = BatchMetrics("spark-q", 3, records=5, size_bytes=70, retries=0, commit_ms=2)
    server = NoteServer("127.0.0.1", "127.0.0.1")
    try:
        server.notes.committed("q-of-this-test", metrics)
        assert sink_metrics("q-of-this-test") == [metrics] and sink_metrics("another") == []
        told = {"query": "q-of-this-test", "metrics": {"batch": 4}}
        assert ask(server.notes.address, {**told, "token": server.notes.token}) is None
        assert ask(server.notes.address, {**told, "token": "guessed"}) is None
        assert sink_metrics("q-of-this-test") == [metrics]
    finally:
        server.close()


def test_a_driver_out_of_reach_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch would wait for it otherwise; and one that only was busy is told again what batches came to."""
    server = NoteServer("127.0.0.1", "127.0.0.1")
    server.close()
    asked = []

    def asking(*given: object) -> None:
        asked.append(given)
        raise OSError("out of reach")

    monkeypatch.setattr("spark_connector.sink.lease_notes.ask", asking)
    notes = Notes(server.notes.address, "t")
    notes.keep("a", 1, ONE)
    notes.keep("a", 2, ONE)
    assert notes.of("a", 2) == []
    assert len(asked) == 1
    later_s = monotonic_s() + 61
    monkeypatch.setattr("spark_connector.sink.lease_notes.monotonic_s", lambda: later_s)
    notes.keep("a", 3, ONE)
    notes.keep("a", 4, ONE)
    assert len(asked) == 2
