"""One request of each API, in the forms that matter to permissions (`api_requests` says about what)."""

from collections.abc import Iterator

from protocol.acls import Operation, Permission, ResourceType
from protocol.messages import (
    acls,
    client_quotas,
    configs,
    consumer_groups,
    delegation_tokens,
    features,
    group_offsets,
    groups,
    metadata,
    offsets,
    sasl,
    topics,
    transactions,
)
from tests.unit.security.administration_cases import administration
from tests.unit.security.api_requests import (
    RESOURCES,
    TOPICS,
    adding,
    altering,
    committing,
    creating,
    describing,
    fetched_alone,
    fetched_offsets,
    fetching,
    looking_for,
    named,
    producing,
    staging,
)
from tests.unit.security.case import Case
from tests.unit.security.share_cases import of_members_of_shares, of_share_groups, of_shared_records
from tests.unit.security.streams_cases import of_streams_groups


def of_topics() -> Iterator[Case]:
    yield Case("Metadata", 12, lambda _: describing(topics=[named("t"), named("absent")]))
    yield Case("Metadata of all", 12, lambda _: describing(topics=None))
    yield Case("Metadata by id", 12, lambda one: describing(topics=[named(None, one), named(None, b"\1" * 16)]))
    yield Case(
        "Metadata that makes",
        12,
        lambda _: describing(topics=[named("t"), named("in/valid")], allow_auto_topic_creation=True),
    )
    yield Case(
        "Metadata of the cluster", 8, lambda _: describing(topics=[], include_cluster_authorized_operations=True)
    )
    described = [metadata.TopicRequest(name=name) for name in TOPICS]
    yield Case("DescribeTopicPartitions", 0, lambda _: metadata.DescribeTopicPartitionsRequest(topics=list(described)))
    yield Case("DescribeTopicPartitions of all", 0, lambda _: metadata.DescribeTopicPartitionsRequest(topics=[]))


def of_making_topics() -> Iterator[Case]:
    yield Case("CreateTopics", 7, lambda _: creating("fresh", "t"))
    yield Case("CreateTopics twice", 7, lambda _: creating("fresh", "fresh"))
    yield Case("DeleteTopics", 5, lambda _: topics.DeleteTopicsRequest(topic_names=["absent", "t"], timeout_ms=1000))
    yield Case(
        "DeleteTopics by id",
        6,
        lambda one: topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(topic_id=one), topics.DeleteTopicState(name="absent")], timeout_ms=1000
        ),
    )
    yield Case(
        "CreatePartitions",
        3,
        lambda _: topics.CreatePartitionsRequest(
            topics=[topics.CreatePartitionsTopic(name=name, count=1, assignments=None) for name in TOPICS],
            timeout_ms=1000,
            validate_only=True,
        ),
    )


def of_records() -> Iterator[Case]:
    yield Case("Produce", 12, lambda _: producing())
    yield Case("Produce by id", 13, lambda one: producing(by_id=one))
    yield Case("Produce in a transaction", 11, lambda _: producing(transactional_id="x"))
    yield Case("Fetch", 12, lambda _: fetching())
    yield Case("Fetch by id", 16, lambda one: fetching(by_id=one))
    yield Case("Fetch of a replica", 12, lambda _: fetching(replica_id=5))


