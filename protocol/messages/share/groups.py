"""Share groups (KIP-932): ShareGroupHeartbeat (76), ShareGroupDescribe (77)."""

from protocol.schema import Bool, Int16, Int32, Kind, String, Uuid, field, message, struct


@message(kind=Kind.REQUEST, api_key=76, versions=range(1, 2), flexible=0)
class ShareGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = field(nullable_since=0, default=None)
    subscribed_topic_names: list[String] | None = field(nullable_since=0, default=None)


@struct
class ShareTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class ShareAssignment:
    topic_partitions: list[ShareTopicPartitions]


@message(kind=Kind.RESPONSE, api_key=76, versions=range(1, 2), flexible=0)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    member_id: String | None = field(nullable_since=0, default=None)
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareAssignment | None = field(nullable_since=0, default=None)


@message(kind=Kind.REQUEST, api_key=77, versions=range(1, 2), flexible=0)
class ShareGroupDescribeRequest:
    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedShareTopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class DescribedShareAssignment:
    topic_partitions: list[DescribedShareTopicPartitions]


@struct
class DescribedShareMember:
    member_id: String
    rack_id: String | None = field(nullable_since=0, default=None)
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: DescribedShareAssignment


@struct
class DescribedShareGroup:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[DescribedShareMember] = field(default_factory=list[DescribedShareMember])
    authorized_operations: Int32 = -2147483648


@message(kind=Kind.RESPONSE, api_key=77, versions=range(1, 2), flexible=0)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup]
