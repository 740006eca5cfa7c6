"""Creating, deleting and growing topics."""

from protocol.schema import Bool, Int8, Int16, Int32, Kind, String, Uuid, field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None = field(nullable_since=0)


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(kind=Kind.REQUEST, api_key=19, versions=range(2, 8), flexible=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs:
    name: String = field(since=5, default="")
    value: String | None = field(since=5, nullable_since=5, default="")
    read_only: Bool = field(since=5, default=False)
    config_source: Int8 = field(since=5, default=-1)
    is_sensitive: Bool = field(since=5, default=False)


@struct
class CreatableTopicResult:
    name: String
    topic_id: Uuid = field(since=7, default=bytes(16))
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0)
    topic_config_error_code: Int16 = field(since=5, tag=0, default=0)
    num_partitions: Int32 = field(since=5, default=-1)
    replication_factor: Int16 = field(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(
        since=5, nullable_since=5, default_factory=list[CreatableTopicConfigs]
    )


@message(kind=Kind.RESPONSE, api_key=19, versions=range(2, 8), flexible=5)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]


@struct
class DeleteTopicState:
    name: String | None = field(since=6, nullable_since=6, default=None)
    topic_id: Uuid = field(since=6, default=bytes(16))


@message(kind=Kind.REQUEST, api_key=20, versions=range(1, 7), flexible=4)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field(since=6, default_factory=list[DeleteTopicState])
    topic_names: list[String] = field(until=5, default_factory=list[String])
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String | None = field(nullable_since=6)
    topic_id: Uuid = field(since=6, default=bytes(16))
    error_code: Int16 = 0
    error_message: String | None = field(since=5, nullable_since=5, default=None)


@message(kind=Kind.RESPONSE, api_key=20, versions=range(1, 7), flexible=4)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32]


@struct
class CreatePartitionsTopic:
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = field(nullable_since=0)


@message(kind=Kind.REQUEST, api_key=37, versions=range(0, 4), flexible=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    name: String
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.RESPONSE, api_key=37, versions=range(0, 4), flexible=2)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]
