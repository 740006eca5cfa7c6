"""Metrics of clients (KIP-714): what is wanted of whom, and who may push when.

Codes, ids of subscriptions and the rules of time were asked of Kafka 4.3.1.
"""

import pytest

from broker.api.api_families import load_handlers, served
from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.config.sources import ConfigError
from broker.node import Node
from broker.process.environment import RealEnvironment
from coordinator.cluster.configs import Alteration, AlteredResource
from protocol.errors import ErrorCode
from protocol.messages.telemetry import (
    GetTelemetrySubscriptionsResponse,
)
from tests.unit.administration.telemetry_rig import (
    BAD_CODEC,
    INVALID,
    LIMIT,
    NO_ID,
    NONE,
    SETTINGS,
    THROTTLED,
    UNKNOWN,
    Client,
    Clock,
    same,
    stopped_clock,
    told,
)

pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped_clock(monkeypatch)


async def subscribe(node: Services, name: str, **settings: str) -> None:
    """Underscores stand for dots; nothing at all deletes."""
    changes = tuple(Alteration(key.replace("_", "."), value) for key, value in settings.items())
    one = AlteredResource(16, name, changes, replace=not changes)
    results = await node.cluster.ask(
        lambda machine, ticket: machine.alter_configs(ticket, [one], node.topics.rules(), times_named={(16, name): 1})
    )
    assert [result.error for result in results] == [NONE], results


def wanted(instance: bytes, subscription: int, interval_ms: int, *metrics: str) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=0,
        client_instance_id=instance,
        subscription_id=subscription,
        accepted_compression_types=[4, 3, 1, 2],
        push_interval_ms=interval_ms,
        telemetry_max_bytes=LIMIT,
        delta_temporality=True,
        requested_metrics=list(metrics),
    )


def test_who_has_no_id_is_given_one_and_nothing_is_wanted_of_who_is_not_meant(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        first, second = await client.get(), await client.get()
        given = first.client_instance_id
        assert given != second.client_instance_id and (given[6] >> 4, given[8] >> 6) == (4, 2)
        assert first == wanted(given, first.subscription_id, 300_000)
        assert await client.get(same(1)) == wanted(same(1), -725132322, 300_000)
        java = bytes.fromhex("194a261499364f39888d4397e08779c1")
        assert await client.get(java) == wanted(java, 1018235045, 300_000)

    told(story, clock)


def test_of_several_subscriptions_all_metrics_are_wanted_as_often_as_of_the_most_frequent(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        beginnings = ("org.apache.kafka.producer.", "org.apache.kafka.consumer.x")
        await subscribe(node, "m", interval_ms="100", metrics=",".join(beginnings), match="client_id=probe")
        assert await client.get(same(3)) == wanted(same(3), -1308169743, 100, *beginnings)
        await subscribe(node, "n", interval_ms="150", metrics="zeta," + beginnings[0])
        assert (await client.get(same(4))).requested_metrics == [*beginnings, "zeta"]
        await subscribe(node, "n", interval_ms="50000", metrics="*,zeta")
        assert (await client.get(same(5))).requested_metrics == ["*"]
        await subscribe(node, "m")
        assert await client.get(same(6)) == wanted(same(6), (await client.get(same(7))).subscription_id, 50_000, "*")

    told(story, clock)


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        ("client_id=probe", True),
        ("client_id=prob", False),
        ("client_id=pro.*,client_software_name=probe-sw", True),
        ("client_id=pro.*,client_software_name=other", False),
        ("client_software_version=1[.]2", True),
        ("client_source_address=127[.]0[.]0[.]1,client_source_port=[0-9]+", True),
        ("client_source_port=4712", False),
        ("client_instance_id=DAwMDAwMDAwMDAwMDAwMDA", True),
        ("client_instance_id=0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c", False),
        ("", True),
    ],
)
def test_a_client_is_meant_where_all_patterns_match_all_of_what_it_says(
    match: str, is_meant: bool, clock: Clock
) -> None:
    async def story(node: Services, client: Client) -> None:
        await subscribe(node, "m", interval_ms="200", match=match)
        assert (await client.get(same(12))).push_interval_ms == (200 if is_meant else 300_000)

    told(story, clock)


