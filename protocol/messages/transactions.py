"""Producer ids and transactions: clients, coordinator, partition leaders and operators."""

from protocol.schema import OWN_TAG, Bool, Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.REQUEST, api_key=22, versions=range(0, 7), flexible=2)
class InitProducerIdRequest:
    transactional_id: String | None = field(nullable_since=0)
    transaction_timeout_ms: Int32
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)
    enable_2pc: Bool = field(since=6, default=False)
    keep_prepared_txn: Bool = field(since=6, default=False)


@message(kind=Kind.RESPONSE, api_key=22, versions=range(0, 7), flexible=2)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: list[Int32]
    topic_id: Uuid = field(since=4, tag=OWN_TAG, default=bytes(16))
    """That of the topic which the asking node has by this name; not in Kafka's message."""


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String = field(since=4, default="")
    producer_id: Int64 = field(since=4, default=0)
    producer_epoch: Int16 = field(since=4, default=0)
    verify_only: Bool = field(since=4, default=False)
    topics: list[AddPartitionsToTxnTopic] = field(since=4, default_factory=list[AddPartitionsToTxnTopic])


@message(kind=Kind.REQUEST, api_key=24, versions=range(0, 6), flexible=3)
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field(
        since=4, default_factory=list[AddPartitionsToTxnTransaction]
    )
    v3_and_below_transactional_id: String = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3, default_factory=list[AddPartitionsToTxnTopic])


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: String = field(since=4, default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        since=4, default_factory=list[AddPartitionsToTxnTopicResult]
    )


@message(kind=Kind.RESPONSE, api_key=24, versions=range(0, 6), flexible=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=4, default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        since=4, default_factory=list[AddPartitionsToTxnResult]
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        until=3, default_factory=list[AddPartitionsToTxnTopicResult]
    )


@message(kind=Kind.REQUEST, api_key=25, versions=range(0, 5), flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(kind=Kind.RESPONSE, api_key=25, versions=range(0, 5), flexible=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(kind=Kind.REQUEST, api_key=26, versions=range(0, 6), flexible=3)
class EndTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(kind=Kind.RESPONSE, api_key=26, versions=range(0, 6), flexible=3)
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(since=5, default=-1)
    producer_epoch: Int16 = field(since=5, default=-1)


@struct
class WritableTxnMarkerTopic:
    name: String
    partition_indexes: list[Int32]
    topic_id: Uuid = field(tag=OWN_TAG, default=bytes(16))
    """That of the topic which the transaction wrote to; not in Kafka's message."""


@struct
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field(since=2, default=0)


@message(kind=Kind.REQUEST, api_key=27, versions=range(1, 3), flexible=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(kind=Kind.RESPONSE, api_key=27, versions=range(1, 3), flexible=1)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult]


@struct
class TopicRequest:
    name: String
    partition_indexes: list[Int32]


@message(kind=Kind.REQUEST, api_key=61, versions=range(0, 1), flexible=0)
class DescribeProducersRequest:
    topics: list[TopicRequest]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    name: String
    partitions: list[PartitionResponse]


@message(kind=Kind.RESPONSE, api_key=61, versions=range(0, 1), flexible=0)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]


@message(kind=Kind.REQUEST, api_key=65, versions=range(0, 1), flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: list[String]


@struct
class TopicData:
    topic: String
    partitions: list[Int32]


@struct
class DescribeTransactionsResponseTransactionState:
    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(kind=Kind.RESPONSE, api_key=65, versions=range(0, 1), flexible=0)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribeTransactionsResponseTransactionState]


@message(kind=Kind.REQUEST, api_key=66, versions=range(0, 3), flexible=0)
class ListTransactionsRequest:
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field(since=1, default=-1)
    transactional_id_pattern: String | None = field(since=2, nullable_since=2, default=None)


@struct
class ListTransactionsResponseTransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(kind=Kind.RESPONSE, api_key=66, versions=range(0, 3), flexible=0)
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String]
    transaction_states: list[ListTransactionsResponseTransactionState]
