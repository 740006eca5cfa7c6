"""What the group coordinator writes to `__consumer_offsets`."""

from protocol.schema import Bytes, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.DATA, api_key=0, versions=range(0, 1))
class LegacyOffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@message(kind=Kind.DATA, api_key=0, versions=range(0, 1))
class LegacyOffsetCommitValue:
    offset: Int64
    metadata: String
    commit_timestamp: Int64


@message(kind=Kind.DATA, api_key=1, versions=range(0, 1))
class OffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@message(kind=Kind.DATA, api_key=1, versions=range(0, 5), flexible=4)
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(since=1, until=1, default=-1)
    topic_id: Uuid = field(since=4, tag=0, default=bytes(16))


@message(kind=Kind.DATA, api_key=2, versions=range(0, 1))
class GroupMetadataKey:
    group: String


@struct
class MemberMetadata:
    member_id: String
    group_instance_id: String | None = field(since=3, nullable_since=3, default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(since=1, default=-1)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@message(kind=Kind.DATA, api_key=2, versions=range(0, 5), flexible=4)
class GroupMetadataValue:
    protocol_type: String
    generation: Int32
    protocol: String | None = field(nullable_since=0)
    leader: String | None = field(nullable_since=0)
    current_state_timestamp: Int64 = field(since=2, default=-1)
    members: list[MemberMetadata]
