"""Produce: record batches into partitions."""

from protocol.schema import Int16, Int32, Int64, Kind, Records, String, Uuid, field, message, struct


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None = field(nullable_since=0)


@struct
class TopicProduceData:
    name: String = field(until=12, default="")
    topic_id: Uuid = field(since=13, default=bytes(16))
    partition_data: list[PartitionProduceData]


@message(kind=Kind.REQUEST, api_key=0, versions=range(3, 14), flexible=9)
class ProduceRequest:
    transactional_id: String | None = field(nullable_since=3, default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32 = field(since=8, default=0)
    batch_index_error_message: String | None = field(since=8, nullable_since=8, default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(since=10, default=-1)
    leader_epoch: Int32 = field(since=10, default=-1)


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field(since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(since=8, default_factory=list[BatchIndexAndErrorMessage])
    error_message: String | None = field(since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = field(since=10, tag=0, default_factory=LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    name: String = field(until=12, default="")
    topic_id: Uuid = field(since=13, default=bytes(16))
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: Int32 = field(since=10, default=0)
    host: String = field(since=10, default="")
    port: Int32 = field(since=10, default=0)
    rack: String | None = field(since=10, nullable_since=10, default=None)


@message(kind=Kind.RESPONSE, api_key=0, versions=range(3, 14), flexible=9)
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = field(since=10, tag=0, default_factory=list[NodeEndpoint])
