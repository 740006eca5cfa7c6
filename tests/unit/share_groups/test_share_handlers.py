"""The APIs of share groups, asked of a whole node in memory. The answers are those of Apache Kafka 4.3.1."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.api.handlers import group_administration
from broker.coordination.share_groups.state import ShareStateKeeper
from coordinator.groups.consumer.topics import NAMES_MOST
from coordinator.share_state.answers import Summary, Verdict
from coordinator.share_state.kept import ShareKey, Write
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from protocol.messages.share.groups import (
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.messages.share.offsets import (
    AlterOffsetsPartition,
    AlterOffsetsTopic,
    AlterShareGroupOffsetsRequest,
    DeleteOffsetsTopic,
    DeleteShareGroupOffsetsRequest,
    DescribeOffsetsGroup,
    DescribeOffsetsTopic,
    DescribeShareGroupOffsetsRequest,
)
from tests.harness.owned import may_be_behind
from tests.unit.groups.wire import GROUP, Broker, run_story

SETTINGS = {"group.share.assignment.interval.ms": "0", "share.coordinator.state.topic.num.partitions": "2"}
NOT_HOSTED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


async def level(broker: Broker, level: int) -> None:
    update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=1 if level else 2)
    assert (await broker.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)).error_code == ErrorCode.NONE


async def begin(broker: Broker, *topics: str) -> None:
    for topic in topics:
        await broker.topic(topic)
    await broker.found()
    await level(broker, 1)


async def beat(broker: Broker, epoch: int = 0, *topics: str, **said: Any) -> ShareGroupHeartbeatResponse:
    fields = {"group_id": GROUP, "member_id": "A", "member_epoch": epoch}
    fields |= {"subscribed_topic_names": list(topics)} if topics else {}
    answer: ShareGroupHeartbeatResponse = await broker.ask(ShareGroupHeartbeatRequest(**(fields | said)), 1)
    return answer


async def settled(broker: Broker, epoch: int) -> ShareGroupHeartbeatResponse:
    """Heartbeats until the member is told of partitions."""
    while True:
        answer = await beat(broker, epoch)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer
        epoch = answer.member_epoch
        await asyncio.sleep(0)


async def offsets(broker: Broker, *topics: tuple[str, list[int]], version: int = 1) -> Any:
    wanted = [DescribeOffsetsTopic(topic_name=name, partitions=of) for name, of in topics] or None
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeOffsetsGroup(group_id=GROUP, topics=wanted)])
    (group,) = (await broker.ask(request, version)).groups
    assert group.error_code == ErrorCode.NONE
    return {
        (topic.topic_name, one.partition_index): (one.start_offset, one.lag) if not one.error_code else one.error_code
        for topic in group.topics
        for one in topic.partitions
    }


async def set_offsets(broker: Broker, *topics: tuple[str, dict[int, int]], group: str = GROUP) -> Any:
    wanted = [
        AlterOffsetsTopic(
            topic_name=name,
            partitions=[AlterOffsetsPartition(partition_index=one, start_offset=start) for one, start in of.items()],
        )
        for name, of in topics
    ]
    return await broker.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=wanted), 0)


async def forget(broker: Broker, *topics: str, group: str = GROUP) -> Any:
    wanted = [DeleteOffsetsTopic(topic_name=name) for name in topics]
    return await broker.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted), 0)


def test_a_member_comes_is_given_partitions_and_goes(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        assert (await beat(broker, 0, "t")).member_epoch == 2
        answer = await settled(broker, 2)
        assert answer.member_epoch == 3
        listed = await broker.ask(ListGroupsRequest(types_filter=["share"]), 5)
        assert [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed.groups] == [
            (GROUP, "share", "Stable", "share")
        ]
        request = ShareGroupDescribeRequest(group_ids=[GROUP, ""], include_authorized_operations=True)
        group, nameless = (await broker.ask(request, 1)).groups
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 3, "simple")
        assert group.authorized_operations == 3400
        (member,) = group.members
        assert (member.member_id, member.client_id, member.client_host) == ("A", "client", "/10.0.0.7")
        assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("t", [0])]
        assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
        assert (await beat(broker, -1)).member_epoch == -1

    run_story(story, tmp_path, SETTINGS)


def test_what_is_wrong_in_itself(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        first = "SubscribedTopicNames must be set in first request."
        for epoch, said, message in (
            (0, {"member_id": ""}, None),
            (0, {"group_id": " "}, "GroupId can't be empty."),
            (0, {}, first),
            (0, {"subscribed_topic_names": []}, first),
            (1, {"rack_id": ""}, "RackId can't be empty."),
            (-2, {}, "MemberEpoch is invalid."),
            (0, {"subscribed_topic_names": ["t"] * (NAMES_MOST + 1)}, f"More than {NAMES_MOST} topics are named."),
        ):
            answer = await beat(broker, epoch, **said)
            assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)

    run_story(story, tmp_path, SETTINGS)


def test_offsets_are_described_set_and_deleted(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t", "u")
        assert await offsets(broker) == {}
        assert await offsets(broker, ("t", [0, 7]), ("no", [0])) == {
            ("t", 0): (-1, -1),
            ("t", 7): NOT_HOSTED[0],
            ("no", 0): NOT_HOSTED[0],
        }
        answer = await set_offsets(broker, ("t", {0: 5, 7: 1}), ("no", {0: 0}))
        assert answer.error_code == ErrorCode.NONE
        said = {
            (topic.topic_name, one.partition_index): (one.error_code, one.error_message)
            for topic in answer.responses
            for one in topic.partitions
        }
        assert said == {("t", 0): (ErrorCode.NONE, None), ("t", 7): NOT_HOSTED, ("no", 0): NOT_HOSTED}
        assert await offsets(broker) == {("t", 0): (5, -5)}, "beyond the end: Kafka counts so, too"
        assert await offsets(broker, version=0) == {("t", 0): (5, -5)}
        await beat(broker, 0, "t", "u")
        for refused in (await set_offsets(broker, ("t", {0: 1})), await forget(broker, "t")):
            assert (refused.error_code, refused.error_message) == (
                ErrorCode.NON_EMPTY_GROUP,
                "The group is not empty.",
            )
        await settled(broker, 2)
        assert await offsets(broker) == {("t", 0): (5, -5), ("u", 0): (-1, -1)}
        await beat(broker, -1)
        answer = await forget(broker, "t", "no")
        assert [(one.topic_name, one.error_code, one.error_message) for one in answer.responses] == [
            ("t", ErrorCode.NONE, None),
            ("no", *NOT_HOSTED),
        ]
        (again,) = (await forget(broker, "t")).responses
        nothing = "There is no offset information to delete."
        assert (again.error_code, again.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, nothing)
        assert await offsets(broker) == {("u", 0): (-1, -1)}
        for answer in (await set_offsets(broker, group=""), await forget(broker, group="")):
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.INVALID_GROUP_ID,
                "The group id is invalid.",
            )

    run_story(story, tmp_path, SETTINGS)


def test_a_deleted_group_is_forgotten_by_the_share_coordinator(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        await set_offsets(broker, ("t", {0: 5}))
        topic = broker.node.topics.by_name("t")
        assert topic is not None
        key = ShareKey(GROUP, topic.topic_id, 0)
        keeper = broker.node.share_state
        assert (await keeper.write(key, 1, Write(0, 6, 0, ()))).error is ErrorCode.NONE
        deletion = DeleteGroupsRequest(groups_names=[GROUP])
        await beat(broker, 0, "t")
        for error in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            (result,) = (await broker.ask(deletion, 2)).results
            assert result.error_code == error
            if error is ErrorCode.NON_EMPTY_GROUP:
                await beat(broker, -1)
        assert (await keeper.write(key, 9, Write(0, 6, 0, ()))).error is ErrorCode.INVALID_REQUEST
        assert await offsets(broker) == {}
        await beat(broker, 0, "t")
        assert (await settled(broker, 2)).member_epoch == 3
        assert await offsets(broker) == {("t", 0): (-1, -1)}, "it begins anew"

    run_story(story, tmp_path, SETTINGS)


def test_all_is_off_with_the_feature(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        await level(broker, 0)
        off = ErrorCode.UNSUPPORTED_VERSION
        assert (await beat(broker, 0, "t")).error_code == off
        described = await broker.ask(ShareGroupDescribeRequest(group_ids=[GROUP]), 1)
        assert described.groups[0].error_code == off
        assert (await set_offsets(broker, ("t", {0: 1}))).error_code == off
        assert (await forget(broker, "t")).error_code == off
        request = DescribeShareGroupOffsetsRequest(groups=[DescribeOffsetsGroup(group_id=GROUP, topics=None)])
        assert (await broker.ask(request, 1)).groups[0].error_code == off

    run_story(story, tmp_path, SETTINGS)


def test_a_group_begins_anew_with_what_is_kept_of_a_later_epoch_than_its_own(tmp_path: Path) -> None:
    """A power cut may take the end of the group's log, and leave that of the share coordinator."""

    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        topic = broker.node.topics.by_name("t")
        assert topic is not None
        key = ShareKey(GROUP, topic.topic_id, 0)
        await set_offsets(broker, ("t", {0: 1}), group="other")
        for kept, epoch in ((20, 21), (1000, 1001)):
            for one in (key, key._replace(group_id="third")):
                await broker.node.share_state.delete(one)
                made = await broker.node.share_state.initialize(one, state_epoch=kept, start_offset=9)
                assert made.error is ErrorCode.NONE
            answer = await set_offsets(broker, ("t", {0: 5}), group="third")
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
            summary = await broker.node.share_state.summarize(key._replace(group_id="third"))
            assert isinstance(summary, Summary)
            assert (summary.state_epoch, summary.start_offset) == (epoch, 5)
        await beat(broker, 0, "t")
        (group,) = (one for _, shard in broker.node.groups.indexed() if (one := shard.machine.shares.find(GROUP)))
        while group.initializing:
            await asyncio.sleep(0)
        assert [one.partitions for one in group.initialized.values()] == [{0}]

    run_story(story, tmp_path, SETTINGS)


