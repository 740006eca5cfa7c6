"""Random stories: a fixed set is answered as Apache Kafka answered it, others come to their end whatever happens."""

import re

import pytest

from tests.scenarios.at_random import consumers, frozen, transactions
from tests.scenarios.at_random.comparing import is_declared, is_same, patiently, scenario
from tests.scenarios.opinion import of_ours
from tests.scenarios.places import virtual

RECORDED = (("transactions", 2), ("transactions", 0), ("consumers", 2), ("administration", 2), ("members", 2))
PARTS = 3
"""In so many tests, which may run beside each other."""
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


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("kind", "cluster"), RECORDED)
def test_the_broker_responds_as_kafka_did(kind: str, cluster: int, part: int) -> None:
    """I47. Each story goes as far as no decision says that we differ; `python -m tests.scenarios.at_random` asks Kafka
    anew, and about other stories."""
    stories = frozen.load(kind, cluster)
    assert len(stories) >= 100
    for seed, steps in list(stories.items())[part::PARTS]:
        told = [step for step, _ in steps]
        ours = virtual.play(scenario(f"{kind} {seed}", cluster, told), cluster)
        for last, ((step, kafka), answer) in enumerate(zip(steps, ours, strict=True)):
            if not is_same(answer, kafka):
                declared = is_declared(told[: last + 1], ours[: last + 1], kafka)
                assert declared, f"seed {seed}: {step}: {answer}, Kafka {kafka}"
                break


@pytest.mark.parametrize("cluster", [0, 2])
def test_a_transactional_story_completes(cluster: int) -> None:
    """I44: whatever the requests and their order, every step gets a response, and decisions are completed: nothing
    is undecided later, and a power cut changes nothing of what is shown (I14, I24, I48)."""
    for seed in range(15):
        steps = transactions.Author(seed, cluster).story()
        assert steps == transactions.Author(seed, cluster).story()
        whole = [*steps, LATER, *LOOKS, "power cut", "restart", *LOOKS]
        answers = [
            [re.sub(r" leader_epoch=\S+", "", line) for line in answer]
            for answer in virtual.play(scenario(f"seed {seed}", cluster, whole), cluster)
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
        story = scenario(f"seed {seed}", cluster, transactions.Author(seed, cluster).story())
        assert [str(one) for one in of_ours(story, cluster)] == [], seed


def test_a_consumers_story_survives_a_power_cut() -> None:
    """I24, I40: what was acknowledged of records, offsets and groups is there after it."""
    looks = ("eve OffsetFetch v8 g everything", "eve OffsetFetch v8 h everything", "read t-0", "log u-0")
    for seed in range(1000, 1015):
        steps = consumers.Author(seed, 2).story()
        assert steps == consumers.Author(seed, 2).story()
        whole = [*steps, *looks, "power cut", "restart", *looks]
        answers = virtual.play(scenario(f"seed {seed}", 2, whole), 2)
        odd = [line for answer in answers for line in answer if "UNKNOWN_SERVER_ERROR" in line or "lost" in line]
        assert odd == []
        plain = [[re.sub(r"( committed)?_?leader_epoch=\S+", "", line) for line in answer] for answer in answers]
        assert plain[len(steps) : len(steps) + len(looks)] == plain[-len(looks) :]


def test_kafka_is_asked_until_it_says_what_we_say() -> None:
    steps = ["alice InitProducerId tx", "alice EndTxn commit"]
    retried = patiently(steps, [["=> NONE producer_id=P1"], ["=> INVALID_TXN_STATE"]])
    assert retried == ["alice InitProducerId tx until NONE", "alice EndTxn commit"]
