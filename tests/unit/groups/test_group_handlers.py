"""The APIs of groups through a whole node without sockets: what each version changes, and which error goes where."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from broker.config import BrokerConfig
from broker.context import ConnectionInfo, RequestContext
from broker.environment import RealEnvironment
from broker.groups import forget_topic_offsets
from broker.listeners import Endpoint
from broker.local_files import LocalFiles
from broker.node import Node
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from protocol.schema import schema_of

GROUP = "orders"
NOBODY = b"x" * 16
ALL_GROUP_OPERATIONS = 3400
"""As Kafka 4.3 counts them: read, delete, describe, describe and alter configs."""


class Broker:
    """A node in memory, and one client of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection = ConnectionInfo(1, "PLAINTEXT", "10.0.0.7", 4711)

    async def ask(self, request: Any, version: int) -> Any:
        entry = self.node.catalogue[schema_of(type(request)).api_key]
        assert version in entry.versions
        context = RequestContext(self.connection, entry.api_key, version, 1, "client")
        answer = entry.handler(self.node, context, request)
        return await answer if isinstance(answer, Awaitable) else answer

    async def topic(self, name: str) -> bytes:
        await self.node.topics.auto_create(name)
        topic = self.node.topics.by_name(name)
        assert topic is not None
        return topic.topic_id

    async def found(self) -> None:
        """What every client does first."""
        for key_type in (0, 1):
            answer = await self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[GROUP]), 4)
            assert answer.coordinators[0].error_code == ErrorCode.NONE

    async def member(self) -> str:
        """A stable group of one."""
        member: str = (await self.ask(join(), 9)).member_id
        answer = await self.ask(join(member), 9)
        assert answer.generation_id == 1
        await self.ask(sync(member, 1), 5)
        return member


def join(member: str = "", *, group: str = GROUP, session_ms: int = 10_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync(member: str, generation: int, *, protocol: str | None = "range", group: str = GROUP) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name=protocol,
        assignments=[],
    )


def commit(
    offset: int, *, topic: str = "t", topic_id: bytes = bytes(16), partition: int = 0, **identity: Any
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=None)
    ]
    fields: dict[str, Any] = {"group_id": GROUP, "member_id": ""} | identity
    return OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)], **fields
    )


def told(story: Callable[[Broker], Awaitable[None]], folder: Path) -> None:
    """Run a story against a fresh node."""

    async def run() -> None:
        settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "1"}
        environment = RealEnvironment(LocalFiles(str(folder)))
        node = Node(BrokerConfig({"tallystick.in.memory": "true", **settings}), environment)
        try:
            await node.start()
            node.endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", "broker.example", 9092)}
            await story(Broker(node))
        finally:
            await node.stop()
            environment.close()

    asyncio.run(run())


def partition_errors(answer: Any) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]


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

    told(story, tmp_path)


def test_without_a_coordinator_clients_are_sent_to_look_for_one(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        assert (await broker.ask(join(), 9)).error_code == ErrorCode.NOT_COORDINATOR
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await broker.ask(beat, 4)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await broker.ask(ListGroupsRequest(), 5)).groups == []

    told(story, tmp_path)


