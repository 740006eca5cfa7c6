"""Three nodes with an authorizer, which log in to each other with SASL: transactions go from one to another, and what
happens while their principal may not ask is in the log, and is made good when it may."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from protocol.errors import ErrorCode
from protocol.messages.acls import DescribeAclsRequest
from protocol.messages.groups import FindCoordinatorRequest
from protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.transactions import DescribeTransactionsRequest
from tallystick.process import BrokerProcess
from tests.harness.confluent import SECONDS, Deliveries, make_topic, read_all, values_of, wait_until
from tests.harness.proxy import free_ports
from tests.harness.secure_broker import MODULES
from tests.harness.together import answer_of

NODES = (1, 2, 3)
PASSWORDS = {"alice": "alice-secret", "nodes": "nodes-secret"}
USERS = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
LOGIN = f'{MODULES}.plain.PlainLoginModule required username="nodes" password="{PASSWORDS["nodes"]}" {USERS};'
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SECURE",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
CLUSTER = (ResourceType.BROKER, "kafka-cluster")
TOPIC, GROUP = (ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "copiers")
ID = (ResourceType.TRANSACTIONAL_ID, "copier")
CAUSE = "a node does not let this one ask: is its principal in super.users?"


@dataclass(frozen=True, slots=True)
class Guarded:
    """The listener that is open is for whoever sets the stage, a super user."""

    process: BrokerProcess
    open_port: int
    guarded_port: int
    root: AdminClient

    @property
    def open(self) -> str:
        return self.open_at(1)

    def open_at(self, node_id: int) -> str:
        return f"127.0.0.1:{self.open_port + node_id - 1}"

    @property
    def as_alice(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{self.guarded_port + number}" for number in range(len(NODES))),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORDS["alice"],
            "log_level": 0,
        }

    def allow(self, principal: str, resource: tuple[ResourceType, str], operation: AclOperation) -> None:
        one = AclBinding(
            *resource, ResourcePatternType.LITERAL, f"User:{principal}", "*", operation, AclPermissionType.ALLOW
        )
        for done in self.root.create_acls([one]).values():
            done.result(SECONDS)

    def take_back(self, principal: str) -> None:
        """All that it was allowed; every node knows it then."""
        some = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{principal}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for done in self.root.delete_acls([some]).values():
            assert done.result(SECONDS)
        rules = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=f"User:{principal}",
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for node_id in NODES:
            wait_until(lambda: not answer_of(self.open_at(node_id), rules).resources, "the node has heard")  # noqa: B023

    @property
    def controller(self) -> int:
        return int(self.root.list_topics(timeout=SECONDS).controller_id)

    def coordinator(self) -> int:
        """Of alice's transactions. It and that of her group are made where it is not for a node to ask."""
        for kind, key in ((0, GROUP[1]), (1, ID[1])):
            found = wait_until(lambda: self._found(kind, key), "a coordinator")  # noqa: B023
        return int(found.node_id)

    def _found(self, kind: int, key: str) -> Any:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        (one,) = answer_of(self.open_at(self.controller), request).coordinators
        return None if one.error_code else one

    def state(self, coordinator: int) -> str:
        """That of alice's transactional id."""
        request = DescribeTransactionsRequest(transactional_ids=[ID[1]])
        (told,) = answer_of(self.open_at(coordinator), request).transaction_states
        return str(told.transaction_state)

    def made_at(self, node_id: int, name: str) -> int:
        """What a super user is told who makes a topic there."""
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        return int(answer_of(self.open_at(node_id), CreateTopicsRequest(topics=[topic])).topics[0].error_code)

    def writer(self) -> Producer:
        made = Producer({**self.as_alice, "transactional.id": ID[1]})
        made.init_transactions(SECONDS)
        return made

    def log(self) -> str:
        return self.process.log.read_text()

    def denied(self, request: str) -> bool:
        return any(CAUSE in line and f"of={request}" in line for line in self.log().splitlines())


@contextmanager
def guarded(folder: Path, super_users: str) -> Iterator[Guarded]:
    open_port, guarded_port = free_ports(len(NODES)), free_ports(len(NODES))
    listeners = f"PLAINTEXT://127.0.0.1:{open_port},SECURE://127.0.0.1:{guarded_port}"
    settings = SETTINGS | {"super.users": super_users}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    process = BrokerProcess(folder, options=["--listeners", listeners, "--nodes", str(len(NODES)), *options])
    process.has_data = False
    process.start()
    try:
        made = Guarded(process, open_port, guarded_port, AdminClient({"bootstrap.servers": f"127.0.0.1:{open_port}"}))
        make_topic(made.open_at(made.controller), TOPIC[1], len(NODES))
        assert {one.leader for one in made.root.list_topics(TOPIC[1]).topics[TOPIC[1]].partitions.values()} == set(
            NODES
        )
        made.allow("alice", TOPIC, AclOperation.WRITE)
        made.allow("alice", TOPIC, AclOperation.READ)
        made.allow("alice", GROUP, AclOperation.READ)
        made.allow("alice", ID, AclOperation.WRITE)
        yield made
        assert "Traceback" not in made.log()
    finally:
        process.close()


