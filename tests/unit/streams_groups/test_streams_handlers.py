"""The APIs of streams groups, asked of a whole node in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.api.handlers.streams_groups import SAID_MOST
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.streams.groups import (
    CopartitionGroup,
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsKeyValue,
    StreamsTaskIds,
    StreamsTopicInfo,
)
from protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.harness.turns import Turns
from tests.unit.groups.wire import GROUP, Broker, run_story

NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
AT_ONCE = {"group.streams.assignment.interval.ms": "0", "group.streams.initial.rebalance.delay.ms": "0"}


def subtopology(
    *sources: str, subtopology_id: str = "0", changelogs: tuple[StreamsTopicInfo, ...] = ()
) -> HeartbeatSubtopology:
    return HeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )


def changelog(name: str, copies: int = 0, **configs: str) -> StreamsTopicInfo:
    settings = [StreamsKeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return StreamsTopicInfo(name=name, partitions=0, replication_factor=copies, topic_configs=settings)


async def beat(
    broker: Broker, epoch: int, *subtopologies: HeartbeatSubtopology, topology_epoch: int = 0, **said: Any
) -> StreamsGroupHeartbeatResponse:
    joins = epoch == 0
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "A",
        "member_epoch": epoch,
        "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 60_000 if joins else -1,
        "topology": HeartbeatTopology(epoch=topology_epoch, subtopologies=list(subtopologies)) if joins else None,
        "active_tasks": [] if joins else None,
        "standby_tasks": [] if joins else None,
        "warmup_tasks": [] if joins else None,
    }
    request = StreamsGroupHeartbeatRequest(**(fields | said))
    answer: StreamsGroupHeartbeatResponse = await broker.ask(request, 0)
    return answer


def details(answer: StreamsGroupHeartbeatResponse) -> list[str]:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return [one.status_detail for one in answer.status or ()]


async def until_made(broker: Broker, epoch: int) -> StreamsGroupHeartbeatResponse:
    """A heartbeat that is answered without a status."""
    while details(answer := await beat(broker, epoch)):
        await asyncio.sleep(0)
    return answer


def test_internal_topics_are_made_as_they_are_wanted(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        log = changelog("log", cleanup_policy="compact", segment_bytes="100000000")
        answer = await beat(broker, 0, subtopology("t", changelogs=(log,)))
        assert details(answer) == ["Internal topics are missing: log"]
        answer = await until_made(broker, 2)
        assert [(one.subtopology_id, one.partitions) for one in answer.active_tasks or ()] == [("0", [0])]
        made = broker.node.topics.by_name("log")
        assert made is not None and len(made.partitions) == 1
        wanted = {"cleanup.policy": "compact", "segment.bytes": "100000000"}
        assert broker.node.cluster.image.topics["log"].configs == wanted

    run_story(story, tmp_path, AT_ONCE)


def test_an_internal_topic_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        await beat(broker, 0, subtopology("t", changelogs=(changelog("log"),)))
        first = await until_made(broker, 2)
        topics = [DeleteTopicState(name="log")]
        await broker.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1_000), 6)
        answer = await beat(broker, first.member_epoch, **NOTHING)
        assert details(answer) == ["Internal topics are missing: log"]
        await until_made(broker, answer.member_epoch)
        assert broker.node.topics.by_name("log") is not None

    run_story(story, tmp_path, AT_ONCE)


def test_it_is_said_why_a_topic_cannot_be_made(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        logs = tuple(changelog(f"log{number}", no_such="thing") for number in range(5))
        await beat(broker, 0, subtopology("t", changelogs=logs))
        while "Creation failed" not in (said := details(await beat(broker, 2))[0]):
            await asyncio.sleep(0)
        why = "(Unknown topic config name: no.such)"
        named = f"log0 {why}, log1 {why}, log2 {why} and 2 more."
        missing = "Internal topics are missing: log0, log1, log2 and 2 additional topics"
        assert said == f"{missing}; Creation failed: {named}"
        assert broker.node.topics.by_name("log0") is None

    run_story(story, tmp_path, AT_ONCE)


def test_topologies_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        for sources, repartition in (([1], []), ([], [0]), ([-1], [])):
            one = subtopology("t")
            group = CopartitionGroup(
                source_topics=sources, source_topic_regex=[], repartition_source_topics=repartition
            )
            one.copartition_groups = [group]
            assert (await beat(broker, 0, one)).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        twice = await beat(broker, 0, subtopology("t"), subtopology("t"))
        assert (twice.error_code, twice.error_message) == (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "A subtopology is named twice.",
        )
        negative = await beat(broker, 0, subtopology("t"), topology_epoch=-1)
        assert negative.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        described = await broker.ask(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
        assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run_story(story, tmp_path, AT_ONCE)


def copartitioned(count: int, *, repartition: bool) -> HeartbeatSubtopology:
    one = subtopology("t")
    named = [0] * (count - 3)
    group = CopartitionGroup(
        source_topics=[] if repartition else named,
        source_topic_regex=[],
        repartition_source_topics=named if repartition else [],
    )
    one.copartition_groups = [group]
    return one


def sinks(count: int) -> HeartbeatSubtopology:
    one = subtopology("t")
    one.repartition_sink_topics = ["t"] * (count - 2)
    return one


def repartition(count: int) -> HeartbeatSubtopology:
    one = subtopology("t")
    one.repartition_source_topics = [changelog(f"r{number}") for number in range(count - 2)]
    return one


@pytest.mark.parametrize(
    "said",
    [
        lambda count: [subtopology(*(f"t{number}" for number in range(count - 1)))],
        lambda count: [subtopology(*["t"] * (count - 1))],
        lambda count: [subtopology(subtopology_id=f"{number}") for number in range(count)],
        lambda count: [subtopology("t", changelogs=(changelog("log", **{f"k{n}": "v" for n in range(count - 3)}),))],
        lambda count: [subtopology("t", changelogs=tuple(changelog(f"log{n}") for n in range(count - 2)))],
        lambda count: [copartitioned(count, repartition=False)],
        lambda count: [copartitioned(count, repartition=True)],
        lambda count: [sinks(count)],
        lambda count: [repartition(count)],
    ],
    ids=[
        "topics",
        "the same topic",
        "subtopologies",
        "settings",
        "changelogs",
        "copartitioned",
        "of both",
        "sinks",
        "sources",
    ],
)
def test_a_member_says_so_much_of_its_application_and_no_more(
    tmp_path: Path, said: Callable[[int], list[HeartbeatSubtopology]]
) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        refused = await beat(broker, 0, *said(SAID_MOST + 1))
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "More than 10000 topics, settings and tags are named.",
        )
        assert (await beat(broker, 0, *said(SAID_MOST))).error_code != ErrorCode.INVALID_REQUEST

    run_story(story, tmp_path, AT_ONCE)


def test_tags_count_as_the_topology_does(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        tags = [StreamsKeyValue(key=f"{number}", value="") for number in range(SAID_MOST - 1)]
        refused = await beat(broker, 0, subtopology("t"), client_tags=tags)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await beat(broker, 0, subtopology("t"), client_tags=tags[1:])).error_code == ErrorCode.NONE

    run_story(story, tmp_path, AT_ONCE)


def test_tasks_of_a_subtopology_are_named_in_one_place(tmp_path: Path) -> None:
    """Otherwise putting them together takes the square of their number. Kafka answers UNKNOWN_SERVER_ERROR."""

    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        assert (await beat(broker, 0, subtopology("t"))).error_code == ErrorCode.NONE
        task = StreamsTaskIds(subtopology_id="0", partitions=[0])
        for active, standby in (([task, task], []), ([], [task, task])):
            named = {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": []}
            refused = await beat(broker, 2, **named)
            assert (refused.error_code, refused.error_message) == (
                ErrorCode.INVALID_REQUEST,
                "A subtopology is named twice among the tasks of a member.",
            )
        both = {"active_tasks": [task], "standby_tasks": [task], "warmup_tasks": []}
        assert (await beat(broker, 2, **both)).error_code == ErrorCode.NONE
        for wrong in (-1, 1):
            beyond = {"active_tasks": [StreamsTaskIds(subtopology_id="0", partitions=[0, wrong])]}
            refused = await beat(broker, 2, **both | beyond)
            assert (refused.error_code, refused.error_message) == (
                ErrorCode.INVALID_REQUEST,
                f"Task {wrong} for subtopology 0 is invalid. Number of tasks for this subtopology: 1",
            )

    run_story(story, tmp_path, AT_ONCE)


def test_the_members_of_a_large_group_are_described_in_turns(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        for number in range(100):
            assert (await beat(broker, 0, subtopology("t"), member_id=f"{number}")).error_code == ErrorCode.NONE
        turns = Turns(broker.node.environment)
        described = await broker.ask(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
        assert [one.member_id for one in described.groups[0].members] == [f"{number}" for number in range(100)]
        assert turns.waited >= 3

    run_story(story, tmp_path, AT_ONCE)


def test_internal_topics_of_the_broker_are_no_topics_of_an_application(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        answer = await beat(broker, 0, subtopology("__consumer_offsets"))
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        )

    run_story(story, tmp_path, AT_ONCE)


def test_a_cluster_without_the_feature_has_no_streams_groups(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        await broker.found()
        await beat(broker, 0, subtopology("t"))
        down = FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
        assert (await broker.ask(UpdateFeaturesRequest(feature_updates=[down]), 1)).error_code == ErrorCode.NONE
        assert (await beat(broker, 2)).error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await broker.ask(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION

    run_story(story, tmp_path, AT_ONCE)
