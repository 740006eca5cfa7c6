"""What each of three nodes tells Prometheus of the cluster: one of them is the controller, all know the same nodes, and
what another one leads is not offline."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.api.services import Services
from broker.http.metrics import state, topics
from broker.http.metrics.metric import Family
from coordinator.cluster.leaders import NOBODY
from tests.unit.across_nodes.three_nodes import ThreeNodes, until, with_three_nodes

PREFIX = "kafka_controller_kafkacontroller_"
CONTROLLERS, BROKERS, FENCED = (f"{PREFIX}{name}count" for name in ("activecontroller", "activebroker", "fencedbroker"))
OFFLINE, ALL_TOPICS, ALL_PARTITIONS = (
    f"{PREFIX}{name}count" for name in ("offlinepartitions", "globaltopic", "globalpartition")
)
OPEN, OFFLINE_HERE = (f"kafka_server_replicamanager_{name}count" for name in ("partition", "offlinereplica"))
PARTITIONS = 5


def read(families: Iterable[Family]) -> dict[str, float]:
    """Those that have no labels."""
    text = b"".join(one.text() for one in families).decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {one.name: one.value for one in samples if not one.labels}


def of_state(services: Services) -> dict[str, float]:
    server = SimpleNamespace(accepted=0, refused_for_descriptors=0)
    broker: Any = SimpleNamespace(services=services, server=server, monitor=None)
    return read(state.families(broker, state.Look()))


async def of_topics(services: Services) -> dict[str, float]:
    return read(topics.families(await topics.look(services), topics.Totals()))


def test_one_of_them_is_the_controller_and_all_know_the_same_nodes(tmp_path: Any) -> None:
    async def story(nodes: ThreeNodes) -> None:
        def told(name: str) -> list[float]:
            return [of_state(one)[name] for one in nodes.by_id.values()]

        await until(lambda: told(BROKERS) == [3, 3, 3])
        first = nodes.controller
        assert told(CONTROLLERS) == [float(node_id == first) for node_id in nodes.by_id]
        assert told(FENCED) == [0, 0, 0]
        await nodes.together.kill(first)
        await until(lambda: sorted(told(CONTROLLERS)) == [0, 1])
        await until(lambda: told(BROKERS) == [2, 2] and told(FENCED) == [1, 1])
        await nodes.together.start_again(first)
        await until(lambda: told(BROKERS) == [3, 3, 3] and told(FENCED) == [0, 0, 0])
        assert sorted(told(CONTROLLERS)) == [0, 0, 1]

    with_three_nodes(story, tmp_path)


def test_what_another_node_leads_is_not_offline_and_what_nobody_leads_is(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(nodes: ThreeNodes) -> None:
        services = nodes.by_id.values()
        await next(iter(services)).topics.auto_create("t")
        for node_id in nodes.by_id:
            await nodes.known_at(node_id, "t")
        topic = next(iter(services)).topics.by_name("t")
        assert topic is not None
        await until(lambda: sum(len(one.topics.by_name("t").partitions.opened()) for one in services) == PARTITIONS)  # type: ignore[union-attr]
        told = [await of_topics(one) for one in services]
        assert sum(one[OPEN] for one in told) == PARTITIONS
        assert [one[OPEN] < PARTITIONS for one in told] == [True] * 3, "each leads some"
        for one in told:
            assert (one[ALL_TOPICS], one[ALL_PARTITIONS]) == (1, PARTITIONS)
            assert (one[OFFLINE], one[OFFLINE_HERE]) == (0, 0)
        asked = nodes.by_id[1]
        elsewhere = [index for index in range(PARTITIONS) if not asked.nodes.leads(topic.topic_id, index)]
        leader = asked.nodes.leader
        monkeypatch.setattr(
            asked.nodes,
            "leader",
            lambda topic_id, index: (NOBODY, 0) if index == elsewhere[0] else leader(topic_id, index),
        )
        found = await of_topics(asked)
        assert (found[OFFLINE], found[OFFLINE_HERE]) == (1, 0)

    with_three_nodes(story, tmp_path, {"num.partitions": str(PARTITIONS)})
