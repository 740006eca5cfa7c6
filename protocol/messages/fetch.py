"""Fetch: record batches out of partitions."""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, Records, String, Uuid, field, message, struct


@struct
class ReplicaState:
    replica_id: Int32 = field(since=15, default=-1)
    replica_epoch: Int64 = field(since=15, default=-1)


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Int32 = field(since=9, default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(since=12, default=-1)
    log_start_offset: Int64 = field(since=5, default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(since=17, tag=0, default=bytes(16))
    high_watermark: Int64 = field(since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)


@struct
class FetchTopic:
    topic: String = field(until=12, default="")
    topic_id: Uuid = field(since=13, default=bytes(16))
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: String = field(since=7, until=12, default="")
    topic_id: Uuid = field(since=13, default=bytes(16))
    partitions: list[Int32] = field(since=7, default_factory=list[Int32])


@message(kind=Kind.REQUEST, api_key=1, versions=range(4, 19), flexible=12)
class FetchRequest:
    cluster_id: String | None = field(since=12, nullable_since=12, tag=0, default=None)
    replica_id: Int32 = field(until=14, default=-1)
    replica_state: ReplicaState = field(since=15, tag=1, default_factory=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = field(since=7, default=0)
    session_epoch: Int32 = field(since=7, default=-1)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(since=7, default_factory=list[ForgottenTopic])
    rack_id: String = field(since=11, default="")


@struct
class EpochEndOffset:
    epoch: Int32 = field(since=12, default=-1)
    end_offset: Int64 = field(since=12, default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(since=12, default=-1)
    leader_epoch: Int32 = field(since=12, default=-1)


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field(since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(since=12, tag=0, default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(since=12, tag=1, default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(since=12, tag=2, default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(nullable_since=4)
    preferred_read_replica: Int32 = field(since=11, default=-1)
    records: Records | None = field(nullable_since=0)


@struct
class FetchableTopicResponse:
    topic: String = field(until=12, default="")
    topic_id: Uuid = field(since=13, default=bytes(16))
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32 = field(since=16, default=0)
    host: String = field(since=16, default="")
    port: Int32 = field(since=16, default=0)
    rack: String | None = field(since=16, nullable_since=16, default=None)


@message(kind=Kind.RESPONSE, api_key=1, versions=range(4, 19), flexible=12)
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=7, default=0)
    session_id: Int32 = field(since=7, default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(since=16, tag=0, default_factory=list[NodeEndpoint])
