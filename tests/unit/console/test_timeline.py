"""The picture of a transaction's steps, out of what a broker's journal says."""

from typing import Any

import pytest

from tallystick.console.reading.timeline import DRAWN, TOLD, Picture, picture

START = 1_790_000_000_000


def request(at: int, api: str, number: int, **more: Any) -> dict[str, Any]:
    return {"is": "request", "at": START + at, "number": number, "client": 0, "api": api, "version": 5, "says": {},
            "answeredAt": START + at + 2, "error": "NONE", "gives": {}} | more  # fmt: skip


def state(at: int, name: str, **more: Any) -> dict[str, Any]:
    return {"is": "state", "at": START + at, "state": name, "producerId": 7, "epoch": 1, "partitions": 2,
            "timeoutMs": 60_000, "because": "partitions", "request": 1} | more  # fmt: skip


def records(at: int, topic: str | None, partition: int | None, **more: Any) -> dict[str, Any]:
    return {"is": "records", "at": START + at, "until": START + at + 40, "client": 0, "version": 12, "topic": topic,
            "partition": partition, "baseOffset": 5, "lastOffset": 9, "producerId": 7, "epoch": 1, "batches": 2,
            "records": 5, "bytes": 512, "error": "NONE"} | more  # fmt: skip


def markers(at: int, commit: bool, *places: tuple[str, int]) -> dict[str, Any]:
    return {"is": "markers", "at": START + at, "until": START + at + 3, "commit": commit, "producerId": 7, "epoch": 2,
            "byOperator": False, "error": "NONE", "places": [[*place, 10] for place in places],
            "count": len(places)}  # fmt: skip


def journal(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    client = {"clientId": "copier", "host": "10.0.0.7", "port": 51234, "software": "librdkafka", "version": "2.5.0"}
    return {"transactionalId": "tx", "now": START + 90_000, "began": START, "known": True, "dropped": 0,
            "clients": [client], "events": list(events)} | more  # fmt: skip


WHOLE = (
    request(0, "InitProducerId", 1),
    state(1, "Empty", partitions=0),
    state(50, "Ongoing"),
    records(60, "orders", 0),
    records(70, "orders", 1),
    request(3_600_000, "EndTxn", 2),
    state(3_600_001, "PrepareCommit"),
    markers(3_600_003, True, ("orders", 0), ("orders", 1)),
    state(3_600_010, "CompleteCommit", partitions=0),
)


def drawn(*events: dict[str, Any], **more: Any) -> Picture:
    made = picture(journal(*events, **more))
    assert made is not None
    return made


def test_each_has_a_lane_of_its_own() -> None:
    made = drawn(*WHOLE)
    assert [lane.text for lane in made.lanes] == ["state", "copier (10.0.0.7)", "orders-0", "orders-1"]
    places = {(shape.kind, shape.y) for shape in made.shapes}
    first, second = (lane.y for lane in made.lanes[2:])
    assert {("records", first), ("records", second), ("commit", first), ("commit", second)} <= places


def test_time_runs_to_the_right_and_an_hour_is_not_a_thousand_times_a_second() -> None:
    made = drawn(*WHOLE)
    (ongoing,) = (shape for shape in made.shapes if shape.kind == "open")
    (empty,) = (shape for shape in made.shapes if shape.kind == "plain")
    assert empty.x < ongoing.x
    assert ongoing.label == "Ongoing"
    assert empty.width < ongoing.width < 20 * empty.width
    assert all(made.left <= shape.x and shape.x + shape.width <= made.width for shape in made.shapes)


def test_what_happened_in_one_millisecond_stands_in_a_row() -> None:
    made = drawn(state(0, "Empty"), state(0, "Ongoing"), request(0, "EndTxn", 1, answeredAt=START), state(0, "Dead"))
    places = [shape.x for shape in made.shapes if shape.kind in ("plain", "open", "step")]
    assert len(set(places)) == 4
    empty, ongoing, dead, asked = places
    assert empty < ongoing < asked < dead


def test_no_two_times_below_the_axis_read_alike() -> None:
    """A step too late to be told apart from the one before has no time of its own there."""
    late = (request(at, "EndTxn", at) for at in (0, 400, 1100, 1900, 12_100, 12_900, 70_000))
    read = [tick.text for tick in drawn(*late).ticks]
    assert read == ["0", "+400 ms", "+1.10 s", "+1.90 s", "+12 s", "+1 min 10 s"]


def test_every_step_is_told_in_words() -> None:
    said = [(step.who, step.what) for step in drawn(*WHOLE).steps]
    assert said[0] == ("copier (10.0.0.7, librdkafka 2.5.0)", "InitProducerId 5, answered after 2 ms")
    assert said[2] == ("coordinator", "Ongoing: producer id 7, epoch 1, 2 partitions")
    assert said[3][1] == "5 records into orders-0, offsets 5 to 9"
    assert said[7] == ("coordinator", "commit markers in orders-0, orders-1")
    assert [step.after_ms for step in drawn(*WHOLE).steps][:3] == [0, 1, 49]


def test_one_is_one() -> None:
    said = [step.what for step in drawn(state(0, "Ongoing", partitions=1), records(1, "orders", 0, records=1)).steps]
    assert said[0].endswith(", 1 partition") and said[1].startswith("1 record into")


def test_what_was_refused_or_never_answered_is_seen() -> None:
    made = drawn(request(0, "EndTxn", 1, error="PRODUCER_FENCED"), request(5, "EndTxn", 2, answeredAt=None, error=None))
    assert [step.kind for step in made.steps] == ["error", "step"]
    assert "PRODUCER_FENCED" in made.steps[0].what and made.steps[1].what.endswith("not answered")
    assert [shape.kind for shape in made.shapes] == ["error", "step"]


def test_many_steps_are_bounded_and_the_rest_is_counted() -> None:
    made = drawn(*(request(at, "AddPartitionsToTxn", at) for at in range(1000)), dropped=12)
    assert len(made.steps) == TOLD and len(made.shapes) == DRAWN
    assert made.dropped == 12 + 1000 - TOLD
    wide = drawn(*(records(at, "wide", at) for at in range(60)))
    assert len(wide.lanes) == len({lane.y for lane in wide.lanes}) == 14


def test_there_is_none_of_what_a_broker_does_not_know() -> None:
    assert picture(journal(known=False)) is None
    assert picture(journal()) is None
    assert picture(journal({"is": "of a later version", "at": START})) is None
    with pytest.raises(KeyError):
        picture({"error": "what is that"})
