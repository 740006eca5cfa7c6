"""Every story with a deadline, with a broker that dies and comes back in front of each of its steps.

What is due is due all the same: what is answered is what the story says, but for the epochs of leaders. Who is a member
of a group is not written down before its generation is complete, as in Kafka, so stories of members only have the
second opinion (`tests.opinion`), which all others have, too.
"""

import dataclasses
import re
from collections.abc import Iterator

import pytest

from tests.opinion.judge import judge
from tests.opinion.trace import Trace
from tests.scenarios.language import Scenario, Step, all_scenarios
from tests.scenarios.opinion import BEHIND_ITS_BACK, ENDS, circumstances_of, judged
from tests.scenarios.places import virtual

DEADLINES = ("advance", "wait until", "clock")
YOUNG_AGAIN = {
    "A producer is as young as its last marker": "one that is read from the log may have written just now",
    "Beyond the bound those go that were silent for longest": "the bound is looked at every so often",
    "Beyond the bound nobody goes who has something open": "the bound is looked at every so often",
    "A lock that is over gives the record to another, and a renewal puts that off": "who has what is not written down",
    "The first tasks wait for more threads, and not for ever": "that they wait is not written down",
}
"""Stories that a restart changes, by title, and why."""
ASKED_FOR_ANEW = ("wait until group",)
"""What an expression stands for is found out after the answer; after a restart the next heartbeat asks for it anew."""
RESTART = [Step("crash", 0), Step("restart", 0)]


def has_members(scenario: Scenario) -> bool:
    return any("JoinGroup" in step.text for step in scenario.steps)


def with_deadlines() -> list[tuple[Scenario, int]]:
    stories = [
        one
        for one in all_scenarios()
        if one.uses(*DEADLINES) and not one.uses(*ENDS, *BEHIND_ITS_BACK, *ASKED_FOR_ANEW, "sync", "one sync")
    ]
    return [(scenario, version) for scenario in stories for version in scenario.versions]


def places(scenario: Scenario) -> Iterator[int]:
    """Between steps where nobody waits for an answer: that would be lost."""
    waiting: set[str] = set()
    for index, step in enumerate(scenario.steps):
        if index and not waiting:
            yield index
        match step.words:
            case [client, "sends", *_]:
                waiting.add(client)
            case [client, "hears", *_]:
                waiting.discard(client)


def without_epochs(answer: list[str]) -> list[str]:
    """Epochs of leaders and of coordinators, which a restart raises."""
    one = [re.sub(r"\bE(\+\d+)?", "E", line) for line in answer]
    return [line.replace(" leader_epoch=E", "") for line in one]


@pytest.mark.parametrize(
    "story", with_deadlines(), ids=lambda story: f"{story[0].name} (transaction.version {story[1]})"
)
def test_a_deadline_outlives_the_broker(story: tuple[Scenario, int]) -> None:
    scenario, version = story
    for index in places(scenario):
        steps = [*scenario.steps[:index], *RESTART, *scenario.steps[index:]]
        told, trace = dataclasses.replace(scenario, steps=steps), Trace()
        answers = virtual.play(told, version, trace)
        where = f"restarted in front of {scenario.path.name}:{scenario.steps[index].line}"
        if judged(told):
            assert [str(one) for one in judge(trace, circumstances_of(told, version))] == [], where
        if has_members(scenario) or scenario.title in YOUNG_AGAIN:
            continue
        for step, answer in zip(scenario.steps, answers[:index] + answers[index + len(RESTART) :], strict=True):
            assert without_epochs(answer) == without_epochs(step.answer), f"{where}: {step.text}"
