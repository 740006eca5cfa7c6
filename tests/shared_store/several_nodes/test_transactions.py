"""Transactions over what several nodes lead: each is there as a whole or not at all, whoever dies in its middle."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.shared_store.several_nodes.cluster import ONLY_THOROUGH, PARTITIONS, WHOLE, SeveralNodes, only_thorough
from tests.shared_store.several_nodes.writing import Transforming
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

COUNT = 600


def filled(cluster: SeveralNodes) -> None:
    producer = Producer(cluster.clients)
    for number in range(COUNT):
        producer.produce("source", str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def look_at_everything(cluster: SeveralNodes, worker: Transforming) -> None:
    assert worker.moved == COUNT
    found = cluster.everything("target")
    assert sorted(int(value) for values in found.values() for value in values) == list(range(COUNT)), "each once"
    for index, values in found.items():
        by_source: dict[int, list[int]] = {}
        for value in values:
            assert int(value) * 5 % PARTITIONS == index
            by_source.setdefault(int(value) % PARTITIONS, []).append(int(value))
        assert all(numbers == sorted(numbers) for numbers in by_source.values()), "in order"
    ends = dict.fromkeys(range(PARTITIONS), COUNT // PARTITIONS)
    assert cluster.committed_offsets(worker.group, "source") == ends


@only_thorough
def test_what_was_consumed_is_produced_once(nodes: Nodes) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("source", "target")
    filled(cluster)
    worker = Transforming(cluster, "source", "target")
    worker.begin()
    worker.until(lambda: worker.moved == COUNT, "all is moved")
    worker.close()
    assert worker.again == 0
    look_at_everything(cluster, worker)
    cluster.stop_all()


IN_SHORT = {"controller", "coordinator of transactions"}
VICTIMS: dict[str, Callable[[SeveralNodes], int]] = {
    "controller": lambda cluster: cluster.controller(),
    "coordinator of transactions": lambda cluster: cluster.coordinator_of_transactions(Transforming.transactional_id),
    "coordinator of the group": lambda cluster: cluster.coordinator_of_group(Transforming.group),
    "leader": lambda cluster: cluster.leaders("target")[0],
}


def moved_though_a_node_dies(cluster: SeveralNodes, whom: Callable[[SeveralNodes], int]) -> tuple[int, Transforming]:
    """In the middle of a transaction; it is started again. Who that was, and who moved all."""
    cluster.make_topics("source", "target")
    filled(cluster)
    worker = Transforming(cluster, "source", "target")
    worker.begin()
    worker.until(lambda: worker.committed >= 5, "some transactions are committed")
    victim = whom(cluster)
    killed: list[int] = []

    def kill() -> None:
        cluster.kill(victim)
        killed.append(victim)

    while not killed:
        worker.step(kill)
    before = worker.committed
    worker.until(lambda: worker.committed >= before + 5, "the others go on")
    cluster.wait_until_led_without(victim, "source", "target")
    cluster.by_id[victim].start()
    worker.until(lambda: worker.moved == COUNT, "all is moved")
    return victim, worker


@pytest.mark.parametrize("role", VICTIMS)
def test_a_node_dies_in_the_middle_of_transactions(nodes: Nodes, role: str) -> None:
    if role not in IN_SHORT and not WHOLE:
        pytest.skip(ONLY_THOROUGH)
    cluster = SeveralNodes(nodes)
    victim, worker = moved_though_a_node_dies(cluster, VICTIMS[role])
    worker.close()
    cluster.wait_until_led_by(victim, "source", "target")
    look_at_everything(cluster, worker)
    cluster.stop_all()
