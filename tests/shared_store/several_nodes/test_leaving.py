"""Nodes come, leave, stand still and die, one after the other, while an idempotent producer writes to all of them."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tallystick.process import BrokerFailed
from tests.shared_store.several_nodes.cluster import WHOLE, SeveralNodes, only_thorough, until
from tests.shared_store.several_nodes.writing import Writer
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

NEVER_MS = "600000"


def test_one_that_stood_still_acknowledges_nothing_and_ends(nodes: Nodes) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("t", "zombie")
    frozen = cluster.leaders("zombie")[0]
    zombie = Producer({"bootstrap.servers": cluster.by_id[frozen].bootstrap, "retries": 0, "linger.ms": 0})
    told: list[object] = []
    zombie.produce("zombie", b"told", partition=0)
    assert zombie.flush(PATIENCE_S) == 0
    with Writer(cluster, "t") as writer:
        writer.wait_for_more()
        cluster.by_id[frozen].freeze()
        zombie.produce("zombie", b"never", partition=0, on_delivery=lambda error, message: told.append(error))
        zombie.poll(0)
        cluster.wait_until_led_without(frozen, "t", "zombie")
        writer.wait_for_more()
        cluster.by_id[frozen].thaw()
        until(lambda: not cluster.by_id[frozen].running, "who stood still ends")
        assert zombie.flush(PATIENCE_S) == 0
        cluster.by_id[frozen].start()
        cluster.wait_until_led_by(frozen, "t")
        writer.wait_for_more()
    assert len(told) == 1 and told[0] is not None, "what it was sent is not acknowledged"
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    assert cluster.everything("zombie")[0] == ["told"]
    cluster.stop_all()


def test_a_start_that_fails_keeps_nothing_from_the_others(nodes: Nodes, tmp_path: Path) -> None:
    """Whoever starts it again and again would have what it is given led by nobody. None is fenced here for silence."""
    cluster = SeveralNodes(nodes, broker_session_timeout_ms=NEVER_MS)
    cluster.make_topics("t")
    before = cluster.leaders("t")
    wrong = nodes.node(9, inter_broker_listener_name="INTERNAL")
    with pytest.raises(BrokerFailed, match="there is no listener called INTERNAL"):
        wrong.start()
    wrong = nodes.node(9)
    wrong.options += ["--ready-file", str(tmp_path / "nowhere" / "ready")]
    with pytest.raises(BrokerFailed, match="there is no folder"):
        wrong.start()
    assert all("a node has come node=9" not in one.log.read_text() for one in cluster.by_id.values())
    assert cluster.leaders("t") == before
    wrong = nodes.node(9)
    wrong.options += ["--ready-file", str(tmp_path)]  # It serves, and cannot say so.
    with pytest.raises(BrokerFailed):
        wrong.start()
    until(lambda: any("a node has left left=9" in one.log.read_text() for one in cluster.by_id.values()), "it has left")
    cluster.wait_until_led_without(9, "t")
    cluster.stop_all()


def test_a_producer_hears_of_no_error_when_a_node_leaves_in_order(nodes: Nodes) -> None:
    """Nobody waits for it to be silent for long: it said that it leaves. It is the controller that does, at least."""
    cluster = SeveralNodes(nodes, broker_session_timeout_ms=NEVER_MS)
    cluster.make_topics("t")
    controller = cluster.controller()
    others = [node_id for node_id in cluster.by_id if node_id != controller]
    with Writer(cluster, "t") as writer:
        for node_id in (controller, *(others if WHOLE else [])):
            writer.wait_for_more()
            assert cluster.by_id[node_id].stop(seconds=PATIENCE_S) == 0
            cluster.wait_until_led_without(node_id, "t")
            writer.wait_for_more()
            cluster.by_id[node_id].start()
            cluster.wait_until_led_by(node_id, "t")
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    cluster.stop_all()


def test_a_fourth_node_gets_its_share_while_clients_work(nodes: Nodes) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("t")
    with Writer(cluster, "t") as writer:
        writer.wait_for_more()
        cluster.make(4).start()
        cluster.wait_until_led_by(4, "t")
        writer.wait_for_more()
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    cluster.stop_all()


def test_nothing_is_there_twice_after_kills(nodes: Nodes) -> None:
    """Nodes are killed under the load, and start while the load goes on."""
    cluster = SeveralNodes(nodes)
    cluster.make_topics("t")
    with Writer(cluster, "t") as writer:
        for node_id in [1, 2, 3] * 3 if WHOLE else [1, 2]:
            writer.wait_for_more()
            cluster.kill(node_id)
            writer.wait_for_more()
            cluster.wait_until_led_without(node_id, "t")
            cluster.by_id[node_id].start()
            cluster.wait_until_led_by(node_id, "t")
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    cluster.stop_all()


@only_thorough
def test_all_die_at_once_and_come_back(nodes: Nodes) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("t")
    with Writer(cluster, "t") as writer:
        writer.wait_for_more()
        for node_id in cluster.by_id:
            cluster.kill(node_id)
        starts = [threading.Thread(target=one.start) for one in cluster.by_id.values()]
        for one in starts:
            one.start()
        for one in starts:
            one.join()
        writer.wait_for_more()
    assert writer.errors == []
    assert cluster.everything("t") == writer.expected()
    cluster.stop_all()
