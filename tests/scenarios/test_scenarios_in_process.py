"""Every story, run in process, on virtual time, once with each transaction.version that it names. What is answered is
what stands below the steps, what Apache Kafka answered to the same story, as the record beside it says, and what the
model of `tests.opinion` allows, which knows neither."""

import pytest

from tests.opinion.judge import judge
from tests.opinion.trace import Trace
from tests.scenarios import record
from tests.scenarios.language import FOLDER, Scenario, all_scenarios
from tests.scenarios.opinion import circumstances_of, judged, to_the_end
from tests.scenarios.places import virtual

SCENARIOS = all_scenarios()
TOLD = [(scenario, version) for scenario in SCENARIOS for version in scenario.versions]


def named(story: tuple[Scenario, int]) -> str:
    return f"{story[0].name} (transaction.version {story[1]})"


@pytest.mark.parametrize("story", TOLD, ids=named)
def test_the_broker_responds_as_the_story_and_kafka_do(story: tuple[Scenario, int]) -> None:
    """Field by field, but for what a story declares and explains in a decision."""
    scenario, version = story
    trace = Trace()
    answers = virtual.play(to_the_end(scenario), version, trace)[: len(scenario.steps)]
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert answer == step.answer, f"{scenario.path.name}:{step.line}: {step.text}"
    if record.comparable(scenario):
        kafka = record.recorded(scenario, version)
        assert kafka is not None, "Kafka was not asked this story as it stands: run `make oracle`"
        assert record.differences(scenario, answers, kafka) == []
    if judged(scenario):
        assert [str(one) for one in judge(trace, circumstances_of(scenario, version))] == []


def test_a_difference_from_kafka_names_the_decision_that_explains_it() -> None:
    """Of the texts; that the difference is there, and no larger, the stories show."""
    declared = [(scenario, step) for scenario in SCENARIOS for step in scenario.steps if step.kafka]
    unexplained = [
        f"{scenario.path.name}:{step.line}"
        for scenario, step in declared
        if not step.decision or not (FOLDER.parents[1] / step.decision).exists() or step.kafka == step.answer
    ]
    assert declared and unexplained == []
