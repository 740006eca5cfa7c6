"""Rights that are taken away from who is using them: in a transaction, in a group, in a fetch session.

Told to a node of ours; `kafka_door` tells it to a real Apache Kafka and writes its answers into
`kafka_revoked_rights.json`. Each story is what was asked, in order, with what counts of the answer.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from protocol.records.record import NewRecord, build_batch
from tests.unit.security.api_answers import Door, find_coordinators, told, until_good
from tests.unit.security.door_rig import ALICE, ROOT

RECORDED = Path(__file__).with_name("kafka_revoked_rights.json")
TOPICS = ("revoked", "kept")


def may(operation: Operation, kind: ResourceType, name: str, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, ALICE, "*", operation, permission)


class Story:
    """Asks as alice, and keeps what counts of the answers. `rights` are those that she has."""

    def __init__(self, door: Door, rights: set[Acl]) -> None:
        self.door = door
        self.rights = rights
        self.heard: list[Any] = []

    async def ask(self, request: Any, version: int, who: str = ALICE) -> Any:
        answer = await self.door.ask(request, version, who)
        self.heard.append([type(request).__name__.removesuffix("Request"), told(answer)])
        return answer

    async def change(self, *, take: Acl | None = None, give: Acl | None = None) -> None:
        self.rights = (self.rights | {give} if give else self.rights) - {take}
        await self.door.replace_acls(sorted(self.rights))
        self.heard.append("changed")


# -- transactions ----------------------------------------------------------------------------------------------------

WRITE_TOPIC = may(Operation.WRITE, ResourceType.TOPIC, "revoked")
READ_TOPIC = may(Operation.READ, ResourceType.TOPIC, "revoked")


class Transactional:
    """A producer in a transaction, with Kafka's requests of either protocol (KIP-890)."""

    def __init__(self, story: Story, name: str, *, implied: bool) -> None:
        self.story, self.name, self.implied = story, name, implied
        self._sequence = 0

    async def begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        self._identity = await until_good(self.story.door, request, 4, lambda answer: answer, ALICE)

    def _producer(self) -> dict[str, Any]:
        identity = self._identity
        return {"producer_id": identity.producer_id, "producer_epoch": identity.producer_epoch}

    async def add(self) -> None:
        wanted = {f"v3_and_below_{key}": value for key, value in self._producer().items()}
        topics = [AddPartitionsToTxnTopic(name="revoked", partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name, v3_and_below_topics=topics, **wanted
        )
        await self.story.ask(request, 3)

    async def write(self) -> None:
        batch = build_batch(
            [NewRecord(value=b"v", timestamp_ms=1)],
            base_sequence=self._sequence,
            transactional=True,
            **self._producer(),
        )
        data = PartitionProduceData(index=0, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="revoked", partition_data=[data])],
        )
        answer = await self.story.ask(request, 12 if self.implied else 11)
        self._sequence += answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    async def stage(self) -> None:
        await self.story.ask(AddOffsetsToTxnRequest(transactional_id=self.name, group_id="g", **self._producer()), 3)
        await self.stage_more()

    async def stage_more(self) -> None:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id="g",
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name="revoked", partitions=[partition])],
            **self._producer(),
        )
        await self.story.ask(request, 5 if self.implied else 4)

    async def end(self) -> None:
        request = EndTxnRequest(transactional_id=self.name, committed=True, **self._producer())
        await self.story.ask(request, 5 if self.implied else 4)

    async def look(self) -> None:
        """What it has come to, as root sees it."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        answer = await self.story.door.ask(request, 0, ROOT)
        over = answer.transaction_states[0].transaction_state in ("PrepareCommit", "CompleteCommit")
        self.story.heard.append("committed" if over else "open")


async def in_a_transaction(door: Door, taken: str, *, implied: bool) -> list[Any]:
    """Asked about everything in it again once the right is gone; then it is given back."""
    name = f"{taken} {implied}"
    write_id = may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    read_group = may(Operation.READ, ResourceType.GROUP, "g")
    right = {"id": write_id, "topic": WRITE_TOPIC, "group": read_group, "read": READ_TOPIC}[taken]
    await find_coordinators(door, ((1, name), (0, "g")))
    story = Story(door, set())
    for each in (write_id, WRITE_TOPIC, read_group, READ_TOPIC):
        await story.change(give=each)
    producer = Transactional(story, name, implied=implied)
    await producer.begin()
    if not implied:
        await producer.add()
    await producer.write()
    await producer.stage()
    await story.change(take=right)
    await producer.add()
    await producer.write()
    await producer.stage()
    await producer.end()
    await producer.look()
    await story.change(give=right)
    if taken == "id":
        await producer.write()
        await producer.stage_more()
        await producer.end()
        await producer.look()
    return story.heard


# -- groups ----------------------------------------------------------------------------------------------------------


async def in_a_group(door: Door, taken: Acl) -> list[Any]:
    """A member that is not let in any more stays one until its session ends."""
    name = f"members {taken.resource_type}"
    await find_coordinators(door, ((0, name),))
    story = Story(door, {may(Operation.READ, ResourceType.GROUP, name), READ_TOPIC})
    await story.change()
    joining = JoinGroupRequest(
        group_id=name,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joining.member_id = (await story.ask(joining, 9)).member_id
    joined = await story.ask(joining, 9)
    member = {"group_id": name, "member_id": joined.member_id, "generation_id": joined.generation_id}
    syncing = SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range", assignments=[])
    await story.ask(syncing, 5)

    async def go_on() -> None:
        await story.ask(HeartbeatRequest(**member), 4)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=name,
            member_id=joined.member_id,
            generation_id_or_member_epoch=joined.generation_id,
            topics=[OffsetCommitRequestTopic(name="revoked", partitions=[partition])],
        )
        await story.ask(request, 9)
        await story.ask(syncing, 5)

    await go_on()
    right = taken._replace(resource_name=name) if taken.resource_type == ResourceType.GROUP else taken
    await story.change(take=right)
    await go_on()
    leaving = LeaveGroupRequest(group_id=name, members=[MemberIdentity(member_id=joined.member_id)])
    if right != taken:
        await story.ask(leaving, 5)
    described = (await door.ask(DescribeGroupsRequest(groups=[name]), 5, ROOT)).groups[0]
    story.heard.append([described.group_state, len(described.members)])
    await story.change(give=right)
    await go_on()
    await story.ask(leaving, 5)
    return story.heard


# -- fetch sessions --------------------------------------------------------------------------------------------------


async def in_a_fetch_session(door: Door, version: int, taken: Operation) -> list[Any]:
    """Read is what it takes; to describe what it reads a client need not be allowed to go on."""
    ids = [await _id(door, name) for name in TOPICS]
    rights = {may(Operation.READ, ResourceType.TOPIC, name) for name in TOPICS}
    story = Story(door, rights)
    await story.change()
    session = {"session_id": 0, "session_epoch": 0}

    async def fetch(*names: str) -> None:
        topics = [
            FetchTopic(
                topic=name,
                topic_id=ids[TOPICS.index(name)],
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
            for name in names
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics, **session)
        answer = await story.door.ask(request, version, ALICE)
        session.update(session_id=answer.session_id, session_epoch=session["session_epoch"] + 1)
        partitions = [
            (TOPICS[ids.index(topic.topic_id)] if version >= 13 else topic.topic, one)
            for topic in answer.responses
            for one in topic.partitions
        ]
        told_of = [[name, ErrorCode(one.error_code).name, bool(one.records)] for name, one in partitions]
        story.heard.append([bool(answer.session_id), *sorted(told_of)])

    await fetch(*TOPICS)
    await fetch()
    denial = may(taken, ResourceType.TOPIC, "revoked", Permission.DENY)
    await story.change(give=denial)
    await fetch()
    await fetch()
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="revoked")], allow_auto_topic_creation=False)
    await story.ask(wanted, 12)
    partition = ListOffsetsPartition(partition_index=0, timestamp=-2)
    listing = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="revoked", partitions=[partition])])
    await story.ask(listing, 9)
    await story.change(take=denial)
    await fetch()
    return story.heard


async def _id(door: Door, name: str) -> bytes:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return bytes((await until_good(door, wanted, 12, lambda answer: answer.topics[0])).topic_id)


async def _topics(door: Door) -> None:
    """With a record each."""
    for name in TOPICS:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        await door.ask(CreateTopicsRequest(topics=[topic]), 7, ROOT)
        batch = memoryview(build_batch([NewRecord(value=b"v", timestamp_ms=1)]))
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])],
        )
        await until_good(door, request, 11, lambda answer: answer.responses[0].partition_responses[0])


STORIES: dict[str, Callable[[Door], Awaitable[list[Any]]]] = {
    **{
        f"{taken} in a transaction{' that is added to by writing' if implied else ''}": (
            lambda door, taken=taken, implied=implied: in_a_transaction(door, taken, implied=implied)  # type: ignore[misc]
        )
        for implied in (False, True)
        for taken in ("id", "topic", "group", "read")
    },
    "the group of a member": lambda door: in_a_group(door, may(Operation.READ, ResourceType.GROUP, "")),
    "the topic of a member": lambda door: in_a_group(door, READ_TOPIC),
    **{
        f"{taken.name} in a fetch session, version {version}": (
            lambda door, taken=taken, version=version: in_a_fetch_session(door, version, taken)  # type: ignore[misc]
        )
        for version in (12, 16)
        for taken in (Operation.READ, Operation.DESCRIBE)
    },
}


async def answers(door: Door) -> dict[str, Any]:
    await _topics(door)
    return {name: await story(door) for name, story in STORIES.items()}
