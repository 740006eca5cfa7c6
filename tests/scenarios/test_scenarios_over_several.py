"""The stories once more, told to three nodes in one process, over TCP: clients ask whom Kafka's would ask, and what is
answered is what stands below the steps, but where a story has one broker alone.
"""

import os
from collections.abc import Iterator

import pytest

from tests.scenarios import record
from tests.scenarios.language import NotUnderstood, Scenario, all_scenarios
from tests.scenarios.places.several import AnswersFromSeveral, SeveralNodes

WHOLE = os.environ.get("TALLYSTICK_TEST_NODES", "") != ""
IN_SHORT = (
    "adding-partitions",
    "offsets-in-transactions",
    "markers",
    "end-of-a-transaction-tv2",
    "producer-identities",
)
"""Files whose stories go from one node to another."""
OF_ONE_BROKER = {
    "it names brokers that there are, and that there are not": (
        "config-resources: Levels of loggers are settings of the broker",
        "config-resources: Levels that there are not, and changes that no level can have",
        "config-resources: Kinds of resources that nobody knows",
        "placement: A partition may be given the replica it has",
        "placement: No other broker can have it",
        "config-resources: Loggers of brokers that there are not",
        "members: The only broker stays",
        "members: Brokers that are not there are not unregistered",
    ),
    "it tells what one broker has": (
        "members: Every version of DescribeQuorum",
        "log-folders: Every version of DescribeLogDirs",
        "log-folders: What is not there has no size, and what is named twice is described once",
        "log-folders: A partition stays in the folder it is in",
        "log-folders: The last folder counts for a partition that is named twice",
    ),
    "a marker of an operator goes to a node that is not the coordinator: decision 0003 is of one node": (
        "operators: An operator aborts with an epoch that the producer has not reached",
        "operators: A coordinator epoch of the future",
    ),
}
LEFT_OUT = {name for names in OF_ONE_BROKER.values() for name in names}
AT_A_FIRST_START = "share-groups"
"""The file whose stories tell of epochs that nobody has set: 0, where there was one start. tests/server tells of shares
across nodes."""


def possible(scenario: Scenario) -> bool:
    """Whether it is of neither time nor crashes, and of what several nodes have in common."""
    # Many epochs of a producer take minutes, where nobody can set the stage.
    many = any(" has epoch " in step.text and step.words[:1] != ["wait"] for step in scenario.steps)
    is_ours = 2 in scenario.versions and not scenario.is_of_another_broker and not many
    is_of_several = scenario.name not in LEFT_OUT and scenario.path.stem != AT_A_FIRST_START
    return is_ours and is_of_several and not scenario.uses(*record.BEYOND)


SCENARIOS = [one for one in all_scenarios() if possible(one) and (WHOLE or one.path.stem in IN_SHORT)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralNodes]:
    place = SeveralNodes(tmp_path_factory.mktemp("nodes"))
    try:
        place.process.start()
        yield place
    finally:
        place.process.close()


@pytest.mark.xdist_group("scenarios-over-several")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nodes_answer_as_the_story_says(nodes: SeveralNodes, scenario: Scenario) -> None:
    try:
        answers = nodes.play(scenario)
    except NotUnderstood as problem:
        if isinstance(problem.__cause__, AnswersFromSeveral):
            pytest.skip(f"one request speaks of what several nodes have: {problem}")
        raise
    for step, answer in zip(scenario.steps, answers, strict=True):
        assert answer == step.answer, f"{scenario.path.name}:{step.line}: {step.text}"


def test_nothing_is_left_out_that_is_not_there() -> None:
    assert LEFT_OUT - {scenario.name for scenario in all_scenarios()} == set()
