"""The offsets that a consumer group commits, plain and transactional."""

from protocol.schema import Bool, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=6, default=-1)
    committed_metadata: String | None = field(nullable_since=0)


@struct
class OffsetCommitRequestTopic:
    name: String = field(until=9, default="")
    topic_id: Uuid = field(since=10, default=bytes(16))
    partitions: list[OffsetCommitRequestPartition]


@message(kind=Kind.REQUEST, api_key=8, versions=range(2, 11), flexible=8)
class OffsetCommitRequest:
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: String | None = field(since=7, nullable_since=7, default=None)
    retention_time_ms: Int64 = field(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: String = field(until=9, default="")
    topic_id: Uuid = field(since=10, default=bytes(16))
    partitions: list[OffsetCommitResponsePartition]


@message(kind=Kind.RESPONSE, api_key=8, versions=range(2, 11), flexible=8)
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: list[OffsetCommitResponseTopic]


@struct
class OffsetFetchRequestTopic:
    name: String = field(until=7, default="")
    partition_indexes: list[Int32] = field(until=7, default_factory=list[Int32])


@struct
class OffsetFetchRequestTopics:
    name: String = field(since=8, until=9, default="")
    topic_id: Uuid = field(since=10, default=bytes(16))
    partition_indexes: list[Int32] = field(since=8, default_factory=list[Int32])


@struct
class OffsetFetchRequestGroup:
    group_id: String = field(since=8, default="")
    member_id: String | None = field(since=9, nullable_since=9, default=None)
    member_epoch: Int32 = field(since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(
        since=8, nullable_since=8, default_factory=list[OffsetFetchRequestTopics]
    )


@message(kind=Kind.REQUEST, api_key=9, versions=range(1, 11), flexible=6)
class OffsetFetchRequest:
    group_id: String = field(until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        until=7, nullable_since=2, nullable_until=7, default_factory=list[OffsetFetchRequestTopic]
    )
    groups: list[OffsetFetchRequestGroup] = field(since=8, default_factory=list[OffsetFetchRequestGroup])
    require_stable: Bool = field(since=7, default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32 = field(until=7, default=0)
    committed_offset: Int64 = field(until=7, default=0)
    committed_leader_epoch: Int32 = field(since=5, until=7, default=-1)
    metadata: String | None = field(until=7, nullable_since=0, nullable_until=7, default="")
    error_code: Int16 = field(until=7, default=0)


@struct
class OffsetFetchResponseTopic:
    name: String = field(until=7, default="")
    partitions: list[OffsetFetchResponsePartition] = field(until=7, default_factory=list[OffsetFetchResponsePartition])


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32 = field(since=8, default=0)
    committed_offset: Int64 = field(since=8, default=0)
    committed_leader_epoch: Int32 = field(since=8, default=-1)
    metadata: String | None = field(since=8, nullable_since=8, default="")
    error_code: Int16 = field(since=8, default=0)


@struct
class OffsetFetchResponseTopics:
    name: String = field(since=8, until=9, default="")
    topic_id: Uuid = field(since=10, default=bytes(16))
    partitions: list[OffsetFetchResponsePartitions] = field(
        since=8, default_factory=list[OffsetFetchResponsePartitions]
    )


@struct
class OffsetFetchResponseGroup:
    group_id: String = field(since=8, default="")
    topics: list[OffsetFetchResponseTopics] = field(since=8, default_factory=list[OffsetFetchResponseTopics])
    error_code: Int16 = field(since=8, default=0)


@message(kind=Kind.RESPONSE, api_key=9, versions=range(1, 11), flexible=6)
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: list[OffsetFetchResponseTopic] = field(until=7, default_factory=list[OffsetFetchResponseTopic])
    error_code: Int16 = field(since=2, until=7, default=0)
    groups: list[OffsetFetchResponseGroup] = field(since=8, default_factory=list[OffsetFetchResponseGroup])


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(kind=Kind.REQUEST, api_key=47, versions=range(0, 1))
class OffsetDeleteRequest:
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(kind=Kind.RESPONSE, api_key=47, versions=range(0, 1))
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=2, default=-1)
    committed_metadata: String | None = field(nullable_since=0)


@struct
class TxnOffsetCommitRequestTopic:
    name: String = field(until=5, default="")
    topic_id: Uuid = field(since=6, default=bytes(16))
    partitions: list[TxnOffsetCommitRequestPartition]


@message(kind=Kind.REQUEST, api_key=28, versions=range(0, 7), flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = field(since=3, default=-1)
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String = field(until=5, default="")
    topic_id: Uuid = field(since=6, default=bytes(16))
    partitions: list[TxnOffsetCommitResponsePartition]


@message(kind=Kind.RESPONSE, api_key=28, versions=range(0, 7), flexible=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
