"""Random stories can be run, and a seed gives the same one every time; the comparison with Kafka needs Kafka."""

import re

import pytest

from tests.scenarios import at_random
from tests.scenarios.opinion import of_ours
from tests.scenarios.places import virtual

LATER = "advance time 3 min"
"""Whatever is open by then has timed out."""
LOOKS = (
    "eve ListOffsets t-0=latest t-1=latest",
    "eve ListOffsets t-0=latest t-1=latest read_committed",
    "eve DescribeTransactions tx",
    "eve OffsetFetch v8 g everything require_stable=true",
    "read t-0",
    "read t-1",
)


@pytest.mark.parametrize("cluster", [0, 2])
def test_a_seeds_story_is_repeatable_and_completes(cluster: int) -> None:
    """I44: whatever the requests and their order, every step gets a response, and decisions are completed: nothing
    is undecided later, and a power cut changes nothing of what is shown (I14, I24, I48)."""
    for seed in range(15):
        steps = at_random.Author(seed, cluster).story()
        assert steps == at_random.Author(seed, cluster).story()
        whole = [*steps, LATER, *LOOKS, "power cut", "restart", *LOOKS]
        answers = [
            [re.sub(r" leader_epoch=\S+", "", line) for line in answer]
            for answer in virtual.play(at_random.scenario(seed, cluster, whole), cluster)
        ]
        odd = [line for answer in answers for line in answer if "UNKNOWN_SERVER_ERROR" in line or "lost" in line]
        assert odd == []
        before, after = answers[len(steps) + 1 :][: len(LOOKS)], answers[-len(LOOKS) :]
        assert before == after
        everything, decided, transaction, offsets, *read = before
        assert decided == everything
        assert "Ongoing" not in transaction[0] and "Prepare" not in transaction[0]
        assert not [line for line in offsets if "UNSTABLE" in line]
        shown = [line.removeprefix("=> ").split()[-1] for lines in read for line in lines if "nothing" not in line]
        assert len(shown) == len(set(shown)) and all(re.fullmatch(r"m\d+", value) for value in shown)


@pytest.mark.parametrize("cluster", [0, 2])
def test_a_second_opinion_has_no_objection(cluster: int) -> None:
    """I06, I07, I11, I20, I21, I30, I37, I38: whatever random clients request, the answers are those that the model of
    `tests.opinion` allows."""
    for seed in range(100, 112):
        story = at_random.scenario(seed, cluster, at_random.Author(seed, cluster).story())
        assert [str(one) for one in of_ours(story, cluster)] == [], seed


def test_kafka_is_asked_until_it_says_what_we_say() -> None:
    steps = ["alice InitProducerId tx", "alice EndTxn commit"]
    retried = at_random.patiently(steps, [["=> NONE producer_id=P1"], ["=> INVALID_TXN_STATE"]])
    assert retried == ["alice InitProducerId tx until NONE", "alice EndTxn commit"]