def test_what_could_not_be_forgotten_is_still_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker) -> None:
        await begin(broker, "t", "u")
        assert (await set_offsets(broker, ("t", {0: 1}), ("u", {0: 1}))).error_code == ErrorCode.NONE
        topic, state = broker.node.topics.by_name("t"), broker.node.share_state
        assert topic is not None
        delete = state.delete

        async def refused(key: ShareKey) -> Verdict:
            return Verdict(ErrorCode.COORDINATOR_NOT_AVAILABLE) if key.topic_id == topic.topic_id else await delete(key)

        monkeypatch.setattr(ShareStateKeeper, "delete", lambda _, key: refused(key))
        answer = await forget(broker, "t", "u")
        errors = {one.topic_name: one.error_code for one in answer.responses}
        assert errors == {"t": ErrorCode.COORDINATOR_NOT_AVAILABLE, "u": ErrorCode.NONE}
        (group,) = (one for _, shard in broker.node.groups.indexed() if (one := shard.machine.shares.find(GROUP)))
        assert (group.deleting, group.initialized) == ({topic.topic_id: "t"}, {})
        monkeypatch.undo()
        again = await forget(broker, "t", "u")
        assert [(one.topic_name, one.error_code) for one in again.responses] == [
            ("t", ErrorCode.NONE),
            ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert group.deleting == {}

    run_story(story, tmp_path, SETTINGS)


@pytest.mark.parametrize(("times", "error"), [(2, ErrorCode.NONE), (99, ErrorCode.COORDINATOR_NOT_AVAILABLE)])
def test_offsets_that_are_set_while_a_group_is_deleted(
    times: int, error: ErrorCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two steps of it, so often."""

    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        await set_offsets(broker, ("t", {0: 1}))
        delete_group, calls = group_administration.delete_group, 0

        async def late(groups: Any, group_id: str) -> ErrorCode:
            nonlocal calls
            calls += 1
            if calls <= times:
                assert (await set_offsets(broker, ("t", {0: calls}))).error_code == ErrorCode.NONE
            return await delete_group(groups, group_id)

        monkeypatch.setattr(group_administration, "delete_group", late)
        (answer,) = (await broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)).results
        assert answer.error_code == error
        if error is ErrorCode.NONE:
            assert await offsets(broker, ("t", [0])) == {("t", 0): (-1, -1)}, "nothing is kept of it"

    run_story(story, tmp_path, SETTINGS)


def test_what_is_done_is_not_left_to_do(tmp_path: Path) -> None:
    """KIP-1226: the lag counts what lies behind the start and is neither acknowledged nor archived."""

    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        await set_offsets(broker, ("t", {0: 3}))
        topic = broker.node.topics.by_name("t")
        assert topic is not None
        done = await broker.node.share_state.write(ShareKey(GROUP, topic.topic_id, 0), 1, Write(0, 3, 4, ()))
        assert done.error is ErrorCode.NONE
        assert await offsets(broker) == {("t", 0): (3, 0 - 3 - 4)}

    run_story(story, tmp_path, SETTINGS)


def test_who_may_have_been_replaced_does_not_say_what_is_left_to_do(tmp_path: Path) -> None:
    """It stood still: where it takes the partition to end, another has gone on."""

    async def story(broker: Broker) -> None:
        await begin(broker, "t")
        await set_offsets(broker, ("t", {0: 3}))
        partition = broker.node.topics.partition("t", 0)
        assert partition is not None
        may_be_behind(partition)
        assert await offsets(broker) == {("t", 0): (3, -1)}
        may_be_behind(partition, False)
        assert await offsets(broker) == {("t", 0): (3, -3)}

    run_story(story, tmp_path, SETTINGS)
