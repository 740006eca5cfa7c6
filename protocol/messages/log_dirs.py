"""Where partitions are kept: describing the folders of a broker (KIP-113, KIP-827), and moving partitions between
them."""

from protocol.schema import Bool, Int16, Int32, Int64, Kind, String, field, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: String
    partitions: list[Int32]


@struct
class AlterReplicaLogDir:
    path: String
    topics: list[AlterReplicaLogDirTopic]


@message(kind=Kind.REQUEST, api_key=34, versions=range(1, 3), flexible=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


@message(kind=Kind.RESPONSE, api_key=34, versions=range(1, 3), flexible=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: list[Int32]


@message(kind=Kind.REQUEST, api_key=35, versions=range(1, 6), flexible=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(nullable_since=0)


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field(since=4, default=-1)
    usable_bytes: Int64 = field(since=4, default=-1)
    is_cordoned: Bool = field(since=5, default=False)


@message(kind=Kind.RESPONSE, api_key=35, versions=range(1, 6), flexible=2)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=3, default=0)
    results: list[DescribeLogDirsResult]
