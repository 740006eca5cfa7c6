"""Consumer groups of the new protocol (KIP-848): ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69)."""

from protocol.schema import Bool, Int8, Int16, Int32, Kind, String, Uuid, field, message, struct


@struct
class HeartbeatTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message(kind=Kind.REQUEST, api_key=68, versions=range(0, 2), flexible=0)
class ConsumerGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(nullable_since=0, default=None)
    rack_id: String | None = field(nullable_since=0, default=None)
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = field(nullable_since=0, default=None)
    subscribed_topic_regex: String | None = field(since=1, nullable_since=1, default=None)
    server_assignor: String | None = field(nullable_since=0, default=None)
    topic_partitions: list[HeartbeatTopicPartitions] | None = field(nullable_since=0, default=None)


@struct
class HeartbeatAssignment:
    topic_partitions: list[HeartbeatTopicPartitions]


@message(kind=Kind.RESPONSE, api_key=68, versions=range(0, 2), flexible=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    member_id: String | None = field(nullable_since=0, default=None)
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: HeartbeatAssignment | None = field(nullable_since=0, default=None)


@message(kind=Kind.REQUEST, api_key=69, versions=range(0, 2), flexible=0)
class ConsumerGroupDescribeRequest:
    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedTopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class DescribedAssignment:
    topic_partitions: list[DescribedTopicPartitions]


@struct
class DescribedMember:
    member_id: String
    instance_id: String | None = field(nullable_since=0, default=None)
    rack_id: String | None = field(nullable_since=0, default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = field(nullable_since=0, default=None)
    assignment: DescribedAssignment
    target_assignment: DescribedAssignment
    member_type: Int8 = field(since=1, default=-1)


@struct
class DescribedConsumerGroup:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[DescribedMember] = field(default_factory=list[DescribedMember])
    authorized_operations: Int32 = -2147483648


@message(kind=Kind.RESPONSE, api_key=69, versions=range(0, 2), flexible=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup]
