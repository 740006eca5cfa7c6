"""One request of each API of share groups."""

from collections.abc import Callable, Iterator
from typing import Any

from protocol.messages.share import acknowledge, fetch, groups, offsets, state
from tests.unit.security.api_requests import TOPICS
from tests.unit.security.case import Case

NO_TOPIC = b"\x01" * 16
NOWHERE = {"partition": -1, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []}


def of_share_groups() -> Iterator[Case]:
    """All of them."""
    for request, topic, partition, version in (
        (state.InitializeShareGroupStateRequest, state.InitializeStateData, state.InitializePartitionData, 0),
        (state.ReadShareGroupStateRequest, state.ReadStateData, state.ReadPartitionData, 0),
        (state.WriteShareGroupStateRequest, state.WriteStateData, state.WritePartitionData, 1),
        (state.DeleteShareGroupStateRequest, state.DeleteStateData, state.DeletePartitionData, 0),
        (state.ReadShareGroupStateSummaryRequest, state.ReadStateSummaryData, state.SummaryPartitionData, 1),
    ):
        yield Case(request.__name__.removesuffix("Request"), version, _making(request, topic, partition))


def _making(request: Any, topic: Any, partition: Any) -> Callable[[bytes], Any]:
    fields = {name: value for name, value in NOWHERE.items() if name in partition.__slots__}
    return lambda _: request(group_id="g", topics=[topic(topic_id=NO_TOPIC, partitions=[partition(**fields)])])


def of_shared_records() -> Iterator[Case]:
    """A partition that is not there says whether its topic may be known of."""
    yield Case("ShareFetch", 2, _fetching)
    yield Case("ShareAcknowledge", 2, _acknowledging)


def _acknowledging(topic_id: bytes) -> Any:
    """In the session that ShareFetch has begun, until it has moved on."""
    said = acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    absent = acknowledge.AcknowledgePartition(partition_index=7, acknowledgement_batches=[said])
    return acknowledge.ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[absent])],
    )


def _fetching(topic_id: bytes) -> Any:
    absent = [fetch.FetchPartition(partition_index=7, acknowledgement_batches=[])]
    return fetch.ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[fetch.FetchTopic(topic_id=topic_id, partitions=absent)],
        forgotten_topics_data=[],
    )


def of_members_of_shares() -> Iterator[Case]:
    """Of groups and their offsets. What a member wants is initialised between its heartbeats."""
    yield Case("ShareGroupHeartbeat", 1, _joining)
    one = offsets.DescribeOffsetsTopic(topic_name="t", partitions=[0])
    for name, group in (
        ("DescribeShareGroupOffsets", {"group_id": "g", "topics": [one]}),
        ("DescribeShareGroupOffsets of all", {"group_id": "h"}),
    ):
        yield Case(name, 1, _describing(group))
    yield Case("AlterShareGroupOffsets", 0, _setting)
    yield Case(
        "DeleteShareGroupOffsets",
        0,
        lambda _: offsets.DeleteShareGroupOffsetsRequest(
            group_id="g", topics=[offsets.DeleteOffsetsTopic(topic_name="t")]
        ),
    )
    yield Case("ShareGroupHeartbeat once more", 1, _joining)
    yield Case("ShareGroupDescribe", 1, lambda _: groups.ShareGroupDescribeRequest(group_ids=["sh", "h"]))


def _joining(_: bytes) -> Any:
    return groups.ShareGroupHeartbeatRequest(
        group_id="sh", member_id="nobody", member_epoch=0, subscribed_topic_names=list(TOPICS)
    )


def _describing(group: dict[str, Any]) -> Callable[[bytes], Any]:
    return lambda _: offsets.DescribeShareGroupOffsetsRequest(
        groups=[offsets.DescribeOffsetsGroup(group_id=group["group_id"], topics=list(group.get("topics", ())) or None)]
    )


def _setting(_: bytes) -> Any:
    partition = offsets.AlterOffsetsPartition(partition_index=0, start_offset=0)
    topic = offsets.AlterOffsetsTopic(topic_name="t", partitions=[partition])
    return offsets.AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])
