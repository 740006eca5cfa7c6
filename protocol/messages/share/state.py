"""What the share coordinator keeps of share partitions (KIP-932): InitializeShareGroupState (83) to
ReadShareGroupStateSummary (87).
"""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@struct
class InitializePartitionData:
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializeStateData:
    topic_id: Uuid
    partitions: list[InitializePartitionData]


@message(kind=Kind.REQUEST, api_key=83, versions=range(0, 1), flexible=0)
class InitializeShareGroupStateRequest:
    group_id: String
    topics: list[InitializeStateData]


@struct
class InitializePartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class InitializeStateResult:
    topic_id: Uuid
    partitions: list[InitializePartitionResult]


@message(kind=Kind.RESPONSE, api_key=83, versions=range(0, 1), flexible=0)
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult]


@struct
class ReadPartitionData:
    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateData:
    topic_id: Uuid
    partitions: list[ReadPartitionData]


@message(kind=Kind.REQUEST, api_key=84, versions=range(0, 1), flexible=0)
class ReadShareGroupStateRequest:
    group_id: String
    topics: list[ReadStateData]


@struct
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@struct
class ReadPartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list[StateBatch])


@struct
class ReadStateResult:
    topic_id: Uuid
    partitions: list[ReadPartitionResult]


@message(kind=Kind.RESPONSE, api_key=84, versions=range(0, 1), flexible=0)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult]


@struct
class WritePartitionData:
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(since=1, default=-1)
    state_batches: list[StateBatch]


@struct
class WriteStateData:
    topic_id: Uuid
    partitions: list[WritePartitionData]


@message(kind=Kind.REQUEST, api_key=85, versions=range(0, 2), flexible=0)
class WriteShareGroupStateRequest:
    group_id: String
    topics: list[WriteStateData]


@struct
class WritePartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class WriteStateResult:
    topic_id: Uuid
    partitions: list[WritePartitionResult]


@message(kind=Kind.RESPONSE, api_key=85, versions=range(0, 2), flexible=0)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult]


@struct
class DeletePartitionData:
    partition: Int32


@struct
class DeleteStateData:
    topic_id: Uuid
    partitions: list[DeletePartitionData]


@message(kind=Kind.REQUEST, api_key=86, versions=range(0, 1), flexible=0)
class DeleteShareGroupStateRequest:
    group_id: String
    topics: list[DeleteStateData]


@struct
class DeletePartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class DeleteStateResult:
    topic_id: Uuid
    partitions: list[DeletePartitionResult]


@message(kind=Kind.RESPONSE, api_key=86, versions=range(0, 1), flexible=0)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult]


@struct
class SummaryPartitionData:
    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateSummaryData:
    topic_id: Uuid
    partitions: list[SummaryPartitionData]


@message(kind=Kind.REQUEST, api_key=87, versions=range(0, 2), flexible=0)
class ReadShareGroupStateSummaryRequest:
    group_id: String
    topics: list[ReadStateSummaryData]


@struct
class SummaryPartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(since=1, default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: Uuid
    partitions: list[SummaryPartitionResult]


@message(kind=Kind.RESPONSE, api_key=87, versions=range(0, 2), flexible=0)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult]
