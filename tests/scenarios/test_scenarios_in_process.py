"""Every story, told in process, on virtual time, once with each transaction.version that it names; and what Apache
Kafka answered to the same story, from the record beside it."""

import pytest

from tests.scenarios import record
from tests.scenarios.language import FOLDER, Scenario, all_scenarios
from tests.scenarios.places import virtual

SCENARIOS = all_scenarios()
TOLD = [(scenario, version) for scenario in SCENARIOS for version in scenario.versions]
ASKED = [(scenario, version) for scenario, version in TOLD if record.comparable(scenario)]


def named(told: tuple[Scenario, int]) -> str:
    return f"{told[0].name} (transaction.version {told[1]})"


@pytest.mark.parametrize("told", TOLD, ids=named)
def test_the_broker_answers_as_the_story_says(told: tuple[Scenario, int]) -> None:
    scenario, version = told
    answers = virtual.play(scenario, version)
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert answer == step.answer, f"{scenario.path.name}:{step.line}: {step.text}"


@pytest.mark.parametrize("asked", ASKED, ids=named)
def test_apache_kafka_answers_the_same(asked: tuple[Scenario, int]) -> None:
    """Field by field, but for what a story declares and explains in a decision."""
    scenario, version = asked
    kafka = record.recorded(scenario, version)
    assert kafka is not None, "Kafka was not asked this story as it stands: run `make oracle`"
    ours = [step.answer for step in scenario.steps]
    assert record.differences(scenario, ours, kafka) == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_difference_is_explained(scenario: Scenario) -> None:
    for step in scenario.steps:
        if step.kafka:
            assert step.decision, f"{scenario.path.name}:{step.line} differs from Kafka and names no decision"
            assert (FOLDER.parents[1] / step.decision).exists()
            assert step.kafka != step.answer


def test_there_are_enough_stories() -> None:
    assert len(SCENARIOS) >= 150
