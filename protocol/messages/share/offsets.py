"""Where share groups are (KIP-932): DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91) and
DeleteShareGroupOffsets (92).
"""

from protocol.schema import Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@struct
class DescribeOffsetsTopic:
    topic_name: String
    partitions: list[Int32]


@struct
class DescribeOffsetsGroup:
    group_id: String
    topics: list[DescribeOffsetsTopic] | None = field(nullable_since=0, default=None)


@message(kind=Kind.REQUEST, api_key=90, versions=range(0, 2), flexible=0)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeOffsetsGroup]


@struct
class DescribedOffsetsPartition:
    partition_index: Int32
    start_offset: Int64 = -1
    leader_epoch: Int32 = 0
    lag: Int64 = field(since=1, default=-1)
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class DescribedOffsetsTopic:
    topic_name: String
    topic_id: Uuid = bytes(16)
    partitions: list[DescribedOffsetsPartition]


@struct
class DescribedOffsetsGroup:
    group_id: String
    topics: list[DescribedOffsetsTopic] = field(default_factory=list[DescribedOffsetsTopic])
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=90, versions=range(0, 2), flexible=0)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedOffsetsGroup]


@struct
class AlterOffsetsPartition:
    partition_index: Int32
    start_offset: Int64


@struct
class AlterOffsetsTopic:
    topic_name: String
    partitions: list[AlterOffsetsPartition]


@message(kind=Kind.REQUEST, api_key=91, versions=range(0, 1), flexible=0)
class AlterShareGroupOffsetsRequest:
    group_id: String
    topics: list[AlterOffsetsTopic]


@struct
class AlteredOffsetsPartition:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class AlteredOffsetsTopic:
    topic_name: String
    topic_id: Uuid = bytes(16)
    partitions: list[AlteredOffsetsPartition]


@message(kind=Kind.RESPONSE, api_key=91, versions=range(0, 1), flexible=0)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    responses: list[AlteredOffsetsTopic] = field(default_factory=list[AlteredOffsetsTopic])


@struct
class DeleteOffsetsTopic:
    topic_name: String


@message(kind=Kind.REQUEST, api_key=92, versions=range(0, 1), flexible=0)
class DeleteShareGroupOffsetsRequest:
    group_id: String
    topics: list[DeleteOffsetsTopic]


@struct
class DeletedOffsetsTopic:
    topic_name: String
    topic_id: Uuid = bytes(16)
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=92, versions=range(0, 1), flexible=0)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    responses: list[DeletedOffsetsTopic] = field(default_factory=list[DeletedOffsetsTopic])
