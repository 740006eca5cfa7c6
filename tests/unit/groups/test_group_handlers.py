"""Membership and administration of groups through a whole node: what each version changes, which error goes where."""

import asyncio
from pathlib import Path
from uuid import UUID

from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
)
from tests.unit.groups.wire import (
    ALL_GROUP_OPERATIONS,
    GROUP,
    Broker,
    commit,
    join,
    partition_errors,
    run_story,
    sync,
)


def test_find_coordinator(tmp_path: Path) -> None:
    """The first question makes the internal topic and is answered when it is there: no 15 for anybody."""

    async def story(broker: Broker) -> None:
        for version in range(0, 4):
            one = await broker.ask(FindCoordinatorRequest(key=GROUP), version)
            assert (one.error_code, one.node_id, one.host, one.port) == (0, broker.node.node_id, "broker.example", 9092)
        many = await broker.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), 6)
        assert [(found.key, found.error_code, found.port) for found in many.coordinators] == [
            ("a", 0, 9092),
            ("b", 0, 9092),
        ]
        share = await broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]), 6)
        assert (share.coordinators[0].error_code, share.coordinators[0].node_id) == (ErrorCode.INVALID_REQUEST, -1)

    run_story(story, tmp_path)


def test_unknown_kinds_of_keys_are_refused_as_in_kafka(tmp_path: Path) -> None:
    """As Kafka 4.3.1 answers: words until version 3, and later only where it does not know what is looked for."""

    async def story(broker: Broker) -> None:
        malformed = "This most likely occurs because of a request being malformed by the client library"
        for version in (1, 3):
            assert (await broker.ask(FindCoordinatorRequest(key=GROUP), version)).error_message == "NONE"
            for kind in (2, 3, -1):
                one = await broker.ask(FindCoordinatorRequest(key=GROUP, key_type=kind), version)
                assert (one.error_code, one.error_message[: len(malformed)]) == (42, malformed)
        for kind, words in ((0, ""), (2, ""), (3, malformed), (-1, malformed)):
            (one,) = (await broker.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["a"]), 6)).coordinators
            assert (one.error_code == 0, one.error_message[: len(malformed)]) == (kind == 0, words)

    run_story(story, tmp_path)


def test_without_a_coordinator_clients_are_sent_to_look_for_one(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.topic("t")
        no_coordinator = ErrorCode.NOT_COORDINATOR
        joined = await broker.ask(join("m"), 9)
        assert (joined.error_code, joined.member_id) == (no_coordinator, "m")
        assert (await broker.ask(sync("m", 1), 5)).error_code == no_coordinator
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await broker.ask(beat, 4)).error_code == no_coordinator
        for left in (
            await broker.ask(LeaveGroupRequest(group_id=GROUP, member_id="m"), 2),
            await broker.ask(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]), 5),
            await broker.ask(LeaveGroupRequest(group_id=GROUP, members=[]), 5),
        ):
            assert (left.error_code, left.members) == (no_coordinator, [])
        (described,) = (await broker.ask(DescribeGroupsRequest(groups=[GROUP]), 6)).groups
        assert (described.error_code, described.group_id, described.group_state) == (no_coordinator, GROUP, "")
        (deleted,) = (await broker.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)).results
        assert (deleted.group_id, deleted.error_code) == (GROUP, no_coordinator)
        forgotten = await broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=[]), 0)
        assert (forgotten.error_code, forgotten.topics) == (no_coordinator, [])
        assert partition_errors(await broker.ask(commit(1), 8)) == [no_coordinator]
        assert (await broker.ask(ListGroupsRequest(), 5)).groups == []

    run_story(story, tmp_path)


