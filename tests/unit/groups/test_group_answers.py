"""What administrators and committers of offsets are answered through a node: each entry, and each version's own."""

from pathlib import Path

import pytest

from broker.coordination.coordinators import CoordinatorError
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
)
from tests.unit.groups.wire import ALL_GROUP_OPERATIONS, GROUP, Broker, commit, join, partition_errors, run_story, sync

NOT_SAID = -(1 << 31)
"""What stands for operations that nobody asked for."""
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_group_is_described_once(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.member()
        for version, include, gone, operations in (
            (2, False, 0, (NOT_SAID, NOT_SAID)),
            (5, True, 0, (ALL_GROUP_OPERATIONS, ALL_GROUP_OPERATIONS)),
            (6, True, ErrorCode.GROUP_ID_NOT_FOUND, (ALL_GROUP_OPERATIONS, NOT_SAID)),
            (6, False, ErrorCode.GROUP_ID_NOT_FOUND, (NOT_SAID, NOT_SAID)),
        ):
            request = DescribeGroupsRequest(groups=[GROUP, "gone", GROUP], include_authorized_operations=include)
            groups = (await broker.ask(request, version)).groups
            assert [(one.group_id, one.error_code) for one in groups] == [(GROUP, 0), ("gone", gone)]
            assert tuple(one.authorized_operations for one in groups) == operations

    run_story(story, tmp_path)


def test_a_group_whose_coordinator_refuses_is_nothing_but_that(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.member()

        async def ask(*_: object) -> None:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        broker.node.groups.ask = ask  # type: ignore[assignment]
        (one,) = (await broker.ask(DescribeGroupsRequest(groups=[GROUP]), 6)).groups
        assert (one.error_code, one.group_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, GROUP)
        assert (one.group_state, one.protocol_type, one.protocol_data, one.members) == ("", "", "", [])
        results = (await broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)).results
        assert [(one.group_id, one.error_code) for one in results] == [(GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await broker.ask(beat, 4)).error_code == ErrorCode.NONE, "a session has not ended"
        for version in (2, 3):
            leave = LeaveGroupRequest(group_id=GROUP, member_id="m", members=[MemberIdentity(member_id="m")])
            answer = await broker.ask(leave, version)
            assert (answer.error_code, answer.members) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        refused = await broker.ask(join("m"), 9)
        assert (refused.error_code, refused.member_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "m")
        assert (await broker.ask(sync("m", 1), 5)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        delete = OffsetDeleteRequest(group_id=GROUP, topics=[])
        answer = await broker.ask(delete, 0)
        assert (answer.error_code, answer.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])

    run_story(story, tmp_path)


def test_groups_of_a_coordinator_that_refuses_are_not_listed_in_part(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.member()
        groups = broker.node.groups
        assert groups.partition_for(GROUP) == groups.indexes()[0]
        ask_partition, (first, *_) = groups.ask_partition, groups.indexes()
        other = next(name for name in map(str, range(100)) if groups.partition_for(name) != groups.partition_for(GROUP))
        await broker.topic("t")
        assert partition_errors(await broker.ask(commit(1, group_id=other), 8)) == [ErrorCode.NONE]

        async def ask(index: int, operation: object) -> object:
            if index == first:
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
            return await ask_partition(index, operation)  # type: ignore[arg-type]

        groups.ask_partition = ask  # type: ignore[assignment]
        answer = await broker.ask(ListGroupsRequest(), 5)
        assert (answer.error_code, answer.groups) == (ErrorCode.NOT_COORDINATOR, [])
        groups.is_offline = lambda index: index == first  # type: ignore[method-assign]
        answer = await broker.ask(ListGroupsRequest(), 5)
        assert answer.error_code == ErrorCode.NONE
        assert [one.group_id for one in answer.groups] == [other], "those of the others are listed"

    run_story(story, tmp_path)


def test_each_partition_of_a_commit_has_its_own_answer(tmp_path: Path) -> None:
    """By its place: nothing keeps a client from naming one twice, or with a gap."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        await broker.topic("u")
        large = "m" * 5_000

        def partitions(*wanted: tuple[int, int, str | None]) -> list[OffsetCommitRequestPartition]:
            return [
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=said)
                for index, offset, said in wanted
            ]

        topics = [
            OffsetCommitRequestTopic(name="t", partitions=partitions((-1, 1, ""), (0, 5, large), (0, 6, None))),
            OffsetCommitRequestTopic(name="gone", partitions=partitions((0, 1, ""))),
            OffsetCommitRequestTopic(name="u", partitions=partitions((1, 1, ""), (0, 7, "m"))),
        ]
        answer = await broker.ask(OffsetCommitRequest(group_id=GROUP, member_id="", topics=topics), 8)
        told = [
            (one.name, [(part.partition_index, part.error_code) for part in one.partitions]) for one in answer.topics
        ]
        assert told == [
            ("t", [(-1, UNKNOWN), (0, ErrorCode.OFFSET_METADATA_TOO_LARGE), (0, 0)]),
            ("gone", [(0, UNKNOWN)]),
            ("u", [(1, UNKNOWN), (0, 0)]),
        ]
        wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1]) for name in ("t", "gone", "u")]
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=wanted)]
        (group,) = (await broker.ask(OffsetFetchRequest(groups=groups), 8)).groups
        assert [
            (one.name, [(part.committed_offset, part.metadata) for part in one.partitions]) for one in group.topics
        ] == [
            ("t", [(6, ""), (-1, "")]),
            ("gone", [(-1, ""), (-1, "")]),
            ("u", [(7, "m"), (-1, "")]),
        ]

    run_story(story, tmp_path, {"num.partitions": "1"})


def test_each_partition_of_a_deletion_has_its_own_answer(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        for name in ("t", "u"):
            await broker.topic(name)
            await broker.ask(commit(1, topic=name), 8)
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in (("t", (-1, 0, 0, 1)), ("gone", (0,)), ("u", ()))
        ]
        answer = await broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
        told = [
            (one.name, [(part.partition_index, part.error_code) for part in one.partitions]) for one in answer.topics
        ]
        assert answer.error_code == 0
        assert told == [("t", [(-1, UNKNOWN), (0, 0), (0, 0), (1, UNKNOWN)]), ("gone", [(0, UNKNOWN)]), ("u", [])]
        fetched = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
        assert [one.name for one in fetched.topics] == ["u"]

    run_story(story, tmp_path, {"num.partitions": "1"})


@pytest.mark.parametrize("version", [4, 5])
def test_who_syncs_says_which_protocol_it_means(version: int, tmp_path: Path) -> None:
    """KIP-559."""

    async def story(broker: Broker) -> None:
        await broker.found()
        member = await broker.member()
        right = ErrorCode.NONE if version < 5 else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        both = sync(member, 1)
        without = sync(member, 1)
        without.protocol_type = None
        assert (await broker.ask(both, version)).error_code == ErrorCode.NONE
        assert (await broker.ask(without, version)).error_code == right
        assert (await broker.ask(sync(member, 1, protocol=None), version)).error_code == right
        unnamed = sync(member, 1, group="")
        assert (await broker.ask(unnamed, version)).error_code == ErrorCode.INVALID_GROUP_ID

    run_story(story, tmp_path)
