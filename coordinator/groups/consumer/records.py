"""What the group coordinator writes of a consumer group to `__consumer_offsets`."""

from protocol.schema import Bytes, Int8, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.DATA, api_key=3, versions=range(0, 1))
class ConsumerGroupMetadataKey:
    group_id: String


@message(kind=Kind.DATA, api_key=3, versions=range(0, 1), flexible=0)
class ConsumerGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)


@message(kind=Kind.DATA, api_key=4, versions=range(0, 1))
class ConsumerGroupPartitionMetadataKey:
    """Written until Kafka 4.0; the hash of `ConsumerGroupMetadataValue` has taken its place."""

    group_id: String


@message(kind=Kind.DATA, api_key=5, versions=range(0, 1))
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list[ClassicProtocol])


@message(kind=Kind.DATA, api_key=5, versions=range(0, 1), flexible=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None = field(nullable_since=0)
    rack_id: String | None = field(nullable_since=0)
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = field(nullable_since=0)
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = field(nullable_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0, nullable_since=0, default_factory=ClassicMemberMetadata
    )
    """Null where the member does not speak the classic protocol; only that is always written."""


@message(kind=Kind.DATA, api_key=6, versions=range(0, 1))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@message(kind=Kind.DATA, api_key=6, versions=range(0, 1), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


@message(kind=Kind.DATA, api_key=7, versions=range(0, 1))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TargetTopicPartition:
    topic_id: Uuid
    partitions: list[Int32]


@message(kind=Kind.DATA, api_key=7, versions=range(0, 1), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetTopicPartition]


@message(kind=Kind.DATA, api_key=8, versions=range(0, 1))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class CurrentTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, nullable_since=0, default=None)


@message(kind=Kind.DATA, api_key=8, versions=range(0, 1), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


@message(kind=Kind.DATA, api_key=16, versions=range(0, 1))
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@message(kind=Kind.DATA, api_key=16, versions=range(0, 1), flexible=0)
class ConsumerGroupRegularExpressionValue:
    topics: list[String]
    version: Int64
    timestamp: Int64
