"""Streams groups (KIP-1071): StreamsGroupHeartbeat (88), StreamsGroupDescribe (89)."""

from protocol.schema import Bool, Int8, Int16, Int32, Int64, Kind, String, Uint16, field, message, struct


@struct
class StreamsKeyValue:
    key: String
    value: String


@struct
class StreamsTopicInfo:
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[StreamsKeyValue]


@struct
class StreamsEndpoint:
    host: String
    port: Uint16


@struct
class StreamsTaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class StreamsTaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class HeartbeatSubtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[StreamsTopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[StreamsTopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class HeartbeatTopology:
    epoch: Int32
    subtopologies: list[HeartbeatSubtopology]


@message(kind=Kind.REQUEST, api_key=88, versions=range(0, 1), flexible=0)
class StreamsGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = field(nullable_since=0, default=None)
    rack_id: String | None = field(nullable_since=0, default=None)
    rebalance_timeout_ms: Int32 = -1
    topology: HeartbeatTopology | None = field(nullable_since=0, default=None)
    active_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    standby_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    warmup_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    process_id: String | None = field(nullable_since=0, default=None)
    user_endpoint: StreamsEndpoint | None = field(nullable_since=0, default=None)
    client_tags: list[StreamsKeyValue] | None = field(nullable_since=0, default=None)
    task_offsets: list[StreamsTaskOffset] | None = field(nullable_since=0, default=None)
    task_end_offsets: list[StreamsTaskOffset] | None = field(nullable_since=0, default=None)
    shutdown_application: Bool = False


@struct
class StreamsStatus:
    status_code: Int8
    status_detail: String


@struct
class StreamsTopicPartition:
    topic: String
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: StreamsEndpoint
    active_partitions: list[StreamsTopicPartition]
    standby_partitions: list[StreamsTopicPartition]


@message(kind=Kind.RESPONSE, api_key=88, versions=range(0, 1), flexible=0)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[StreamsStatus] | None = field(nullable_since=0, default_factory=list[StreamsStatus])
    active_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    standby_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    warmup_tasks: list[StreamsTaskIds] | None = field(nullable_since=0, default=None)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(nullable_since=0, default=None)


@message(kind=Kind.REQUEST, api_key=89, versions=range(0, 1), flexible=0)
class StreamsGroupDescribeRequest:
    group_ids: list[String]
    include_authorized_operations: Bool = False


@struct
class DescribedSubtopology:
    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[StreamsTopicInfo]
    repartition_source_topics: list[StreamsTopicInfo]


@struct
class DescribedTopology:
    epoch: Int32
    subtopologies: list[DescribedSubtopology] | None = field(nullable_since=0, default=None)


@struct
class DescribedTasks:
    active_tasks: list[StreamsTaskIds] = field(default_factory=list[StreamsTaskIds])
    standby_tasks: list[StreamsTaskIds] = field(default_factory=list[StreamsTaskIds])
    warmup_tasks: list[StreamsTaskIds] = field(default_factory=list[StreamsTaskIds])


@struct
class DescribedStreamsMember:
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(nullable_since=0, default=None)
    rack_id: String | None = field(nullable_since=0, default=None)
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: StreamsEndpoint | None = field(nullable_since=0, default=None)
    client_tags: list[StreamsKeyValue]
    task_offsets: list[StreamsTaskOffset]
    task_end_offsets: list[StreamsTaskOffset]
    assignment: DescribedTasks
    target_assignment: DescribedTasks
    is_classic: Bool


@struct
class DescribedStreamsGroup:
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: DescribedTopology | None = field(nullable_since=0, default=None)
    members: list[DescribedStreamsMember] = field(default_factory=list[DescribedStreamsMember])
    authorized_operations: Int32 = -2147483648


@message(kind=Kind.RESPONSE, api_key=89, versions=range(0, 1), flexible=0)
class StreamsGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedStreamsGroup]
