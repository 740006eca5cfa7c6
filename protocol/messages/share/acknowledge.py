"""What became of acquired records (KIP-932): ShareAcknowledge (79)."""

from protocol.schema import Bool, Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class AcknowledgeTopic:
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


@message(kind=Kind.REQUEST, api_key=79, versions=range(1, 3), flexible=0)
class ShareAcknowledgeRequest:
    group_id: String | None = field(nullable_since=0, default=None)
    member_id: String | None = field(nullable_since=0)
    share_session_epoch: Int32
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[AcknowledgeTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=79, versions=range(1, 3), flexible=0)
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list[ShareAcknowledgeTopicResponse])
    node_endpoints: list[NodeEndpoint] = field(default_factory=list[NodeEndpoint])