def test_members_through_the_versions(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        old = await broker.ask(join(session_ms=1), 6)
        assert (old.error_code, old.protocol_name) == (ErrorCode.INVALID_SESSION_TIMEOUT, "")
        new = await broker.ask(join(session_ms=1), 7)
        assert new.protocol_name is None
        member = await broker.member()
        assert member.startswith("client-")
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

    told(story, tmp_path)


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

    told(story, tmp_path)


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

    told(story, tmp_path)


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

    told(story, tmp_path)


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

    told(story, tmp_path)


def test_offsets_by_name_and_by_id(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        topic_id = await broker.topic("t")
        assert partition_errors(await broker.ask(commit(1), 2)) == [ErrorCode.NONE]
        assert partition_errors(await broker.ask(commit(2, topic_id=topic_id, topic=""), 10)) == [ErrorCode.NONE]
        unknown = [
            await broker.ask(commit(3, topic="nope"), 8),
            await broker.ask(commit(3, partition=99), 8),
            await broker.ask(commit(3, topic_id=NOBODY), 10),
            await broker.ask(commit(3), 10),
        ]
        assert [partition_errors(answer) for answer in unknown] == [
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_ID],
            [ErrorCode.UNKNOWN_TOPIC_ID],
        ]
        wanted = [
            OffsetFetchRequestTopic(name="t", partition_indexes=[0]),
            OffsetFetchRequestTopic(name="nope", partition_indexes=[0]),
        ]
        fetched = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 1)
        assert [topic.partitions[0].committed_offset for topic in fetched.topics] == [2, -1]
        by_id = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in (topic_id, NOBODY)]
        groups = [
            OffsetFetchRequestGroup(group_id=GROUP, topics=by_id),
            OffsetFetchRequestGroup(group_id=GROUP, topics=None),
        ]
        several = await broker.ask(OffsetFetchRequest(groups=groups), 10)
        first, second = several.groups
        assert [(topic.topic_id, topic.partitions[0].error_code) for topic in first.topics] == [
            (topic_id, ErrorCode.NONE),
            (NOBODY, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert [(topic.topic_id, topic.partitions[0].committed_offset) for topic in second.topics] == [(topic_id, 2)]

    told(story, tmp_path)


def test_errors_of_a_whole_group_stand_where_the_version_has_room(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        first = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 1)
        assert partition_errors(first) == [ErrorCode.NOT_COORDINATOR] * 2
        second = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted), 2)
        assert (second.error_code, second.topics) == (ErrorCode.NOT_COORDINATOR, [])
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
        eighth = await broker.ask(OffsetFetchRequest(groups=groups), 8)
        assert eighth.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    told(story, tmp_path)


def test_offsets_of_unknown_partitions_cannot_be_deleted(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        await broker.ask(commit(1), 8)
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes]
            )
            for name, indexes in (("t", [99, 0]), ("nope", [0]))
        ]
        answer = await broker.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition_errors(answer) == [unknown, ErrorCode.NONE, unknown]
        missing = await broker.ask(OffsetDeleteRequest(group_id="nobody", topics=topics), 0)
        assert (missing.error_code, missing.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    told(story, tmp_path)


def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        await broker.ask(commit(1), 8)
        topic = broker.node.topics.by_name("t")
        assert topic is not None
        await forget_topic_offsets(broker.node, "t", topic.topic_id)
        fetched = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
        assert fetched.topics == []

    told(story, tmp_path)


def test_offsets_in_a_transaction(tmp_path: Path) -> None:
    """I43: first the transaction is verified, then the group judges; a refusal leaves nothing behind."""

    async def story(broker: Broker) -> None:
        await broker.found()
        await broker.topic("t")
        member = await broker.member()
        producer = await broker.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 2)
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}

        async def stage(offset: int, **changes: Any) -> ErrorCode:
            partitions = [
                TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
            ]
            fields: dict[str, Any] = {
                "transactional_id": "tx",
                "group_id": GROUP,
                "generation_id_or_member_epoch": 1,
                "member_id": member,
                **identity,
                **changes,
            }
            request = TxnOffsetCommitRequest(
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)], **fields
            )
            (error,) = partition_errors(await broker.ask(request, 3))
            return error

        async def offset() -> Any:
            wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
            answer = await broker.ask(OffsetFetchRequest(group_id=GROUP, topics=wanted, require_stable=True), 7)
            found = answer.topics[0].partitions[0]
            return ErrorCode(found.error_code) if found.error_code else found.committed_offset

        assert await stage(7) == ErrorCode.INVALID_TXN_STATE, "the group was not added to the transaction"
        add = AddOffsetsToTxnRequest(transactional_id="tx", group_id=GROUP, **identity)
        assert (await broker.ask(add, 0)).error_code == ErrorCode.NONE
        assert await stage(7, generation_id_or_member_epoch=9) == ErrorCode.ILLEGAL_GENERATION
        assert await stage(7, member_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await stage(7, producer_epoch=9) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await stage(7, group_id="") == ErrorCode.INVALID_GROUP_ID
        assert await offset() == -1
        assert await stage(7) == ErrorCode.NONE
        assert await offset() == ErrorCode.UNSTABLE_OFFSET_COMMIT
        end = EndTxnRequest(transactional_id="tx", committed=True, **identity)
        assert (await broker.ask(end, 1)).error_code == ErrorCode.NONE
        while (found := await offset()) == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0)
        assert found == 7

    told(story, tmp_path)
