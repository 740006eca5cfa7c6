"""Three nodes over a database and a bucket, under clients that work all the time: one dies, the bucket fails and is
away, and each record is there once, in order, its transaction as a whole.
"""

import pytest

from tests.shared_store.objects.line import Fault
from tests.shared_store.objects.nodes_apart import NodesApart
from tests.shared_store.several_nodes.cluster import SeveralNodes
from tests.shared_store.several_nodes.test_transactions import (
    COUNT,
    VICTIMS,
    filled,
    look_at_everything,
    moved_though_a_node_dies,
)
from tests.shared_store.several_nodes.writing import Transforming, Writer


@pytest.mark.parametrize("role", ["leader", "coordinator of transactions"])
def test_a_node_dies_in_the_middle_of_transactions(nodes: NodesApart, role: str) -> None:
    cluster = SeveralNodes(nodes)
    _, worker = moved_though_a_node_dies(cluster, VICTIMS[role])
    worker.close()
    look_at_everything(cluster, worker)
    assert set(nodes.named()) <= set(nodes.objects()), "what is named is there"
    cluster.stop_all()


def test_a_bucket_that_fails_now_and_then_and_is_away_for_a_while(nodes: NodesApart) -> None:
    cluster = SeveralNodes(nodes, tallystick_store_memory_bytes="1")
    cluster.make_topics("source", "target", "t")
    filled(cluster)
    worker = Transforming(cluster, "source", "target")
    worker.begin()
    asked = [0]

    def now_and_then(method: str, path: str) -> Fault | None:
        asked[0] += 1
        faults = (Fault.FAILS, Fault.ANSWER_LOST)
        return faults[asked[0] % 2] if method == "PUT" and asked[0] % 5 == 0 else None

    with Writer(cluster, "t") as writer:
        nodes.line.spoil = now_and_then
        before = worker.committed
        worker.until(lambda: worker.committed >= before + 5, "transactions go on")
        writer.wait_for_more()
        nodes.line.cut()
        told = writer.acknowledged
        cluster.admin().list_topics(timeout=10.0)
        nodes.line.open()
        writer.wait_for_more()
        assert writer.acknowledged > told
        worker.until(lambda: worker.moved == COUNT, "all is moved")
    worker.close()
    assert nodes.line.spoiled, "requests went astray"
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    look_at_everything(cluster, worker)
    cluster.stop_all()
