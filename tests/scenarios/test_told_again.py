"""What the journal notes of a story is a story again: exported, it is answered as the journal says."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from broker.journal.reading import timeline
from tallystick.journals.scenario import scenario_of
from tests.scenarios import record
from tests.scenarios.language import Scenario, read
from tests.scenarios.places import virtual

FOLDER = Path(__file__).parent
STORIES = (
    ("end-of-a-transaction-tv2.txt", "Abort, asked of an aborted transaction"),
    ("producing-in-transactions.txt", "Versions say it in their own words"),
    ("producing-in-transactions.txt", "A fenced producer writes"),
    ("producing-in-transactions.txt", "Sequences go on across the transactions of the classic protocol"),
    ("timeouts.txt", "A transaction that takes too long is aborted"),
    ("timeouts.txt", "A producer of the new protocol recovers from a timeout"),
    ("offsets-in-transactions.txt", "Data and offsets end together"),
    ("offsets-in-transactions.txt", "A group without members takes any commit"),
    ("offsets-in-transactions.txt", "A fenced producer cannot end what it committed"),
    ("which-identity.txt", "A zombie comes back while its successor is at work"),
    ("operators.txt", "An operator aborts a transaction of the new protocol"),
    ("operators.txt", "A coordinator epoch of the future"),
)


def noted(scenario: Scenario, version: int) -> dict[str, Any]:
    """The timeline of `tx` when the story is over."""
    places: list[virtual.Virtual] = []

    def keep(*arguments: Any) -> virtual.Virtual:
        places.append(real(*arguments))
        return places[-1]

    real = virtual.Virtual
    scenario.settings["tallystick.http"] = "127.0.0.1:0"  # nobody listens there, but somebody could ask the journal
    with mock.patch.object(virtual, "Virtual", keep):
        virtual.play(scenario, version)
    node = places[0].broker.node
    assert node is not None and node.journal is not None
    return timeline(node.journal, "tx.r1x1") | {"transactionVersion": version}


@pytest.mark.parametrize(("file", "title"), STORIES)
def test_what_was_noted_of_a_story_happens_again(file: str, title: str, tmp_path: Path) -> None:
    (scenario,) = [one for one in read(FOLDER / file) if one.title == title]
    said = noted(scenario, scenario.versions[-1])
    path = tmp_path / "again.txt"
    path.write_text(scenario_of(said), encoding="utf-8")
    (again,) = read(path)
    assert not record.comparable(again), "put into this folder it would have to be asked of Kafka first"
    answers = virtual.play(again, again.versions[0])
    for step, answer in zip(again.steps, answers, strict=True):
        assert not step.answer or answer == step.answer, (step.text, path.read_text())
    answered = [event for event in said["events"] if event["is"] == "request" and event["answeredAt"] is not None]
    told = [step for step in again.steps if step.answer and "Produce " not in step.text]
    left_out = path.read_text().count(" is left out.")
    assert len(told) + left_out >= len(answered) > 0
