"""What a node that is not the controller is asked for is done and known to all; what nodes tell together is all."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient

from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    DescribeClientQuotasRequest,
    QuotaAlterationEntry,
    QuotaOperation,
)
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from protocol.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.shared_store.several_nodes.cluster import PARTITIONS, SeveralNodes, closing, until
from tests.shared_store.several_nodes.writing import insist
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

SETTINGS: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
}
TOPIC, BROKER, LOGGER = 2, 4, 8
PATIENCE_MS = int(PATIENCE_S * 1000)
NAMES = [f"name-{number:02}" for number in range(12)]


@pytest.fixture
def cluster(nodes: Nodes) -> SeveralNodes:
    return SeveralNodes(nodes, **SETTINGS)


def another(cluster: SeveralNodes) -> int:
    """A node that is not the controller."""
    controller = cluster.controller()
    assert controller in cluster.by_id
    return next(node_id for node_id in cluster.by_id if node_id != controller)


def test_what_a_node_that_is_not_the_controller_is_asked_for_is_done(cluster: SeveralNodes) -> None:
    asked = another(cluster)
    told = cluster.ask(asked, DescribeClusterRequest(include_cluster_authorized_operations=False))
    assert sorted(one.broker_id for one in told.brokers) == [1, 2, 3]
    assert told.controller_id == cluster.controller() != asked
    assert made(cluster, asked, "t", "gone") == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(cluster.leaders("t", asked=asked)) == 3, "whoever was answered knows it"
    assert made(cluster, asked, "t", "other") == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE]
    grown = CreatePartitionsTopic(name="t", count=PARTITIONS, assignments=None)
    (answer,) = cluster.ask(
        asked, CreatePartitionsRequest(topics=[grown], timeout_ms=PATIENCE_MS, validate_only=False)
    ).results
    assert answer.error_code == ErrorCode.NONE
    assert len(cluster.leaders("t", asked=asked)) == PARTITIONS
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=PATIENCE_MS)
    (answer,) = cluster.ask(asked, deleted).responses
    assert answer.error_code == ErrorCode.NONE
    assert cluster.leaders("gone", asked=asked) == {}
    for node_id in cluster.by_id:
        until(lambda: len(cluster.leaders("t", asked=node_id)) == PARTITIONS, "it has grown")  # noqa: B023
        until(lambda: cluster.leaders("gone", asked=node_id) == {}, "it is gone")  # noqa: B023
    producer = Producer(cluster.clients)
    for index in range(PARTITIONS):
        producer.produce("t", str(index).encode(), partition=index)
    assert producer.flush(PATIENCE_S) == 0
    assert cluster.everything("t") == {index: [str(index)] for index in range(PARTITIONS)}
    cluster.stop_all()


def made(cluster: SeveralNodes, asked: int, *names: str) -> list[int]:
    topics = [
        CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=PATIENCE_MS, validate_only=False)
    return [one.error_code for one in cluster.ask(asked, request).topics]


def test_settings_are_changed_at_any_node(cluster: SeveralNodes) -> None:
    asked = another(cluster)
    made(cluster, asked, "t")
    wanted = [(TOPIC, "t", "retention.ms", "123456"), (BROKER, "", "message.max.bytes", "2000000")]
    for kind, name, key, value in wanted:
        assert altered(cluster, asked, kind, name, key, value) == ErrorCode.NONE
        assert config(cluster, asked, kind, name, key) == value, "whoever was answered knows it"
    for node_id in cluster.by_id:
        for kind, name, key, value in wanted:
            until(lambda: config(cluster, node_id, kind, name, key) == value, f"{key} at {node_id}")  # noqa: B023
        for kind, key, value in ((BROKER, "log.cleaner.threads", "2"), (LOGGER, "tallystick.membership", "DEBUG")):
            assert altered(cluster, node_id, kind, str(node_id), key, value) == ErrorCode.NONE
            assert config(cluster, node_id, kind, str(node_id), key) == value
            for other in cluster.by_id:
                assert other == node_id or kind == BROKER or config(cluster, other, kind, str(other), key) == "INFO"
            if kind == LOGGER:
                assert altered(cluster, node_id, kind, str(node_id), key, "INFO") == ErrorCode.NONE
        refused = altered(cluster, node_id, BROKER, "77", "log.cleaner.threads", "2")
        assert refused == ErrorCode.INVALID_REQUEST
        refused = altered(cluster, node_id, BROKER, str(node_id), "log.cleaner.threads", "many")
        assert refused == ErrorCode.INVALID_REQUEST
    replaced = AlterConfigsRequestAlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[AlterConfigsRequestAlterableConfig(name="segment.ms", value="100000")],
    )
    (answer,) = cluster.ask(asked, AlterConfigsRequest(resources=[replaced], validate_only=False)).responses
    assert answer.error_code == ErrorCode.NONE
    assert config(cluster, asked, TOPIC, "t", "segment.ms") == "100000"
    assert config(cluster, asked, TOPIC, "t", "retention.ms") != "123456"
    cluster.stop_all()


def test_who_is_asked_while_the_controller_is_away_may_become_it(cluster: SeveralNodes) -> None:
    """One of the two that are asked does, while it has the request."""
    killed = cluster.controller()
    made(cluster, killed, "t")
    asked = [node_id for node_id in cluster.by_id if node_id != killed]
    for node_id in asked:
        until(lambda: cluster.leaders("t", asked=node_id) != {}, "it is known")  # noqa: B023
    cluster.kill(killed)
    value = "123456"
    with ThreadPoolExecutor() as pool:
        topics = [pool.submit(made, cluster, node_id, f"made-{node_id}") for node_id in asked]
        settings = [pool.submit(altered, cluster, node_id, TOPIC, "t", "retention.ms", value) for node_id in asked]
        missing = [pool.submit(looked_for, cluster, node_id, f"missing-{node_id}") for node_id in asked]
    assert [one.result() for one in topics] == [[ErrorCode.NONE]] * 2
    assert [one.result() for one in settings + missing] == [ErrorCode.NONE] * 4
    assert cluster.controller() in asked


def looked_for(cluster: SeveralNodes, asked: int, name: str) -> int:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    (told,) = cluster.ask(asked, wanted).topics
    return int(told.error_code)


def altered(cluster: SeveralNodes, asked: int, kind: int, name: str, key: str, value: str) -> int:
    changed = IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[changed]
    )
    (answer,) = cluster.ask(asked, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)).responses
    return int(answer.error_code)


def config(cluster: SeveralNodes, asked: int, kind: int, name: str, key: str) -> str | None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    (told,) = cluster.ask(asked, DescribeConfigsRequest(resources=[resource])).results
    return next((one.value for one in told.configs), None)


def test_rules_and_quotas_are_changed_at_any_node(cluster: SeveralNodes) -> None:
    asked = another(cluster)
    rule: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:mary",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    (answer,) = cluster.ask(asked, CreateAclsRequest(creations=[AclCreation(**rule)])).results
    assert answer.error_code == ErrorCode.NONE
    assert rules(cluster, asked) == 1, "whoever was answered knows it"
    entity = [AlteredQuotaEntity(entity_type="user", entity_name="mary")]
    quota = [QuotaOperation(key="producer_byte_rate", value=1e6, remove=False)]
    entry = QuotaAlterationEntry(entity=entity, ops=quota)
    (answer,) = cluster.ask(asked, AlterClientQuotasRequest(entries=[entry])).entries
    assert answer.error_code == ErrorCode.NONE
    for node_id in cluster.by_id:
        until(lambda: rules(cluster, node_id) == 1, "the rule is known")  # noqa: B023
        until(lambda: quotas(cluster, node_id) == 1, "the quota is known")  # noqa: B023
    deletion = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    (deleted,) = cluster.ask(asked, DeleteAclsRequest(filters=[deletion])).filter_results
    assert [one.principal for one in deleted.matching_acls] == ["User:mary"]
    for node_id in cluster.by_id:
        until(lambda: rules(cluster, node_id) == 0, "the rule is gone")  # noqa: B023
    cluster.stop_all()


def rules(cluster: SeveralNodes, asked: int) -> int:
    request = DescribeAclsRequest(
        resource_type_filter=2,
        resource_name_filter="t",
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    told = cluster.ask(asked, request)
    assert told.error_code == ErrorCode.NONE
    return sum(len(one.acls) for one in told.resources)


def quotas(cluster: SeveralNodes, asked: int) -> int:
    told = cluster.ask(asked, DescribeClientQuotasRequest(components=[], strict=False))
    return len(told.entries)


@pytest.fixture
def asker(cluster: SeveralNodes) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=cluster.by_id[another(cluster)].bootstrap)
    try:
        yield made
    finally:
        made.close()


def test_all_nodes_together_tell_of_all_groups_and_transactions(cluster: SeveralNodes, asker: KafkaAdminClient) -> None:
    cluster.make_topics("t")
    for name in NAMES:
        producer = Producer({**cluster.clients, "transactional.id": name})
        insist(producer.init_transactions)
        with closing(Consumer({**cluster.clients, "group.id": name})) as consumer:
            consumer.subscribe(["t"])
            until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS, "it is a member")
            offsets = consumer.position(consumer.assignment())
            for one in offsets:
                one.offset = 0
            consumer.commit(offsets=offsets, asynchronous=False)
    assert len({cluster.coordinator_of_group(name) for name in NAMES}) > 1
    assert len({cluster.coordinator_of_transactions(name) for name in NAMES}) > 1
    assert sorted(one.transactional_id for one in transactions_of(asker)) == NAMES
    assert sorted(one["group_id"] for one in asker.list_groups()) == NAMES
    assert sorted(asker.describe_groups(NAMES)) == NAMES
    assert sorted(asker.describe_transactions(NAMES)) == NAMES
    assert {one["broker_id"] for one in asker.describe_cluster()["brokers"]} == {1, 2, 3}
    asker.delete_groups(NAMES)
    until(lambda: not asker.list_groups(), "the groups are gone")
    cluster.stop_all()


def transactions_of(asker: KafkaAdminClient) -> list[Any]:
    found = asker.list_transactions()
    return [one for of_a_node in found.values() for one in of_a_node] if isinstance(found, dict) else list(found)
