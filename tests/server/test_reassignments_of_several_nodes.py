"""Partitions that are given to another node by hand, as `kafka-reassign-partitions` does: under load, by any node."""

import pytest

import tallystick
from protocol.errors import ErrorCode
from protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.harness.confluent import SECONDS, make_topic, read_all, values_of, wait_until
from tests.harness.together import answer_of
from tests.server.test_several_nodes import Running, leaders

NODES = (1, 2, 3)


@pytest.fixture
def broker(nodes: tallystick.Broker) -> tallystick.Broker:
    return nodes


def reassigned(
    address: str, topic: str, replicas: dict[int, list[int] | None], timeout_ms: int = 30_000
) -> AlterPartitionReassignmentsResponse:
    """Asked of the node at this address."""
    wanted = [ReassignablePartition(partition_index=index, replicas=nodes) for index, nodes in replicas.items()]
    topics = [ReassignableTopic(name=topic, partitions=wanted)]

    answer = answer_of(address, AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics))
    under_way = answer_of(address, ListPartitionReassignmentsRequest(topics=None))
    assert (under_way.error_code, under_way.topics) == (0, [])
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    return answer


def errors(answer: AlterPartitionReassignmentsResponse) -> dict[int, ErrorCode]:
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    return {one.partition_index: ErrorCode(one.error_code) for one in topic.partitions}


def test_a_partition_is_given_to_each_node_in_turn_by_each(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    running = Running(broker, "orders")
    running.goes_on()
    for address in broker.node_addresses().values():
        for node in NODES:
            assert errors(reassigned(address, "orders", {0: [node]})) == {0: ErrorCode.NONE}
            assert broker.leader("orders", 0) == node
            running.goes_on()
    written = running.stop()
    assert values_of(read_all(broker.bootstrap, "orders")) == written
    broker.audit()


def test_what_cannot_be_is_refused_and_the_rest_is_done(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 6)
    before = leaders(broker, "orders")
    gone, here = 3, 1
    wrong = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    address = broker.node_addresses()[2]
    wanted: dict[int, list[int] | None] = {0: [here], 1: [1, 2], 2: [], 3: [9], 4: None, 7: [1]}
    assert errors(reassigned(address, "orders", wanted)) == {
        0: ErrorCode.NONE,
        1: wrong,
        2: wrong,
        3: wrong,
        4: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert leaders(broker, "orders") == {**before, 0: here}
    broker.kill_node(gone)
    wait_until(lambda: gone not in leaders(broker, "orders").values(), "others lead what it led", seconds=SECONDS)
    assert errors(reassigned(address, "orders", {0: [gone], 1: [2]})) == {0: wrong, 1: ErrorCode.NONE}
    assert reassigned(address, "orders", {0: [2]}, timeout_ms=0).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_what_was_placed_by_hand_stays_while_nobody_comes_or_goes(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 6)
    assert set(
        errors(reassigned(broker.node_addresses()[1], "orders", {index: [2] for index in range(6)})).values()
    ) == {0}
    make_topic(broker.bootstrap, "others", 2)
    assert set(leaders(broker, "orders").values()) == {2}
    assert set(leaders(broker, "others").values()) == {1, 3}, "who leads fewer comes first"
