"""What the group coordinator writes of a share group to `__consumer_offsets`."""

from protocol.schema import Int8, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.DATA, api_key=10, versions=range(0, 1))
class ShareGroupMemberMetadataKey:
    group_id: String
    member_id: String


@message(kind=Kind.DATA, api_key=10, versions=range(0, 1), flexible=0)
class ShareGroupMemberMetadataValue:
    rack_id: String | None = field(nullable_since=0)
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@message(kind=Kind.DATA, api_key=11, versions=range(0, 1))
class ShareGroupMetadataKey:
    group_id: String


@message(kind=Kind.DATA, api_key=11, versions=range(0, 1), flexible=0)
class ShareGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64


@message(kind=Kind.DATA, api_key=12, versions=range(0, 1))
class ShareGroupTargetAssignmentMetadataKey:
    group_id: String


@message(kind=Kind.DATA, api_key=12, versions=range(0, 1), flexible=0)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


@message(kind=Kind.DATA, api_key=13, versions=range(0, 1))
class ShareGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class SharedTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message(kind=Kind.DATA, api_key=13, versions=range(0, 1), flexible=0)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[SharedTopicPartitions]


@message(kind=Kind.DATA, api_key=14, versions=range(0, 1))
class ShareGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@message(kind=Kind.DATA, api_key=14, versions=range(0, 1), flexible=0)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[SharedTopicPartitions]


@message(kind=Kind.DATA, api_key=15, versions=range(0, 1))
class ShareGroupStatePartitionMetadataKey:
    group_id: String


@struct
class SharedTopicState:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class SharedTopicName:
    topic_id: Uuid
    topic_name: String


@message(kind=Kind.DATA, api_key=15, versions=range(0, 1), flexible=0)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[SharedTopicState]
    initialized_topics: list[SharedTopicState]
    deleting_topics: list[SharedTopicName]
