"""A fault ends one of three nodes at a step of a transaction: the others go on, and what was decided stays decided."""

import pytest
from confluent_kafka import Consumer, TopicPartition

import tallystick
from tests.harness.confluent import SECONDS, make_topic, producer, read_all, values_of, wait_until, write

POINTS = (
    "ongoing.before-append",
    "ongoing.after-append",
    "ongoing.after-sync",
    "offsets.after-append",
    "offsets.after-sync",
    "produce.before-append",
    "produce.after-append",
    "produce.after-sync",
    "prepare.before-append",
    "prepare.after-append",
    "prepare.after-sync",
    "marker.before",
    "marker.after-append",
    "marker.after-sync",
    "complete.before-append",
    "complete.after-append",
    "complete.after-sync",
    "request.EndTxn",
    "answer.EndTxn",
    "answer.AddPartitionsToTxn",
)


@pytest.fixture
def broker(nodes: tallystick.Broker) -> tallystick.Broker:
    return nodes


@pytest.mark.parametrize("point", POINTS)
def test_a_transaction_outlives_the_node_that_a_fault_ends(broker: tallystick.Broker, point: str) -> None:
    bootstrap = broker.bootstrap
    make_topic(bootstrap, "orders", 3)
    make_topic(bootstrap, "copies", 3)
    assert len(write(bootstrap, "orders", [b"1", b"2", b"3"], partition=0).acknowledged) == 3
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "copier", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("orders", 0, 0)])
    copier = producer(bootstrap, transactional__id="copier")
    copier.init_transactions(SECONDS)
    copier.begin_transaction()
    broker.fault(point, "crash")
    for partition in range(3):
        copier.produce("copies", b"x", partition=partition)
    copier.send_offsets_to_transaction([TopicPartition("orders", 0, 3)], reader.consumer_group_metadata(), SECONDS)
    copier.commit_transaction(SECONDS)
    wait_until(lambda: len(broker.node_addresses()) == 2, "the crash")
    assert broker.process.running
    assert values_of(read_all(bootstrap, "copies")) == [b"x"] * 3
    assert [one.offset for one in reader.committed([TopicPartition("orders", 0)], timeout=SECONDS)] == [3]
    reader.close()
    broker.audit()


def test_the_controller_crashes_while_another_node_starts(broker: tallystick.Broker) -> None:
    controller = broker.controller()
    first, second = (node for node in (1, 2, 3) if node != controller)
    broker.kill_node(first)
    broker.kill_node(second)
    broker.fault("epoch.before-append", "crash")
    broker.start_node(first)
    assert list(broker.node_addresses()) == [first]
    assert broker.controller() == first


def test_a_node_crashes_while_it_starts(broker: tallystick.Broker) -> None:
    for node in (1, 2, 3):
        broker.kill_node(node)
    for point in ("epoch.before-append", "epoch.after-append", "epoch.after-sync"):
        broker.fault(point, "crash")
        with pytest.raises(tallystick.NotDone, match="a fault has ended node 2 while it started"):
            broker.start_node(2)
    assert broker.node_addresses() == {}
    with pytest.raises(tallystick.NotDone, match="no node controls the cluster"):
        broker.controller()


@pytest.mark.parametrize("point", ["metadata.before-append", "metadata.after-append", "metadata.after-sync"])
def test_the_controller_crashes_while_it_moves_a_leader(broker: tallystick.Broker, point: str) -> None:
    make_topic(broker.bootstrap, "orders")
    controller, leader = broker.controller(), broker.leader("orders", 0)
    to = next(node for node in (1, 2, 3) if node not in (controller, leader))
    broker.fault(point, "crash")
    with pytest.raises(tallystick.NotDone):
        broker.move_leader("orders", 0, to=to)
    broker.move_leader("orders", 0, to=to)
    assert broker.leader("orders", 0) == to
    assert controller not in broker.node_addresses()
