"""The language of scenarios: what is read is written again as it was, and what it does not know is refused."""

import re
from pathlib import Path

import pytest

from tests.scenarios.language import FOLDER, NotUnderstood, all_scenarios, read, scenario_files, split, write

STORY = """=== A title
A sentence (I06).
with transaction.version 2

topic t
alice InitProducerId tx
    => NONE producer_id=P1 producer_epoch=0
    Kafka => NONE producer_id=P1 producer_epoch=1
    see docs/decisions/0002-no-pending-state.md
"""


@pytest.mark.parametrize("path", scenario_files(), ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was_read(path: Path) -> None:
    assert write(path, read(path), {}) == path.read_text(encoding="utf-8")


def test_head_steps_answers_and_declared_differences(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    (scenario,) = read(path)
    assert (scenario.title, scenario.versions) == ("A title", (2,))
    assert [step.text for step in scenario.steps] == ["topic t", "alice InitProducerId tx"]
    step = scenario.steps[1]
    assert step.answer == ["=> NONE producer_id=P1 producer_epoch=0"]
    assert step.kafka == ["=> NONE producer_id=P1 producer_epoch=1"]
    assert step.decision == "docs/decisions/0002-no-pending-state.md"


@pytest.mark.parametrize(
    "text",
    [
        "alice InitProducerId tx\n",
        "=== A title\n\n    => NONE\n",
        "=== A title\n\nalice InitProducerId tx\n    NONE\n",
        STORY + "    => more\n",
        "=== A title\n\ntopic t\n\n=== A title\n\ntopic t\n",
        "=== A title\nwith transaction.version: 2\n\ntopic t\n",
    ],
)
def test_what_the_language_does_not_know(tmp_path: Path, text: str) -> None:
    path = tmp_path / "story.txt"
    path.write_text(text)
    with pytest.raises(NotUnderstood):
        read(path)


def test_quotes_and_brackets_hold_words_together() -> None:
    assert split('a "b c" [d {e f}] g="h i"') == ["a", '"b c"', "[d {e f}]", 'g="h i"']


def test_every_record_of_kafka_belongs_to_a_file() -> None:
    stems = {path.stem for path in scenario_files()}
    assert {path.stem[: -len("-tv0")] for path in (FOLDER / "kafka").glob("*.json")} <= stems


def test_stories_do_not_share_a_partition_and_producer_for_markers() -> None:
    """Over TCP they share the partitions of `__consumer_offsets`: the epoch of one would refuse the other's marker."""
    writers: dict[str, set[str]] = {}
    for scenario in all_scenarios():
        for step in scenario.steps:
            if "WriteTxnMarkers" in step.words and "__consumer_offsets" in step.text:
                for producer_id in re.findall(r"producer_id=(\d+)", step.text):
                    writers.setdefault(producer_id, set()).add(scenario.title)
    assert writers
    assert {producer_id: titles for producer_id, titles in writers.items() if len(titles) > 1} == {}
