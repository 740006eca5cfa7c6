"""The stories once more, over a shared store: what is answered is what stands below the steps, but where a story is
about a disk.
"""

import pytest

from tests.scenarios.language import Scenario, all_scenarios
from tests.scenarios.places import virtual
from tests.simulation.stored import Line

LINE = Line(0.0001)
NOT_OVER_A_STORE = {
    "it holds single syncs of a disk back, or looks at what waits for one": (
        "between-question-and-append: A commit is seen when its marker is on the disk",
        "between-question-and-append: A marker between the question and the append",
        "between-question-and-append: Fenced between the question and the append",
        "between-question-and-append: No marker before its decision is on the disk",
        "between-question-and-append: Offsets between the question and the end of their transaction",
        "crashes: What a start cut from the index of aborted transactions stays cut",
        "order-of-syncs: A repeat is answered when its original is on the disk",
        "order-of-syncs: A second DeleteRecords is answered when its own start is written down",
        "order-of-syncs: A sync that has begun counts for what was written before it",
        "order-of-syncs: A topic is there when all that makes it is on the disk",
        "order-of-syncs: A transaction is durable after what it promises",
        "order-of-syncs: The transaction that began first decides, in whatever order they end",
        "order-on-a-connection: A client that goes away does not stop what it began",
        "powers: Nothing is shown before its sync",
        "powers: What is written during a sync is not in it",
        "what-is-remembered: A snapshot of what was lost is not believed",
    ),
    "what was not synced is lost with the power only; here it is gone with the process, or came with what was before": (
        "crashes: An abort that was answered just before the power failed",
        "crashes: Rotation survives a power cut",
        "crashes: What a kill left unsynced is lost with the power",
    ),
    "it damages or takes away files": (
        "damaged-logs: A segment that is gone ends a compacted log, too",
        "damaged-logs: An index of aborted transactions that is gone is made anew",
        "damaged-logs: What lies behind a tear is gone, in later segments too",
        "powers: A batch that was damaged ends its log",
        "what-is-remembered: A damaged snapshot is not believed",
    ),
    "its disk refuses something, of which there is nothing here": (
        "damaged-logs: A replacement that cannot take its place is found by the next start",
        "damaged-logs: No snapshot outlives the batches that it goes on from",
        "order-of-syncs: A sync that failed acknowledges nothing",
        "what-is-remembered: An index that takes no entry ends the broker, not the transaction",
    ),
    "an operator's epoch of a coordinator fences the one that there is for good, where there may be others": (
        "operators: A coordinator epoch of the future",
    ),
    "it looks while markers are on their way, which takes another time here": (
        "decided-and-not-complete: Some markers are written",
        "refused-appends: The end",
        "while-markers-are-out: The end that the log refuses stays due",
    ),
}
LEFT_OUT = {name for names in NOT_OVER_A_STORE.values() for name in names}
SCENARIOS = [scenario for scenario in all_scenarios() if scenario.name not in LEFT_OUT]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_broker_responds_as_the_story(scenario: Scenario) -> None:
    answers = virtual.play(scenario, scenario.versions[0], line=LINE)
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert answer == step.answer, f"{scenario.path.name}:{step.line}: {step.text}"


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert LEFT_OUT - {scenario.name for scenario in all_scenarios()} == set()
