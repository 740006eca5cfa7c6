"""A topology over the topics that there are."""

import pytest

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.streams.configured import ConfiguredTopology, Problem, Status, configured
from coordinator.groups.streams.topology import Copartitioned, Subtopology
from protocol.errors import ErrorCode
from tests.unit.consumer_groups.story import Topics
from tests.unit.streams_groups.story import application, internal, reads


def over(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    """Of topics with so many partitions; `_` in their names stands for a hyphen."""
    directory = Topics()
    for name, partitions in topics.items():
        directory.set(name, partitions)
    return configured(application(*subtopologies), directory)


def made(found: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in found.to_create}


def test_a_subtopology_has_a_task_for_each_partition_of_its_largest_source() -> None:
    found = over(reads("t", "u"), reads("v", subtopology_id="1"), t=2, u=5, v=1)
    assert (found.tasks, found.problem, found.is_ready) == ({"0": 5, "1": 1}, None, True)


def test_sources_that_are_missing_are_named() -> None:
    found = over(reads("t", "x", "w", keeps=["log"]), t=2)
    assert found.problem == Problem(Status.MISSING_SOURCE_TOPICS, "Source topics w, x are missing.")
    assert (found.tasks, found.to_create) == ({}, ())


def test_a_changelog_has_a_partition_for_each_task() -> None:
    found = over(reads("t", keeps=["log"]), t=3)
    assert found.problem == Problem(Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: log")
    assert (made(found), found.tasks) == ({"log": 3}, {})
    found = over(reads("t", keeps=["log"]), t=3, log=3)
    assert (found.tasks, found.counts, found.to_create) == ({"0": 3}, {"log": 3}, ())


def test_many_that_are_missing_are_counted() -> None:
    found = over(reads("t", keeps=["e", "d", "c", "b", "a"]), t=1)
    assert found.problem is not None
    assert found.problem.detail == "Internal topics are missing: a, b, c and 2 additional topics"


def test_repartition_topics_follow_what_is_written_to_them() -> None:
    """Through one another, in whatever order they are named."""
    chain = (
        reads(subtopology_id="2", repartition=[internal("s")]),
        reads(subtopology_id="1", repartition=[internal("r")], writes=["s"]),
        reads("t", "u", subtopology_id="0", writes=["r"]),
    )
    assert made(over(*chain, t=2, u=4)) == {"r": 4, "s": 4}


@pytest.mark.parametrize("wanted", [1, 7])
def test_a_repartition_topic_that_says_how_many_it_wants_gets_them(wanted: int) -> None:
    chain = (reads("t", writes=["r"]), reads(subtopology_id="1", repartition=[internal("r", wanted)], keeps=["log"]))
    assert made(over(*chain, t=2)) == {"r": wanted, "log": wanted}


def test_copartitioned_topics_have_as_many_partitions() -> None:
    joined = reads(
        "u", subtopology_id="1", repartition=[internal("r")], alike=[Copartitioned((0,), (0,))], keeps=["log"]
    )
    assert made(over(reads("t", writes=["r"]), joined, t=2, u=3)) == {"r": 3, "log": 3}


def test_copartitioned_repartition_topics_have_those_of_the_largest() -> None:
    joined = reads(subtopology_id="2", repartition=[internal("r"), internal("s")], alike=[Copartitioned((), (0, 1))])
    found = over(reads("t", writes=["r"]), reads("u", subtopology_id="1", writes=["s"]), joined, t=2, u=5)
    assert made(found) == {"r": 5, "s": 5}


@pytest.mark.parametrize("wanted", [1, 4])
def test_copartitioned_repartition_topics_have_those_that_one_of_them_wants(wanted: int) -> None:
    alike = [Copartitioned((), (0, 1))]
    joined = reads(subtopology_id="1", repartition=[internal("r"), internal("s", wanted)], alike=alike)
    assert made(over(reads("t", writes=["r", "s"]), joined, t=9)) == {"r": wanted, "s": wanted}


@pytest.mark.parametrize(
    ("subtopologies", "detail"),
    [
        (
            [reads("t", "u", alike=[Copartitioned((0, 1), ())])],
            "Following topics do not have the same number of partitions: [{t=2, u=3}]",
        ),
        (
            [
                reads("t", writes=["r", "s"]),
                reads(
                    subtopology_id="1",
                    repartition=[internal("r", 3), internal("s", 4)],
                    alike=[Copartitioned((), (0, 1))],
                ),
            ],
            "Following topics do not have the same number of partitions: [{r=3, s=4}]",
        ),
        (
            [
                reads("t", writes=["r"]),
                reads("u", subtopology_id="1", repartition=[internal("r", 4)], alike=[Copartitioned((0,), (0,))]),
            ],
            "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [3] of the source "
            "topic.",
        ),
        (
            [reads("t", keeps=["log"])],
            "Existing topic log has different number of partitions: expected 2, found 6",
        ),
    ],
)
def test_topics_with_other_numbers_of_partitions(subtopologies: list[Subtopology], detail: str) -> None:
    found = over(*subtopologies, t=2, u=3, log=6)
    assert found.problem == Problem(Status.INCORRECTLY_PARTITIONED_TOPICS, detail)
    assert (found.tasks, found.to_create) == ({}, ())


@pytest.mark.parametrize(
    ("subtopologies", "what"),
    [
        ([reads()], "No source topics found for subtopology 0"),
        ([reads(repartition=[internal("r")])], "never used as a sink topic"),
        ([reads(repartition=[internal("r")], writes=["r"])], "There may be loops"),
    ],
)
def test_applications_that_can_never_run(subtopologies: list[Subtopology], what: str) -> None:
    with pytest.raises(Refusal, match=what) as refused:
        over(*subtopologies)
    assert refused.value.error == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_an_application_without_anything_runs() -> None:
    assert over().is_ready
