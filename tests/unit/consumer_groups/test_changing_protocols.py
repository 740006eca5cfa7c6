"""A classic group becomes a consumer group, and a consumer group a classic one: what is written, and who stays."""

import pytest

from coordinator.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)
from coordinator.groups.records import GroupMetadataKey, GroupMetadataValue
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedConsumerSettings, FixedGroupSettings
from tests.unit.consumer_groups.story import (
    OWNS_0,
    REBALANCE_MS,
    ConsumerStory,
    T,
    classic_group,
    embedded,
    given,
    mixed,
    topic_id,
)
from tests.unit.groups.story import SESSION_MS, joined, synced

# -- from a classic group --------------------------------------------------------------------------------------------


def test_a_classic_group_is_written_as_the_consumer_group_that_it_becomes() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    begin = story.log.end_offset
    story.come("B", "t")
    written = story.written(begin)
    assert written[0] == (GroupMetadataKey(group="orders"), None)
    assert written[1][1] == ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=REBALANCE_MS,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=SESSION_MS,
            supported_protocols=[ClassicProtocol(name="range", metadata=embedded("t"))],
        ),
    )
    (value,) = [value for key, value in written[2:3]]
    assert isinstance(value, ConsumerGroupMetadataValue)
    assert value.epoch == 1 and value.metadata_hash != 0
    target = TargetTopicPartition(topic_id=topic_id("t"), partitions=[0])
    assert [value for _, value in written[3:6]] == [
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[target]),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=1, assignment_timestamp=0),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1,
            previous_member_epoch=1,
            state=0,
            assigned_partitions=[CurrentTopicPartitions(topic_id=topic_id("t"), partitions=[0], assignment_epochs=[1])],
            partitions_pending_revocation=[],
        ),
    ]
    assert {key.member_id for key, _ in written[6:] if hasattr(key, "member_id")} == {"B"}
    assert old in story.current()


@pytest.mark.parametrize(("most", "error"), [(2, ErrorCode.GROUP_MAX_SIZE_REACHED), (1, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_group_that_is_too_large_stays_what_it_is(most: int, error: ErrorCode) -> None:
    """One as large as it may be becomes a consumer group, and has no room for the member who asked for that."""
    story = ConsumerStory(t=2)
    first, second = classic_group(story, 2)
    story.settings.consumer.max_size = most
    refused = story.come("B", "t")
    assert refused.error_code == error
    assert story.state == "Stable"
    assert story.heartbeat(first, 1) is story.heartbeat(second, 1) is ErrorCode.NONE


# -- back to a classic group -----------------------------------------------------------------------------------------


def test_the_end_of_a_consumer_group_is_written_before_the_classic_group_that_it_becomes() -> None:
    story, old = mixed()
    begin = story.log.end_offset
    assert story.leave("B") == [ErrorCode.NONE]
    keys = [type(key).__name__ for key, _ in story.written(begin)]
    assert keys == [
        *["ConsumerGroupCurrentMemberAssignmentKey"] * 2,
        *["ConsumerGroupTargetAssignmentMemberKey"] * 2,
        "ConsumerGroupTargetAssignmentMetadataKey",
        *["ConsumerGroupMemberMetadataKey"] * 2,
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupMetadataKey",
        "GroupMetadataKey",
    ]
    assert _written_group(story, begin) == (2, old, "range", {old: {"t": [0]}}, 10_000, REBALANCE_MS)
    assert story.state == "PreparingRebalance", "the other may have all now"


def _written_group(story: ConsumerStory, begin: int) -> tuple[object, ...]:
    key, value = story.written(begin)[-1]
    assert isinstance(value, GroupMetadataValue) and key == GroupMetadataKey(group="orders")
    shares = {member.member_id: given(bytes(member.assignment)) for member in value.members}
    first = value.members[0]
    times = first.session_timeout, first.rebalance_timeout
    return (value.generation, value.leader, value.protocol, shares, *times)


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_classic_member_takes_the_place_of_the_last_one_of_the_consumer_protocol(is_stale: bool) -> None:
    """A rolling downgrade of static members. What they have stays as it is, where it is up to date."""
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    assert story.gets(story.come("B", "t", instance_id="one")) == {"t": [1]}
    assert joined(story.join(old, protocols=OWNS_0)).generation_id == 2
    assert synced(story.sync(old, 2)).error_code == ErrorCode.NONE
    if is_stale:
        story.topics.set("t", 3)
    begin = story.log.end_offset
    protocols = (("range", embedded("t", owned={"t": [1]})),)
    answer = joined(story.join(instance="one", protocols=protocols, session_ms=9_000))
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 0 if is_stale else 2, "")
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    generation, leader, protocol, shares, *_ = _written_group(story, begin)
    assert (protocol, shares) == ("range", {old: {"t": [0]}, answer.member_id: {"t": [1]}})
    assert (generation, leader) == (2, old)
    assert story.state == ("PreparingRebalance" if is_stale else "Stable")
    if not is_stale:
        sync = synced(story.sync(answer.member_id, 2, instance="one"))
        assert given(sync.assignment) == {"t": [1]}
        assert story.heartbeat(old, 2) is ErrorCode.NONE
    story.restart()
    assert story.heartbeat(answer.member_id, 2, instance="one") is ErrorCode.NONE


def test_a_way_back_that_the_log_refused_disturbs_nobody_on_the_next() -> None:
    """The first would have had all join again."""
    story, old = mixed(instance_id="one")
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert story.submit_leave("B").errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    protocols = (("range", embedded("t", owned={"t": [1]})),)
    answer = joined(story.join(instance="one", protocols=protocols))
    assert (answer.error_code, story.state) == (ErrorCode.NONE, "Stable")
    assert story.heartbeat(old, 2) is ErrorCode.NONE


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_where_a_group_may_not_go_back_nothing_is_replaced(policy: str) -> None:
    story = ConsumerStory(FixedGroupSettings(consumer=FixedConsumerSettings()), t=2)
    story.come("B", "t", instance_id="one")
    story.settings.consumer.migration_policy = policy
    answer = joined(story.join(instance="one", protocols=T))
    if policy == "disabled":
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    else:
        assert (answer.error_code, list(story.current())) == (ErrorCode.NONE, [answer.member_id])