@pytest.fixture
def trusting(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path, "User:ANONYMOUS;User:nodes") as made:
        yield made


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Guarded]:
    """Whoever wrote down the super users has forgotten the nodes."""
    with guarded(tmp_path, "User:ANONYMOUS") as made:
        yield made


def write(writer: Producer, value: bytes) -> Deliveries:
    """To what each node leads."""
    deliveries = Deliveries()
    writer.begin_transaction()
    for partition in range(len(NODES)):
        writer.produce(TOPIC[1], value, partition=partition, on_delivery=deliveries)
    assert writer.flush(SECONDS) == 0
    return deliveries


def test_transactions_and_changes_go_from_node_to_node(trusting: Guarded) -> None:
    for node_id in NODES:
        assert trusting.made_at(node_id, f"made-at-{node_id}") == ErrorCode.NONE
    writer = trusting.writer()
    reader = Consumer({**trusting.as_alice, "group.id": GROUP[1], "enable.auto.commit": False})
    for number, commits in enumerate((True, False, True)):
        assert write(writer, b"%r" % commits).failed == []
        offsets = [TopicPartition(TOPIC[1], partition, number) for partition in range(len(NODES))]
        writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), SECONDS)
        (writer.commit_transaction if commits else writer.abort_transaction)(SECONDS)
    assert values_of(read_all(trusting.open, TOPIC[1])) == [b"True"] * 6
    committed = reader.committed([TopicPartition(TOPIC[1], partition) for partition in range(len(NODES))], SECONDS)
    reader.close()
    assert [one.offset for one in committed] == [2] * 3
    assert CAUSE not in trusting.log()
    assert "principal=User:nodes" not in trusting.log(), "nothing was denied to a node"


def test_a_change_that_a_node_may_not_ask_for_is_no_matter_of_the_client(forgetful: Guarded) -> None:
    """It is told to go to the controller, and the log names the cause."""
    controller = forgetful.controller
    for node_id in NODES:
        expected = ErrorCode.NONE if node_id == controller else ErrorCode.NOT_CONTROLLER
        assert forgetful.made_at(node_id, f"made-at-{node_id}") == expected
    assert forgetful.denied("CreateTopics")


def test_a_batch_that_a_leader_may_not_ask_about_is_refused_as_by_kafka(forgetful: Guarded) -> None:
    """INVALID_TXN_STATE, whatever the coordinator has said. Nothing of it is ever shown."""
    coordinator = forgetful.coordinator()
    writer = forgetful.writer()
    deliveries = write(writer, b"half")
    assert len(deliveries.acknowledged) <= 1, "where the coordinator is"
    assert deliveries.failed
    assert forgetful.denied("AddPartitionsToTxn")
    with pytest.raises(KafkaException):
        writer.commit_transaction(SECONDS)
    forgetful.allow("nodes", CLUSTER, AclOperation.CLUSTER_ACTION)
    later = forgetful.writer()
    assert write(later, b"whole").failed == []
    later.commit_transaction(SECONDS)
    assert values_of(read_all(forgetful.open, TOPIC[1])) == [b"whole"] * 3
    wait_until(lambda: forgetful.state(coordinator) == "CompleteCommit", "it is complete")


def test_markers_that_a_coordinator_may_not_ask_for_are_written_when_it_may(forgetful: Guarded) -> None:
    coordinator = forgetful.coordinator()
    forgetful.allow("nodes", CLUSTER, AclOperation.CLUSTER_ACTION)
    writer = forgetful.writer()
    assert write(writer, b"first").failed == []
    forgetful.take_back("nodes")
    writer.commit_transaction(SECONDS)  # It is decided.
    wait_until(lambda: forgetful.denied("WriteTxnMarkers"), "the cause in the log")
    wait_until(lambda: values_of(read_all(forgetful.open, TOPIC[1])) == [b"first"], "what its own node leads is shown")
    assert forgetful.state(coordinator) == "PrepareCommit"
    forgetful.allow("nodes", CLUSTER, AclOperation.CLUSTER_ACTION)
    wait_until(lambda: forgetful.state(coordinator) == "CompleteCommit", "all markers are written")
    assert values_of(read_all(forgetful.open, TOPIC[1])) == [b"first"] * 3
    assert write(writer, b"second").failed == []
    writer.commit_transaction(SECONDS)
    assert sorted(values_of(read_all(forgetful.open, TOPIC[1]))) == [b"first"] * 3 + [b"second"] * 3