def test_who_asks_again_too_soon_is_throttled(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        await subscribe(node, "m", interval_ms="300")
        subscription = (await client.get(same(1))).subscription_id
        refused = GetTelemetrySubscriptionsResponse(
            error_code=THROTTLED, accepted_compression_types=[], requested_metrics=[]
        )
        assert await client.get(same(1)) == refused
        assert await client.push(same(1), subscription) is NONE, "at once after it has asked"
        assert await client.push(same(1), subscription) is THROTTLED
        clock.now_ms += 299
        assert (await client.got(same(1)), await client.push(same(1), subscription)) == (THROTTLED, THROTTLED)
        clock.now_ms += 1
        assert await client.push(same(1), subscription) is NONE
        assert await client.got(same(1)) is THROTTLED, "an interval after its last push, too"
        clock.now_ms += 300
        assert (await client.got(same(1)), await client.got(same(2))) == (NONE, NONE)

    told(story, clock)


@pytest.mark.parametrize(("offset", "codec", "error"), [(1, 0, UNKNOWN), (0, 9, BAD_CODEC), (0, -1, BAD_CODEC)])
def test_who_does_not_know_what_is_wanted_may_ask_at_once(
    offset: int, codec: int, error: ErrorCode, clock: Clock
) -> None:
    async def story(node: Services, client: Client) -> None:
        await subscribe(node, "m", interval_ms="300")
        subscription = (await client.get(same(1))).subscription_id
        assert await client.push(same(1), subscription + offset, b"x", codec=codec) is error
        assert (await client.got(same(1)), await client.got(same(1))) == (NONE, THROTTLED)
        assert await client.push(same(1), subscription) is THROTTLED, "the interval is that of the refused push"
        clock.now_ms += 300
        assert await client.push(same(1), subscription) is NONE

    told(story, clock)


def test_a_change_of_subscriptions_is_told_at_once(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        await subscribe(node, "m", interval_ms="300", metrics="a.")
        before = await client.get(same(1))
        assert before == wanted(same(1), -1743327933, 300, "a.")
        await subscribe(node, "m", interval_ms="400")
        assert await client.get(same(1)) == wanted(same(1), -320435926, 400, "a.")
        assert await client.push(same(1), before.subscription_id) is UNKNOWN
        assert await client.got(same(1)) is NONE

    told(story, clock)


def test_a_client_that_has_ended_is_refused_until_it_is_forgotten(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        await subscribe(node, "m", interval_ms="300")
        subscription = (await client.get(same(1))).subscription_id
        assert await client.push(same(1), subscription) is NONE
        assert await client.push(same(1), subscription + 1, last=True) is UNKNOWN, "the last may come too soon"
        assert await client.push(same(1), subscription, last=True) is INVALID
        assert (await client.got(same(1)), await client.push(same(1), subscription)) == (THROTTLED, INVALID)
        clock.now_ms += 300
        assert await client.push(same(1), subscription) is NONE

    told(story, clock)


def test_a_client_whose_connection_is_lost_begins_anew(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        assert (await client.got(same(1)), await client.got(same(1))) == (NONE, THROTTLED)
        other = Client(node, clock)
        assert await other.got(same(1)) is THROTTLED
        client.connection.is_lost = True
        assert (await other.got(same(1)), await other.got(same(1))) == (NONE, THROTTLED)

    told(story, clock)


def test_a_push_without_an_id_or_of_a_stranger_is_refused(clock: Clock) -> None:
    async def story(node: Services, client: Client) -> None:
        assert await client.push(NO_ID, 5, b"x") is INVALID
        assert await client.push(same(2), 5, b"x") is UNKNOWN
        assert await client.push(same(3), -725132322) is NONE, "who knows what is wanted need not have asked"

    told(story, clock)


def test_without_the_setting_there_are_no_such_apis() -> None:
    assert {71, 72} & served(BrokerConfig()).keys() == set()
    assert {71, 72} <= served(BrokerConfig(SETTINGS)).keys()
    assert served(BrokerConfig(SETTINGS)).keys() == load_handlers().keys()


def test_without_the_library_a_start_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    with pytest.raises(ConfigError, match=r"pip install 'tallystick\[telemetry\]'"):
        Node(BrokerConfig(SETTINGS | {"tallystick.in.memory": "true"}), RealEnvironment(None))
    environment = RealEnvironment(None)
    Node(BrokerConfig({"tallystick.in.memory": "true"}), environment)
    environment.close()
