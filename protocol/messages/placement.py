"""Which brokers have and lead partitions: elections of leaders (KIP-183, KIP-460), and reassignments of replicas
(KIP-455)."""

from protocol.schema import Bool, Int8, Int16, Int32, Kind, String, field, message, struct


@struct
class ElectLeadersRequestTopicPartitions:
    topic: String
    partitions: list[Int32]


@message(kind=Kind.REQUEST, api_key=43, versions=range(0, 3), flexible=2)
class ElectLeadersRequest:
    election_type: Int8 = field(since=1, default=0)
    topic_partitions: list[ElectLeadersRequestTopicPartitions] | None = field(nullable_since=0)
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: list[PartitionResult]


@message(kind=Kind.RESPONSE, api_key=43, versions=range(0, 3), flexible=2)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=1, default=0)
    replica_election_results: list[ReplicaElectionResult]


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = field(nullable_since=0, default=None)


@struct
class ReassignableTopic:
    name: String
    partitions: list[ReassignablePartition]


@message(kind=Kind.REQUEST, api_key=45, versions=range(0, 2), flexible=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field(since=1, default=True)
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class ReassignableTopicResponse:
    name: String
    partitions: list[ReassignablePartitionResponse]


@message(kind=Kind.RESPONSE, api_key=45, versions=range(0, 2), flexible=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field(since=1, default=True)
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    responses: list[ReassignableTopicResponse]


@struct
class ListPartitionReassignmentsTopics:
    name: String
    partition_indexes: list[Int32]


@message(kind=Kind.REQUEST, api_key=46, versions=range(0, 1), flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = field(nullable_since=0, default=None)


@struct
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class OngoingTopicReassignment:
    name: String
    partitions: list[OngoingPartitionReassignment]


@message(kind=Kind.RESPONSE, api_key=46, versions=range(0, 1), flexible=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
    topics: list[OngoingTopicReassignment]
