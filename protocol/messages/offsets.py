"""Where a partition begins, ends, and what lies at a time or an epoch; and moving its beginning."""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, String, field, message, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Int32 = field(since=4, default=-1)
    timestamp: Int64


@struct
class ListOffsetsTopic:
    name: String
    partitions: list[ListOffsetsPartition]


@message(kind=Kind.REQUEST, api_key=2, versions=range(1, 12), flexible=6)
class ListOffsetsRequest:
    replica_id: Int32
    isolation_level: Int8 = field(since=2, default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field(since=10, default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field(since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(kind=Kind.RESPONSE, api_key=2, versions=range(1, 12), flexible=6)
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: list[ListOffsetsTopicResponse]


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(kind=Kind.REQUEST, api_key=23, versions=range(2, 5), flexible=4)
class OffsetForLeaderEpochRequest:
    replica_id: Int32 = field(since=3, default=-2)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: list[EpochEndOffset]


@message(kind=Kind.RESPONSE, api_key=23, versions=range(2, 5), flexible=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]


@struct
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    name: String
    partitions: list[DeleteRecordsPartition]


@message(kind=Kind.REQUEST, api_key=21, versions=range(0, 3), flexible=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String
    partitions: list[DeleteRecordsPartitionResult]


@message(kind=Kind.RESPONSE, api_key=21, versions=range(0, 3), flexible=2)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