def test_members_through_the_versions(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        old = await broker.ask(join(session_ms=1), 6)
        assert (old.error_code, old.protocol_name) == (ErrorCode.INVALID_SESSION_TIMEOUT, "")
        new = await broker.ask(join(session_ms=1), 7)
        assert new.protocol_name is None
        member = await broker.member()
        assert member.startswith("client-") and UUID(member.removeprefix("client-")).version == 4
        unnamed = await broker.ask(sync(member, 1, protocol=None), 5)
        assert unnamed.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await broker.ask(sync(member, 1, protocol=None), 4)).error_code == ErrorCode.NONE
        described = await broker.ask(DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True), 6)
        (group,) = described.groups
        assert (group.group_state, group.authorized_operations) == ("Stable", ALL_GROUP_OPERATIONS)
        assert group.members[0].client_host == "/10.0.0.7"
        leave = LeaveGroupRequest(group_id=GROUP, member_id="ghost")
        assert (await broker.ask(leave, 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        together = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="ghost")])
        answer = await broker.ask(together, 3)
        assert (answer.error_code, answer.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
        assert (await broker.ask(LeaveGroupRequest(group_id=GROUP, member_id=member), 0)).error_code == ErrorCode.NONE

    run_story(story, tmp_path)


def test_members_stay_when_somebody_sets_the_clock_forward(tmp_path: Path) -> None:
    """Sessions go by the time that has passed (docs/decisions/0012)."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.member()
        broker.clock.ahead_ms = 300_000
        assert (await broker.ask(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
        due = [shard.machine.next_deadline_ms() for shard in broker.node.groups.all()]
        assert min(at_ms for at_ms in due if at_ms is not None) > broker.clock.wall_ms()

    run_story(story, tmp_path)


def test_an_empty_group_id_is_refused_where_kafka_refuses_it(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        refused = [
            await broker.ask(join(group=""), 9),
            await broker.ask(sync("m", 1, group=""), 5),
            await broker.ask(HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4),
            await broker.ask(LeaveGroupRequest(group_id="", members=[]), 5),
            await broker.ask(OffsetDeleteRequest(group_id="", topics=[]), 0),
        ]
        assert {answer.error_code for answer in refused} == {ErrorCode.INVALID_GROUP_ID}
        assert partition_errors(await broker.ask(commit(1, group_id=""), 8)) == [ErrorCode.NONE]

    run_story(story, tmp_path)


def test_a_client_that_goes_away_while_it_waits_disturbs_nobody(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        member = await broker.member()
        second = (await broker.ask(join(), 9)).member_id
        gone = asyncio.ensure_future(broker.ask(join(second), 9))
        await asyncio.sleep(0)
        gone.cancel()
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
        assert (await broker.ask(beat, 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        again = await broker.ask(join(member), 9)
        assert again.generation_id == 2
        assert [known.member_id for known in again.members] == [member, second]

    run_story(story, tmp_path)


def test_unknown_groups(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        for version, error in ((5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
            answer = await broker.ask(DescribeGroupsRequest(groups=["nobody"]), version)
            assert (answer.groups[0].group_state, answer.groups[0].error_code) == ("Dead", error)
        deleted = await broker.ask(DeleteGroupsRequest(groups_names=["nobody", "nobody"]), 2)
        assert [one.error_code for one in deleted.results] == [ErrorCode.GROUP_ID_NOT_FOUND]
        fetched = await broker.ask(OffsetFetchRequest(group_id="nobody", topics=None), 7)
        assert (fetched.error_code, fetched.topics) == (0, [])

    run_story(story, tmp_path)


def test_groups_are_listed_and_deleted(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        member = await broker.member()
        await broker.ask(commit(1, group_id="simple"), 8)
        listed = await broker.ask(ListGroupsRequest(), 5)
        found = {(group.group_id, group.group_state, group.group_type) for group in listed.groups}
        assert found == {(GROUP, "Stable", "classic"), ("simple", "Empty", "classic")}
        deleted = await broker.ask(DeleteGroupsRequest(groups_names=[GROUP, "simple"]), 2)
        assert [one.error_code for one in deleted.results] == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
        stable = await broker.ask(ListGroupsRequest(states_filter=["stable"], types_filter=["Classic"]), 5)
        assert [group.group_id for group in stable.groups] == [GROUP]
        assert member in {
            one.member_id for one in (await broker.ask(DescribeGroupsRequest(groups=[GROUP]), 0)).groups[0].members
        }

    run_story(story, tmp_path)
