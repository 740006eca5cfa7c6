"""A backup of the database, made while all nodes serve, is one moment of the cluster: what was acknowledged before it
is there, in order, and what came later is not; the nodes go on from there."""

import pytest
from confluent_kafka import Producer

from tests.harness.together import start_together
from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.several_nodes.cluster import PARTITIONS, SeveralNodes
from tests.shared_store.several_nodes.test_transactions import filled
from tests.shared_store.several_nodes.writing import Transforming, Writer
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes


@pytest.fixture
def cluster(nodes: Nodes) -> SeveralNodes:
    made = SeveralNodes(nodes)
    made.make_topics("source", "target", "t")
    return made


def test_it_is_one_moment_of_all_nodes(cluster: SeveralNodes, postgresql: PostgresqlServer, schema: str) -> None:
    filled(cluster)
    worker = Transforming(cluster, "source", "target")
    worker.begin()
    known = Producer(cluster.clients)
    with Writer(cluster, "t") as writer:
        writer.wait_for_more()
        worker.until(lambda: worker.committed >= 2, "transactions go on")
        before, moved = writer.acknowledged, worker.moved
        dumped = postgresql.dump(f"several_{schema}")
        writer.wait_for_more()
        worker.until(lambda: worker.moved > moved, "transactions go on")
    worker.close()
    for one in cluster.by_id.values():
        assert one.stop(seconds=PATIENCE_S) == 0, cluster.logs()
    postgresql.restore(f"several_{schema}", dumped)
    start_together(one.start for one in cluster.by_id.values())
    found = cluster.everything("t")
    assert before <= sum(map(len, found.values())) < writer.written
    assert found == {index: values[: len(found[index])] for index, values in writer.expected().items()}
    look_at_both(cluster, moved)
    for index in range(PARTITIONS):
        known.produce("t", b"again", partition=index)
    assert known.flush(PATIENCE_S) == 0
    assert cluster.everything("t") == {index: [*values, "again"] for index, values in found.items()}
    cluster.stop_all()


def look_at_both(cluster: SeveralNodes, moved: int) -> None:
    """What transactions wrote and what they committed of their offsets belongs together."""
    offsets = cluster.committed_offsets(Transforming.group, "source")
    read = {number for index, at in offsets.items() for number in cluster.everything("source")[index][: max(at, 0)]}
    written = [number for values in cluster.everything("target").values() for number in values]
    assert len(written) >= moved
    assert sorted(written) == sorted(read)
