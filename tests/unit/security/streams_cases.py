"""One request of each API of streams groups."""

from collections.abc import Iterator

from protocol.messages.streams import groups
from tests.unit.security.case import Case


def of_streams_groups() -> Iterator[Case]:
    """All of them."""
    yield Case("StreamsGroupHeartbeat", 0, lambda _: joining())
    yield Case(
        "StreamsGroupDescribe",
        0,
        lambda _: groups.StreamsGroupDescribeRequest(group_ids=["s", "h"], include_authorized_operations=True),
    )


def joining() -> groups.StreamsGroupHeartbeatRequest:
    """An application with an internal topic."""
    changelog = groups.StreamsTopicInfo(name="changelog", partitions=0, replication_factor=0, topic_configs=[])
    subtopology = groups.HeartbeatSubtopology(
        subtopology_id="0",
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=[changelog],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return groups.StreamsGroupHeartbeatRequest(
        group_id="s",
        member_id="somebody",
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=groups.HeartbeatTopology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
