"""What any of three nodes tells of the others, those that are gone too, and that one of these is forgotten for good."""

from collections.abc import Callable
from typing import Any

import pytest

import tallystick
from protocol.errors import ErrorCode
from protocol.messages.configs import ListConfigResourcesRequest
from protocol.messages.metadata import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from protocol.messages.quorum import UnregisterBrokerRequest
from tests.harness.confluent import SECONDS, admin, make_topic, wait_until
from tests.harness.together import answer_of

LOGGERS, BROKERS = 8, 4
Ask = Callable[[int, object], Any]


@pytest.fixture
def ask(nodes: tallystick.Broker) -> Ask:
    """Ask this node and no other."""

    return lambda node_id, request: answer_of(nodes.node_addresses()[node_id], request)


def told(ask: Ask, node_id: int, *, fenced: bool = False) -> dict[int, bool]:
    """Whether it is fenced, of each node."""
    answer = ask(
        node_id, DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=fenced)
    )
    return {one.broker_id: one.is_fenced for one in answer.brokers}


def forget(ask: Ask, node_id: int, gone: int) -> ErrorCode:
    return ErrorCode(ask(node_id, UnregisterBrokerRequest(broker_id=gone)).error_code)


def test_each_names_the_settings_of_all(ask: Ask) -> None:
    for node_id in (1, 2, 3):
        answer = ask(node_id, ListConfigResourcesRequest(resource_types=[LOGGERS, BROKERS]))
        found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
        assert found == [(kind, name) for kind in (LOGGERS, BROKERS) for name in "123"]


def test_one_that_is_gone_is_told_of_until_it_is_forgotten(nodes: tallystick.Broker, ask: Ask) -> None:
    gone = nodes.controller() % 3 + 1
    asked = next(one for one in (1, 2, 3) if one not in (gone, nodes.controller()))
    assert forget(ask, asked, gone) is ErrorCode.INVALID_REQUEST, "it lives"
    assert told(ask, asked, fenced=True) == {1: False, 2: False, 3: False}
    nodes.kill_node(gone)
    wait_until(lambda: told(ask, asked, fenced=True).get(gone), "it is known to be gone")
    assert gone not in told(ask, asked)
    assert forget(ask, asked, gone) is ErrorCode.NONE
    assert gone not in told(ask, asked, fenced=True), "whoever was answered knows it"
    assert forget(ask, asked, gone) is ErrorCode.BROKER_ID_NOT_REGISTERED
    nodes.start_node(gone)
    wait_until(lambda: told(ask, asked) == {1: False, 2: False, 3: False}, "it is back")


def test_librdkafka_hears_of_one_that_is_gone_and_others_do_not(nodes: tallystick.Broker, ask: Ask) -> None:
    """It would wait for good for a coordinator that is not among the nodes of Metadata any more. Nobody hears that it
    leads anything."""
    make_topic(nodes.bootstrap, "t", 6)
    nodes.kill_node(3)

    def leaders() -> set[int]:
        return {one.leader for one in admin(nodes.bootstrap).list_topics("t").topics["t"].partitions.values()}

    wait_until(lambda: leaders() <= {1, 2}, "others lead what it led", seconds=SECONDS)
    assert set(admin(nodes.bootstrap).list_topics(timeout=SECONDS).brokers) == {1, 2, 3}
    (topic,) = (answer := ask(1, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))).topics
    assert {one.node_id for one in answer.brokers} == {1, 2}
    assert {one.leader_id for one in topic.partitions} == {1, 2}
