"""A group coordinator on a log in memory and topics that a test makes: the tools of the stories in this folder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from coordinator.groups.consumer.answers import HeartbeatAnswer
from coordinator.groups.consumer.embedded import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    EmbeddedTopicPartition,
    read_assignment,
)
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.consumer.topics import TopicFacts
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from coordinator.machine import ReplayedRecord
from coordinator.runtime import Shard
from protocol.codec import read_key, read_version, read_versioned, versioned
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse, DescribedConsumerGroup
from tests.harness.group_settings import FixedGroupSettings
from tests.harness.memory_shard_log import MemoryShardLog
from tests.unit.groups.story import Story, joined, synced

GROUP = "orders"
REBALANCE_MS = 60_000

_TABLES: Mapping[int, tuple[type, type | None]] = {
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, None),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


def topic_id(name: str) -> bytes:
    """The id that topics of this name have in these stories."""
    return name.encode().rjust(16, b"\x01")


class Topics:
    """`GroupTopics` as a test makes them."""

    def __init__(self) -> None:
        self.revision = self.creations = self.offset = 0
        self._topics: dict[str, TopicFacts] = {}

    def set(self, name: str, partitions: int, *, fresh_id: bytes | None = None) -> None:
        """A topic is created, or grows."""
        self.revision += 1
        self.offset += 1
        self.creations += name not in self._topics
        self._topics[name] = TopicFacts(name, fresh_id or topic_id(name), partitions)

    def delete(self, name: str) -> None:
        self.revision += 1
        self.offset += 1
        del self._topics[name]

    def names(self) -> list[str]:
        return list(self._topics)

    def by_name(self, name: str) -> TopicFacts | None:
        return self._topics.get(name)

    def by_id(self, wanted: bytes) -> TopicFacts | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == wanted), None)


class ConsumerStory(Story):
    """One shard, topics, and members that speak the consumer protocol."""

    def __init__(self, settings: FixedGroupSettings | None = None, *, durable: bool = True, **topics: int) -> None:
        self.topics = Topics()
        for name, partitions in topics.items():
            self.topics.set(name, partitions)
        self.resolutions: list[Resolution] = []
        super().__init__(settings, durable=durable)
        self.settings.consumer.assignment_ms = 0

    def _shard(self, log: MemoryShardLog) -> Shard[GroupCoordinator]:
        make = lambda: GroupCoordinator(self.settings, None, self.topics)  # noqa: E731
        shard = Shard(make, log, self.time, self.time, name="groups-0", compacted=True)
        while not shard.load_slice(1 << 20):
            pass
        return shard

    # -- members ---------------------------------------------------------------------------------------------

    def say(self, member: str, epoch: int, *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat. Topics, or any other field, are said only where they are given."""
        fields: dict[str, Any] = {"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"}
        if topics:
            fields["topics"] = frozenset(topics)
        owned = said.pop("owned", None)
        if owned is not None:
            fields["owned"] = tuple((topic_id(topic), tuple(of)) for topic, of in owned.items())
        asked = Said(member_id=member, epoch=epoch, **(fields | said))
        answer = cast(
            HeartbeatAnswer, self.ask(lambda machine, ticket, now: machine.consumer_heartbeat(asked, ticket, now))
        )
        if answer.resolution is not None:
            self.resolutions.append(answer.resolution)
        return answer.response

    def come(self, member: str, *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        """A full request of a member that joins."""
        full: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "owned": {}, "topics": frozenset(topics)} | said
        return self.say(member, 0, **full)

    def gets(self, answer: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """What an answer assigns, by topic; None where it says nothing of it."""
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code), answer.error_message)
        if answer.assignment is None:
            return None
        return {_name(one.topic_id): one.partitions for one in answer.assignment.topic_partitions}

    def resolve(self, found: Mapping[str, Sequence[str]] | None) -> None:
        """The oldest request for what expressions stand for is answered."""
        asked = self.resolutions.pop(0)
        topics = None if found is None else {regex: frozenset(names) for regex, names in found.items()}
        self.ask(lambda machine, ticket, now: machine.expressions_resolved(asked, topics, ticket, now))

    def described(self, group: str = GROUP) -> DescribedConsumerGroup:
        shown = self.ask(lambda machine, ticket, now: machine.describe_consumer_group(group, ticket, now))
        shown.group.members = [describe() for describe in shown.members]
        return cast(DescribedConsumerGroup, shown.group)

    def group_state(self) -> tuple[str, int, int]:
        """State, epoch of the group, epoch of its assignment."""
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def current(self) -> dict[str, dict[str, list[int]]]:
        """Who has what, what is being given back included."""
        return {
            member.member_id: {one.topic_name: one.partitions for one in member.assignment.topic_partitions}
            for member in self.described().members
        }

    # -- the log ---------------------------------------------------------------------------------------------

    def written(self, since: int = 0) -> list[tuple[object, object]]:
        """Keys and values from an offset on, decoded; None is a tombstone."""
        found: list[tuple[object, object]] = []
        for entry in self.entries():
            if isinstance(entry, ReplayedRecord) and entry.offset >= since:
                key, value = _TABLES[read_version(entry.key)]
                read = None if entry.value is None else read_versioned(cast(type, value), entry.value)
                found.append((read_key(key, entry.key), read))
        return found


def _name(wanted: bytes) -> str:
    return wanted.lstrip(b"\x01").decode()


# -- members of the classic protocol ---------------------------------------------------------------------------------


def embedded(*topics: str, owned: dict[str, list[int]] | None = None, rack: str | None = None) -> bytes:
    """A subscription as consumers of the classic protocol say it."""
    had = [EmbeddedTopicPartition(topic=topic, partitions=of) for topic, of in (owned or {}).items()]
    return versioned(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=had, rack_id=rack), 3)


def assignment(topic: str, *partitions: int) -> bytes:
    given = [EmbeddedTopicPartition(topic=topic, partitions=list(partitions))]
    return versioned(ConsumerProtocolAssignment(assigned_partitions=given), 3)


def given(data: bytes) -> dict[str, list[int]]:
    return {one.topic: one.partitions for one in read_assignment(data).assigned_partitions}


def classic_group(
    story: ConsumerStory, count: int = 1, share: Callable[[int], bytes] = lambda number: assignment("t", number)
) -> list[str]:
    """A stable classic group; its members share t from 0 on, one each."""
    protocols = (("range", embedded("t")),)
    ids = [story.new_member(protocols=protocols) for _ in range(count)]
    tickets = [story.join(member, protocols=protocols) for member in ids]
    story.tick()
    generation = joined(tickets[0]).generation_id
    shares = {member: share(number) for number, member in enumerate(ids)}
    for member in reversed(ids):
        story.sync(member, generation, shares if member == ids[0] else None)
    assert story.state == "Stable"
    return ids


T = (("range", embedded("t")),)
OWNS_0 = (("range", embedded("t", owned={"t": [0]})),)


def mixed(**said: Any) -> tuple[ConsumerStory, str]:
    """B speaks the consumer protocol; the other, who is told, the classic one. Each has one partition, of epoch 2."""
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    assert story.gets(story.come("B", "t", **said)) == {"t": [1]}
    assert joined(story.join(old, protocols=OWNS_0)).generation_id == 2
    assert given(synced(story.sync(old, 2)).assignment) == {"t": [0]}
    assert story.group_state() == ("Stable", 2, 2)
    return story, old
