"""Consumer groups: membership, the classic protocol."""

from protocol.schema import Bool, Bytes, Int8, Int16, Int32, Kind, String, field, message, struct


@message(kind=Kind.REQUEST, api_key=10, versions=range(0, 7), flexible=3)
class FindCoordinatorRequest:
    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)
    coordinator_keys: list[String] = field(since=4, default_factory=list[String])


@struct
class Coordinator:
    key: String = field(since=4, default="")
    node_id: Int32 = field(since=4, default=0)
    host: String = field(since=4, default="")
    port: Int32 = field(since=4, default=0)
    error_code: Int16 = field(since=4, default=0)
    error_message: String | None = field(since=4, nullable_since=4, default="")


@message(kind=Kind.RESPONSE, api_key=10, versions=range(0, 7), flexible=3)
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = field(until=3, default=0)
    error_message: String | None = field(since=1, until=3, nullable_since=1, nullable_until=3, default="")
    node_id: Int32 = field(until=3, default=0)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default_factory=list[Coordinator])


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@message(kind=Kind.REQUEST, api_key=11, versions=range(0, 10), flexible=6)
class JoinGroupRequest:
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(since=1, default=-1)
    member_id: String
    group_instance_id: String | None = field(since=5, nullable_since=5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = field(since=8, nullable_since=8, default=None)


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: String | None = field(since=5, nullable_since=5, default=None)
    metadata: Bytes


@message(kind=Kind.RESPONSE, api_key=11, versions=range(0, 10), flexible=6)
class JoinGroupResponse:
    throttle_time_ms: Int32 = field(since=2, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(since=7, nullable_since=7, default=None)
    protocol_name: String | None = field(nullable_since=7)
    leader: String
    skip_assignment: Bool = field(since=9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@message(kind=Kind.REQUEST, api_key=14, versions=range(0, 6), flexible=4)
class SyncGroupRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(since=3, nullable_since=3, default=None)
    protocol_type: String | None = field(since=5, nullable_since=5, default=None)
    protocol_name: String | None = field(since=5, nullable_since=5, default=None)
    assignments: list[SyncGroupRequestAssignment]


@message(kind=Kind.RESPONSE, api_key=14, versions=range(0, 6), flexible=4)
class SyncGroupResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    protocol_type: String | None = field(since=5, nullable_since=5, default=None)
    protocol_name: String | None = field(since=5, nullable_since=5, default=None)
    assignment: Bytes


@message(kind=Kind.REQUEST, api_key=12, versions=range(0, 5), flexible=4)
class HeartbeatRequest:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(since=3, nullable_since=3, default=None)


@message(kind=Kind.RESPONSE, api_key=12, versions=range(0, 5), flexible=4)
class HeartbeatResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0


@struct
class MemberIdentity:
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, nullable_since=3, default=None)
    reason: String | None = field(since=5, nullable_since=5, default=None)


@message(kind=Kind.REQUEST, api_key=13, versions=range(0, 6), flexible=4)
class LeaveGroupRequest:
    group_id: String
    member_id: String = field(until=2, default="")
    members: list[MemberIdentity] = field(since=3, default_factory=list[MemberIdentity])


@struct
class MemberResponse:
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, nullable_since=3, default="")
    error_code: Int16 = field(since=3, default=0)


@message(kind=Kind.RESPONSE, api_key=13, versions=range(0, 6), flexible=4)
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    members: list[MemberResponse] = field(since=3, default_factory=list[MemberResponse])


@message(kind=Kind.REQUEST, api_key=15, versions=range(0, 7), flexible=5)
class DescribeGroupsRequest:
    groups: list[String]
    include_authorized_operations: Bool = field(since=3, default=False)


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: String | None = field(since=4, nullable_since=4, default=None)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = field(since=6, nullable_since=6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = field(since=3, default=-2147483648)


@message(kind=Kind.RESPONSE, api_key=15, versions=range(0, 7), flexible=5)
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    groups: list[DescribedGroup]


@message(kind=Kind.REQUEST, api_key=16, versions=range(0, 6), flexible=3)
class ListGroupsRequest:
    states_filter: list[String] = field(since=4, default_factory=list[String])
    types_filter: list[String] = field(since=5, default_factory=list[String])


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: String = field(since=4, default="")
    group_type: String = field(since=5, default="")


@message(kind=Kind.RESPONSE, api_key=16, versions=range(0, 6), flexible=3)
class ListGroupsResponse:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = 0
    groups: list[ListedGroup]


@message(kind=Kind.REQUEST, api_key=42, versions=range(0, 4), flexible=2)
class DeleteGroupsRequest:
    groups_names: list[String]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0
    error_message: String | None = field(since=3, nullable_since=3, default=None)


@message(kind=Kind.RESPONSE, api_key=42, versions=range(0, 4), flexible=2)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
