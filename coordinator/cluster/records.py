"""What the cluster coordinator writes to `__cluster_metadata`.

Two records carry a field that Kafka's do not have, tagged (KIP-482) with a number far above Kafka's, which counts its
own up from 0: Kafka's readers and tools pass over tags that they do not know.
"""

from protocol.schema import (
    OWN_TAG,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    String,
    Uint16,
    Uuid,
    field,
    message,
    struct,
)


@message(kind=Kind.DATA, api_key=2, versions=range(0, 1), flexible=0)
class TopicRecord:
    name: String
    topic_id: Uuid


@message(kind=Kind.DATA, api_key=3, versions=range(0, 3), flexible=0)
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(tag=0, default=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = field(since=1, default_factory=list[Uuid])
    eligible_leader_replicas: list[Int32] | None = field(since=2, nullable_since=2, tag=1, default=None)
    last_known_elr: list[Int32] | None = field(since=2, nullable_since=2, tag=2, default=None)


@message(kind=Kind.DATA, api_key=4, versions=range(0, 1), flexible=0)
class ConfigRecord:
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None = field(nullable_since=0)


@message(kind=Kind.DATA, api_key=9, versions=range(0, 1), flexible=0)
class RemoveTopicRecord:
    topic_id: Uuid


@message(kind=Kind.DATA, api_key=5, versions=range(0, 3), flexible=0)
class PartitionChangeRecord:
    partition_id: Int32 = -1
    topic_id: Uuid
    isr: list[Int32] | None = field(nullable_since=0, tag=0, default=None)
    leader: Int32 = field(tag=1, default=-2)
    replicas: list[Int32] | None = field(nullable_since=0, tag=2, default=None)
    removing_replicas: list[Int32] | None = field(nullable_since=0, tag=3, default=None)
    adding_replicas: list[Int32] | None = field(nullable_since=0, tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    # Of the new leader. Kafka adds one to the epoch of the partition; ours are those of the whole cluster, so that a
    # node can tell from any two of them which came later, and no sum over the log is needed to know one.
    leader_epoch: Int32 = field(tag=OWN_TAG, default=-1)
    directories: list[Uuid] | None = field(since=1, nullable_since=1, tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field(since=2, nullable_since=2, tag=6, default=None)
    last_known_elr: list[Int32] | None = field(since=2, nullable_since=2, tag=7, default=None)


@message(kind=Kind.DATA, api_key=12, versions=range(0, 1), flexible=0)
class FeatureLevelRecord:
    name: String
    feature_level: Int16


@message(kind=Kind.DATA, api_key=11, versions=range(0, 1), flexible=0)
class UserScramCredentialRecord:
    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(kind=Kind.DATA, api_key=22, versions=range(0, 1), flexible=0)
class RemoveUserScramCredentialRecord:
    name: String
    mechanism: Int8


@struct
class QuotaEntity:
    entity_type: String
    entity_name: String | None = field(nullable_since=0)


@message(kind=Kind.DATA, api_key=14, versions=range(0, 1), flexible=0)
class ClientQuotaRecord:
    entity: list[QuotaEntity]
    key: String
    value: Float64 = 0.0
    remove: Bool = False


@message(kind=Kind.DATA, api_key=15, versions=range(0, 1), flexible=0)
class ProducerIdsRecord:
    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@message(kind=Kind.DATA, api_key=18, versions=range(0, 1), flexible=0)
class AccessControlEntryRecord:
    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(kind=Kind.DATA, api_key=19, versions=range(0, 1), flexible=0)
class RemoveAccessControlEntryRecord:
    id: Uuid


@message(kind=Kind.DATA, api_key=20, versions=range(0, 1), flexible=0)
class NoOpRecord:
    """In a snapshot: the highest epoch so far, which may have been that of a topic or a node that is gone."""

    epoch: Int64 = field(tag=OWN_TAG, default=-1)


@struct
class BrokerEndpoint:
    name: String
    host: String
    port: Uint16
    security_protocol: Int16


@struct
class BrokerFeature:
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@message(kind=Kind.DATA, api_key=0, versions=range(0, 5), flexible=0)
class RegisterBrokerRecord:
    broker_id: Int32
    is_migrating_zk_broker: Bool = field(since=2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None = field(nullable_since=0)
    fenced: Bool = True
    in_controlled_shutdown: Bool = field(since=1, default=False)
    log_dirs: list[Uuid] = field(since=3, tag=0, default_factory=list[Uuid])
    cordoned_log_dirs: list[Uuid] | None = field(since=4, nullable_since=4, tag=1, default=None)


@message(kind=Kind.DATA, api_key=1, versions=range(0, 1), flexible=0)
class UnregisterBrokerRecord:
    broker_id: Int32
    broker_epoch: Int64


@message(kind=Kind.DATA, api_key=17, versions=range(0, 4), flexible=0)
class BrokerRegistrationChangeRecord:
    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(tag=0, default=0)
    in_controlled_shutdown: Int8 = field(since=1, tag=1, default=0)
    log_dirs: list[Uuid] = field(since=2, tag=2, default_factory=list[Uuid])
    cordoned_log_dirs: list[Uuid] | None = field(since=3, nullable_since=3, tag=3, default=None)


@message(kind=Kind.DATA, versions=range(0, 1), flexible=0)
class SnapshotHeaderRecord:
    version: Int16
    last_contained_log_timestamp: Int64


@message(kind=Kind.DATA, versions=range(0, 1), flexible=0)
class SnapshotFooterRecord:
    version: Int16


@struct
class Voter:
    voter_id: Int32
    voter_directory_id: Uuid = field(since=1, default=bytes(16))


@message(kind=Kind.DATA, versions=range(0, 2), flexible=0)
class LeaderChangeMessage:
    version: Int16
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]
