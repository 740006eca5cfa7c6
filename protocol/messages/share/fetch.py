"""Records for the members of share groups (KIP-932): ShareFetch (78)."""

from protocol.schema import Bool, Int8, Int16, Int32, Int64, Kind, Records, String, Uuid, field, message, struct


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class FetchTopic:
    topic_id: Uuid
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic_id: Uuid
    partitions: list[Int32]


@message(kind=Kind.REQUEST, api_key=78, versions=range(1, 3), flexible=0)
class ShareFetchRequest:
    group_id: String | None = field(nullable_since=0, default=None)
    member_id: String | None = field(nullable_since=0)
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2147483647
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field(since=2, default=0)
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = field(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: Records = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list[AcquiredRecords])


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=78, versions=range(1, 3), flexible=0)
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list[ShareFetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = field(default_factory=list[NodeEndpoint])
