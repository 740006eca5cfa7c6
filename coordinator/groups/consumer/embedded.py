"""What consumers of the classic protocol say in bytes that coordinators otherwise pass on unread: their subscription
and their assignment, each behind an int16 version.

A version above ours is read as ours is: later ones only add to it.
"""

from collections.abc import Mapping

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.topics import NAMES_MOST, GroupTopics
from protocol.codec import decode, read_version, versioned
from protocol.errors import ProtocolError
from protocol.schema import Buffer, Bytes, Int32, Kind, String, field, message, struct

LATEST = 3
_VERSION_BYTES = 2


@struct
class EmbeddedTopicPartition:
    topic: String
    partitions: list[Int32]


@message(kind=Kind.DATA, versions=range(0, 4))
class ConsumerProtocolSubscription:
    topics: list[String]
    user_data: Bytes | None = field(nullable_since=0, default=None)
    owned_partitions: list[EmbeddedTopicPartition] = field(since=1, default_factory=list[EmbeddedTopicPartition])
    generation_id: Int32 = field(since=2, default=-1)
    rack_id: String | None = field(since=3, nullable_since=3, default=None)


@message(kind=Kind.DATA, versions=range(0, 4))
class ConsumerProtocolAssignment:
    assigned_partitions: list[EmbeddedTopicPartition]
    user_data: Bytes | None = field(nullable_since=0, default=None)


def _version_of(data: Buffer) -> int:
    version = read_version(data)
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol")
    return min(version, LATEST)


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """What a member wants. Raises `ProtocolError`."""
    subscription = decode(ConsumerProtocolSubscription, _version_of(data), data, _VERSION_BYTES)[0]
    if len(subscription.topics) > NAMES_MOST:
        raise ProtocolError(f"more than {NAMES_MOST} topics are named")
    return subscription


def read_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """What a member has. Raises `ProtocolError`."""
    return decode(ConsumerProtocolAssignment, _version_of(data), data, _VERSION_BYTES)[0]


def assignment_bytes(
    partitions: Mapping[bytes, Mapping[int, int]] | Assignment, topics: GroupTopics, like: Buffer
) -> bytes:
    """What a member has, in the version of its subscription, or the oldest where that cannot be read. Topics that are
    gone are left out."""
    known = ((topics.by_id(topic_id), of) for topic_id, of in partitions.items())
    assigned = [
        EmbeddedTopicPartition(topic=topic.name, partitions=sorted(of)) for topic, of in known if topic is not None
    ]
    try:
        version = _version_of(like)
    except ProtocolError:
        version = 0
    return versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def ids_of(partitions: list[EmbeddedTopicPartition], topics: GroupTopics) -> list[tuple[bytes, list[int]]]:
    """Partitions by the ids that their topics have now."""
    known = ((topics.by_name(one.topic), one.partitions) for one in partitions)
    return [(topic.topic_id, of) for topic, of in known if topic is not None]