def of_offsets() -> Iterator[Case]:
    yield Case(
        "ListOffsets",
        9,
        lambda _: offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                offsets.ListOffsetsTopic(
                    name=name, partitions=[offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)]
                )
                for name in TOPICS
            ],
        ),
    )
    yield Case(
        "DeleteRecords",
        2,
        lambda _: offsets.DeleteRecordsRequest(
            topics=[
                offsets.DeleteRecordsTopic(
                    name=name, partitions=[offsets.DeleteRecordsPartition(partition_index=0, offset=0)]
                )
                for name in TOPICS
            ],
            timeout_ms=1000,
        ),
    )
    yield Case(
        "OffsetForLeaderEpoch",
        4,
        lambda _: offsets.OffsetForLeaderEpochRequest(
            topics=[
                offsets.OffsetForLeaderTopic(
                    topic=name, partitions=[offsets.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
                )
                for name in TOPICS
            ]
        ),
    )
    yield Case(
        "DescribeProducers",
        0,
        lambda _: transactions.DescribeProducersRequest(
            topics=[transactions.TopicRequest(name=name, partition_indexes=[0]) for name in TOPICS]
        ),
    )


def of_groups() -> Iterator[Case]:
    yield Case(
        "FindCoordinator of share partitions",
        6,
        lambda _: groups.FindCoordinatorRequest(key_type=2, coordinator_keys=["x"]),
    )
    for kind, key in ((0, "g"), (1, "x")):
        request = {"key_type": kind, "coordinator_keys": [key]}
        yield Case(f"FindCoordinator of type {kind}", 4, lambda _, one=request: groups.FindCoordinatorRequest(**one))  # type: ignore[misc]
        old = {"key_type": kind, "key": key}
        yield Case(f"FindCoordinator 3 of type {kind}", 3, lambda _, one=old: groups.FindCoordinatorRequest(**one))  # type: ignore[misc]
    yield Case(
        "JoinGroup",
        9,
        lambda _: groups.JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, member_id="nobody", protocol_type="consumer", protocols=[]
        ),
    )
    yield Case(
        "SyncGroup",
        5,
        lambda _: groups.SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id="nobody",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        ),
    )
    yield Case("Heartbeat", 4, lambda _: groups.HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody"))
    yield Case(
        "LeaveGroup",
        5,
        lambda _: groups.LeaveGroupRequest(group_id="g", members=[groups.MemberIdentity(member_id="nobody")]),
    )
    yield Case(
        "DescribeGroups",
        6,
        lambda _: groups.DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True),
    )
    yield Case("ListGroups", 5, lambda _: groups.ListGroupsRequest())
    yield Case("DeleteGroups", 2, lambda _: groups.DeleteGroupsRequest(groups_names=["h"]))


def of_consumer_groups() -> Iterator[Case]:
    yield Case(
        "ConsumerGroupHeartbeat",
        1,
        lambda _: consumer_groups.ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="nobody",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(TOPICS),
            topic_partitions=[],
        ),
    )
    yield Case(
        "ConsumerGroupDescribe",
        1,
        lambda _: consumer_groups.ConsumerGroupDescribeRequest(
            group_ids=["c", "h"], include_authorized_operations=True
        ),
    )


