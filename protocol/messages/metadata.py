"""A client's first requests: versions, brokers, topics."""

from protocol.schema import Bool, Int8, Int16, Int32, Int64, Kind, String, Uuid, field, message, struct


@message(kind=Kind.REQUEST, api_key=18, versions=range(0, 6), flexible=3)
class ApiVersionsRequest:
    client_software_name: String = field(since=3, default="")
    client_software_version: String = field(since=3, default="")
    cluster_id: String | None = field(since=5, nullable_since=5, default=None)
    node_id: Int32 = field(since=5, default=-1)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String = field(since=3, default="")
    min_version: Int16 = field(since=3, default=0)
    max_version: Int16 = field(since=3, default=0)


@struct
class FinalizedFeatureKey:
    name: String = field(since=3, default="")
    max_version_level: Int16 = field(since=3, default=0)
    min_version_level: Int16 = field(since=3, default=0)


@message(kind=Kind.RESPONSE, api_key=18, versions=range(0, 6), flexible=3)
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field(since=1, default=0)
    supported_features: list[SupportedFeatureKey] = field(since=3, tag=0, default_factory=list[SupportedFeatureKey])
    finalized_features_epoch: Int64 = field(since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(since=3, tag=2, default_factory=list[FinalizedFeatureKey])
    zk_migration_ready: Bool = field(since=3, tag=3, default=False)


@struct
class MetadataRequestTopic:
    topic_id: Uuid = field(since=10, default=bytes(16))
    name: String | None = field(nullable_since=10)


@message(kind=Kind.REQUEST, api_key=3, versions=range(0, 14), flexible=9)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Bool = field(since=4, default=True)
    include_cluster_authorized_operations: Bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = field(since=8, default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(since=1, nullable_since=1, default=None)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(since=7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field(since=5, default_factory=list[Int32])


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: String | None = field(nullable_since=12)
    topic_id: Uuid = field(since=10, default=bytes(16))
    is_internal: Bool = field(since=1, default=False)
    partitions: list[MetadataResponsePartition] = field(written_once=True)
    topic_authorized_operations: Int32 = field(since=8, default=-2147483648)


@message(kind=Kind.RESPONSE, api_key=3, versions=range(0, 14), flexible=9)
class MetadataResponse:
    throttle_time_ms: Int32 = field(since=3, default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field(since=2, nullable_since=2, default=None)
    controller_id: Int32 = field(since=1, default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=-2147483648)
    error_code: Int16 = field(since=13, default=0)


@message(kind=Kind.REQUEST, api_key=60, versions=range(0, 3), flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field(since=1, default=1)
    include_fenced_brokers: Bool = field(since=2, default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = field(nullable_since=0, default=None)
    is_fenced: Bool = field(since=2, default=False)


@message(kind=Kind.RESPONSE, api_key=60, versions=range(0, 3), flexible=0)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648


@struct
class TopicRequest:
    name: String


@struct
class DescribeTopicPartitionsRequestCursor:
    topic_name: String
    partition_index: Int32


@message(kind=Kind.REQUEST, api_key=75, versions=range(0, 1), flexible=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = field(nullable_since=0, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(nullable_since=0, default=None)
    last_known_elr: list[Int32] | None = field(nullable_since=0, default=None)
    offline_replicas: list[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None = field(nullable_since=0)
    topic_id: Uuid
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


@struct
class DescribeTopicPartitionsResponseCursor:
    topic_name: String
    partition_index: Int32


@message(kind=Kind.RESPONSE, api_key=75, versions=range(0, 1), flexible=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(nullable_since=0, default=None)
