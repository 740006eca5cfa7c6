"""What the group coordinator writes of a streams group to `__consumer_offsets`."""

from protocol.schema import Int8, Int16, Int32, Int64, Kind, String, Uint16, field, message, struct


@message(kind=Kind.DATA, api_key=17, versions=range(0, 1))
class StreamsGroupMetadataKey:
    group_id: String


@struct
class LastAssignmentConfig:
    key: String
    value: String


@message(kind=Kind.DATA, api_key=17, versions=range(0, 1), flexible=0)
class StreamsGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = field(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, nullable_since=0, default=None)


@message(kind=Kind.DATA, api_key=19, versions=range(0, 1))
class StreamsGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class LoggedEndpoint:
    host: String
    port: Uint16


@struct
class LoggedTag:
    key: String
    value: String


@message(kind=Kind.DATA, api_key=19, versions=range(0, 1), flexible=0)
class StreamsGroupMemberMetadataValue:
    instance_id: String | None = field(nullable_since=0)
    rack_id: String | None = field(nullable_since=0)
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: LoggedEndpoint | None = field(nullable_since=0, default=None)
    client_tags: list[LoggedTag]


@message(kind=Kind.DATA, api_key=20, versions=range(0, 1))
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: String


@message(kind=Kind.DATA, api_key=20, versions=range(0, 1), flexible=0)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)


@message(kind=Kind.DATA, api_key=21, versions=range(0, 1))
class StreamsGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TargetTaskIds:
    subtopology_id: String
    partitions: list[Int32]


@message(kind=Kind.DATA, api_key=21, versions=range(0, 1), flexible=0)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TargetTaskIds]
    standby_tasks: list[TargetTaskIds]
    warmup_tasks: list[TargetTaskIds]


@message(kind=Kind.DATA, api_key=22, versions=range(0, 1))
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class CurrentTaskIds:
    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, nullable_since=0, default=None)


@message(kind=Kind.DATA, api_key=22, versions=range(0, 1), flexible=0)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[CurrentTaskIds]
    standby_tasks: list[CurrentTaskIds]
    warmup_tasks: list[CurrentTaskIds]
    active_tasks_pending_revocation: list[CurrentTaskIds]
    standby_tasks_pending_revocation: list[CurrentTaskIds]
    warmup_tasks_pending_revocation: list[CurrentTaskIds]


@message(kind=Kind.DATA, api_key=23, versions=range(0, 1))
class StreamsGroupTopologyKey:
    group_id: String


@struct
class LoggedTopicConfig:
    key: String
    value: String


@struct
class LoggedTopicInfo:
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[LoggedTopicConfig]


@struct
class LoggedCopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class LoggedSubtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[LoggedTopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[LoggedTopicInfo]
    copartition_groups: list[LoggedCopartitionGroup]


@message(kind=Kind.DATA, api_key=23, versions=range(0, 1), flexible=0)
class StreamsGroupTopologyValue:
    epoch: Int32
    subtopologies: list[LoggedSubtopology]