def of_committed_offsets() -> Iterator[Case]:
    yield Case("OffsetCommit", 9, lambda _: committing(9, bytes(16)))
    yield Case("OffsetCommit by id", 10, lambda one: committing(10, one))
    yield Case("TxnOffsetCommit", 4, lambda _: staging())
    yield Case(
        "OffsetDelete",
        0,
        lambda _: group_offsets.OffsetDeleteRequest(
            group_id="g",
            topics=[
                group_offsets.OffsetDeleteRequestTopic(
                    name=name, partitions=[group_offsets.OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in TOPICS
            ],
        ),
    )
    yield Case("OffsetFetch", 9, lambda _: fetched_offsets())
    yield Case("OffsetFetch by id", 10, fetched_offsets)
    yield Case("OffsetFetch of all", 9, lambda _: fetched_offsets(all_topics=True))
    yield Case("OffsetFetch alone", 7, lambda _: fetched_alone())
    yield Case("OffsetFetch 1", 1, lambda _: fetched_alone())


def of_transactions() -> Iterator[Case]:
    for name in ("x", None):
        kind = "" if name else " without transactions"
        yield Case(
            f"InitProducerId{kind}",
            4,
            lambda _, one=name: transactions.InitProducerIdRequest(  # type: ignore[misc]
                transactional_id=one, transaction_timeout_ms=1000, producer_id=-1
            ),
        )
    yield Case("AddPartitionsToTxn", 3, lambda _: adding(3))
    yield Case("AddPartitionsToTxn of a broker", 4, lambda _: adding(4))
    yield Case(
        "AddOffsetsToTxn",
        3,
        lambda _: transactions.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=7, producer_epoch=0, group_id="g"
        ),
    )
    yield Case(
        "EndTxn",
        4,
        lambda _: transactions.EndTxnRequest(transactional_id="x", producer_id=7, producer_epoch=0, committed=True),
    )
    marked = [transactions.WritableTxnMarkerTopic(name="absent", partition_indexes=[0])]
    yield Case(
        "WriteTxnMarkers",
        1,
        lambda _: transactions.WriteTxnMarkersRequest(
            markers=[
                transactions.WritableTxnMarker(
                    producer_id=7, producer_epoch=0, transaction_result=False, topics=list(marked), coordinator_epoch=0
                )
            ]
        ),
    )
    yield Case(
        "DescribeTransactions",
        0,
        lambda _: transactions.DescribeTransactionsRequest(transactional_ids=["x", "y"]),
    )
    yield Case(
        "ListTransactions",
        1,
        lambda _: transactions.ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
    )


def of_the_cluster() -> Iterator[Case]:
    yield Case(
        "ApiVersions",
        3,
        lambda _: metadata.ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    )
    yield Case(
        "DescribeCluster",
        1,
        lambda _: metadata.DescribeClusterRequest(include_cluster_authorized_operations=True),
    )
    yield Case(
        "DescribeConfigs",
        4,
        lambda _: configs.DescribeConfigsRequest(
            resources=[
                configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
                for kind, name in RESOURCES
            ]
        ),
    )
    yield Case(
        "AlterConfigs",
        2,
        altering(configs.AlterConfigsRequest, configs.AlterConfigsRequestAlterConfigsResource),
    )
    yield Case(
        "IncrementalAlterConfigs",
        1,
        altering(configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsRequestAlterConfigsResource),
    )
    yield Case("ListConfigResources", 0, lambda _: configs.ListConfigResourcesRequest())
    yield Case("UpdateFeatures", 1, lambda _: features.UpdateFeaturesRequest(feature_updates=[], validate_only=True))


def of_access() -> Iterator[Case]:
    yield Case("DescribeAcls", 3, lambda _: acls.DescribeAclsRequest(**looking_for()))
    yield Case("DeleteAcls", 3, lambda _: acls.DeleteAclsRequest(filters=[acls.DeleteAclsFilter(**looking_for("n"))]))
    yield Case(
        "CreateAcls",
        3,
        lambda _: acls.CreateAclsRequest(
            creations=[
                acls.AclCreation(
                    resource_type=ResourceType.TOPIC,
                    resource_name="",
                    principal="User:nobody",
                    host="*",
                    operation=Operation.READ,
                    permission_type=Permission.ALLOW,
                )
            ]
        ),
    )
    yield Case(
        "DescribeUserScramCredentials",
        0,
        lambda _: sasl.DescribeUserScramCredentialsRequest(users=[sasl.ScramUserName(name="nobody")]),
    )
    yield Case(
        "AlterUserScramCredentials",
        0,
        lambda _: sasl.AlterUserScramCredentialsRequest(
            deletions=[sasl.ScramCredentialDeletion(name="nobody", mechanism=1)], upsertions=[]
        ),
    )


def of_tokens() -> Iterator[Case]:
    yield Case(
        "CreateDelegationToken",
        3,
        lambda _: delegation_tokens.CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="another", renewers=[], max_lifetime_ms=-1
        ),
    )
    yield Case(
        "RenewDelegationToken", 2, lambda _: delegation_tokens.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1)
    )
    yield Case(
        "ExpireDelegationToken",
        2,
        lambda _: delegation_tokens.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
    )
    yield Case("DescribeDelegationToken", 3, lambda _: delegation_tokens.DescribeDelegationTokenRequest(owners=None))


def of_authentication() -> Iterator[Case]:
    yield Case("SaslHandshake", 1, lambda _: sasl.SaslHandshakeRequest(mechanism="PLAIN"))
    yield Case("SaslAuthenticate", 2, lambda _: sasl.SaslAuthenticateRequest(auth_bytes=b""))


def of_quotas() -> Iterator[Case]:
    of_user = client_quotas.AlteredQuotaEntity(entity_type="user", entity_name="nobody")
    wanted = client_quotas.QuotaFilterComponent(entity_type="user", match_type=0, match="nobody")
    limit = client_quotas.QuotaOperation(key="producer_byte_rate", value=1.0)
    yield Case("DescribeClientQuotas", 1, lambda _: client_quotas.DescribeClientQuotasRequest(components=[wanted]))
    yield Case(
        "AlterClientQuotas",
        1,
        lambda _: client_quotas.AlterClientQuotasRequest(
            entries=[client_quotas.QuotaAlterationEntry(entity=[of_user], ops=[limit])], validate_only=True
        ),
    )


CASES = (
    *of_topics(),
    *of_making_topics(),
    *of_records(),
    *of_offsets(),
    *of_groups(),
    *of_consumer_groups(),
    *of_committed_offsets(),
    *of_transactions(),
    *of_the_cluster(),
    *administration(),
    *(*of_share_groups(), *of_members_of_shares(), *of_shared_records(), *of_streams_groups()),
    *of_access(),
    *of_quotas(),
    *of_authentication(),
    *of_tokens(),
)
