"""Members of a cluster: who votes on the metadata log (KIP-595, KIP-836, KIP-853), and brokers that go for good."""

from protocol.schema import Bool, Int16, Int32, Int64, Kind, String, Uint16, Uuid, field, message, struct


@struct
class DescribeQuorumRequestPartitionData:
    partition_index: Int32


@struct
class DescribeQuorumRequestTopicData:
    topic_name: String
    partitions: list[DescribeQuorumRequestPartitionData]


@message(kind=Kind.REQUEST, api_key=55, versions=range(0, 3), flexible=0)
class DescribeQuorumRequest:
    topics: list[DescribeQuorumRequestTopicData]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Uuid = field(since=2, default=bytes(16))
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field(since=1, default=-1)
    last_caught_up_timestamp: Int64 = field(since=1, default=-1)


@struct
class DescribeQuorumResponsePartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = field(since=2, nullable_since=2, default=None)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class DescribeQuorumResponseTopicData:
    topic_name: String
    partitions: list[DescribeQuorumResponsePartitionData]


@struct
class DescribeQuorumResponseListener:
    name: String = field(since=2, default="")
    host: String = field(since=2, default="")
    port: Uint16 = field(since=2, default=0)


@struct
class DescribeQuorumResponseNode:
    node_id: Int32 = field(since=2, default=0)
    listeners: list[DescribeQuorumResponseListener] = field(
        since=2, default_factory=list[DescribeQuorumResponseListener]
    )


@message(kind=Kind.RESPONSE, api_key=55, versions=range(0, 3), flexible=0)
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: String | None = field(since=2, nullable_since=2, default=None)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[DescribeQuorumResponseNode] = field(since=2, default_factory=list[DescribeQuorumResponseNode])


@message(kind=Kind.REQUEST, api_key=64, versions=range(0, 1), flexible=0)
class UnregisterBrokerRequest:
    broker_id: Int32


@message(kind=Kind.RESPONSE, api_key=64, versions=range(0, 1), flexible=0)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@struct
class RaftVoterListener:
    name: String
    host: String
    port: Uint16


@message(kind=Kind.REQUEST, api_key=80, versions=range(0, 2), flexible=0)
class AddRaftVoterRequest:
    cluster_id: String | None = field(nullable_since=0)
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[RaftVoterListener]
    ack_when_committed: Bool = field(since=1, default=True)


@message(kind=Kind.RESPONSE, api_key=80, versions=range(0, 2), flexible=0)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)


@message(kind=Kind.REQUEST, api_key=81, versions=range(0, 1), flexible=0)
class RemoveRaftVoterRequest:
    cluster_id: String | None = field(nullable_since=0)
    voter_id: Int32
    voter_directory_id: Uuid


@message(kind=Kind.RESPONSE, api_key=81, versions=range(0, 1), flexible=0)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(nullable_since=0, default=None)
