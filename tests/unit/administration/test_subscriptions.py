"""Subscriptions to metrics of clients as settings (KIP-714): what makes one, and where it is kept. Sentences were
recorded from Kafka 4.3.1."""

from pathlib import Path
from typing import Any

import pytest

from broker.api.services import Services
from coordinator.cluster.client_metrics import Subscription, subscription_of
from coordinator.cluster.configs import Alteration, AlteredResource
from coordinator.cluster.keys.config_types import InvalidConfig
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.unit.cluster.cluster_rig import ClusterRig, handle, with_node
from tests.unit.cluster.test_cluster_log import register
from tests.unit.cluster.test_metadata_snapshots import loaded, snapshot_of

METRICS, SET, DELETE, APPEND = 16, 0, 1, 2
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
Change = tuple[str, int, str | None]
OK = (0, None)


async def changed(node: Services, name: str, *changes: Change) -> tuple[int, str | None]:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=METRICS, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = (await handle(node, request, 1)).responses
    return answer.error_code, answer.error_message


async def listed(node: Services, version: int = 1) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=[METRICS] if version else [])
    answer = await handle(node, request, version)
    found = answer.config_resources
    assert found == [ConfigResource(resource_name=one.resource_name, resource_type=METRICS) for one in found]
    return [one.resource_name for one in found]


async def described(node: Services, name: str) -> list[Any]:
    resource = DescribeConfigsResource(resource_type=METRICS, resource_name=name, configuration_keys=None)
    answer = await handle(node, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    return list(answer.results[0].configs)


def setting(name: str, value: str, kind: int, *, is_set: bool) -> DescribeConfigsResourceResult:
    source = 7 if is_set else 5
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)] if is_set else [],
        config_type=kind,
        documentation=None,
    )


def test_a_subscription_is_described_listed_and_there_after_a_restart(tmp_path: Path) -> None:
    async def made(node: Services) -> None:
        assert await listed(node) == await listed(node, 0) == []
        assert await changed(node, "m", ("interval.ms", SET, " 1000 "), ("metrics", SET, "a., b.")) == OK
        assert await changed(node, "bad name/..!", ("match", SET, "client_id=x")) == OK

    async def restarted(node: Services) -> None:
        assert await listed(node) == await listed(node, 0) == ["bad name/..!", "m"]
        assert await described(node, "m") == [
            setting("interval.ms", "1000", 3, is_set=True),
            setting("match", "", 7, is_set=False),
            setting("metrics", "a.,b.", 7, is_set=True),
        ]
        assert await changed(node, "m", ("interval.ms", DELETE, None), ("metrics", DELETE, None)) == OK
        assert await listed(node) == ["bad name/..!"]

    with_node(made, folder=tmp_path)
    with_node(restarted, folder=tmp_path)


def test_a_snapshot_holds_subscriptions() -> None:
    rig = ClusterRig()
    register(rig)
    for name, value in (("m", "1000"), ("n", "2000")):
        one = AlteredResource(METRICS, name, (Alteration("interval.ms", value), Alteration("match", "")))
        rig.ask(
            lambda machine, ticket, one=one: machine.alter_configs(  # type: ignore[misc]
                ticket, [one], rig.rules, times_named={(METRICS, one.name): 1}
            )
        )
    image = rig.machine.image
    found = loaded(snapshot_of(image)).machine.image
    assert (
        found.client_metrics
        == image.client_metrics
        == {
            "m": {"interval.ms": "1000", "match": ""},
            "n": {"interval.ms": "2000", "match": ""},
        }
    )
    assert image.is_complete and found.is_complete


ILLEGAL = "Illegal client matching pattern: "
OUTSIDE = "for interval.ms, interval must be between 100 and 3600000 (1 hour)"


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (("interval.ms", SET, "99"), INVALID_REQUEST, f"Invalid value 99 {OUTSIDE}"),
        (("interval.ms", SET, "3600001"), INVALID_REQUEST, f"Invalid value 3600001 {OUTSIDE}"),
        (
            ("interval.ms", SET, "1.5"),
            INVALID_CONFIG,
            "Invalid value 1.5 for configuration interval.ms: Not a number of type INT",
        ),
        (("interval.ms", SET, None), INVALID_REQUEST, "Null value not supported for : interval.ms"),
        (("match", SET, "x"), INVALID_CONFIG, ILLEGAL + "x"),
        (("match", SET, "a=b"), INVALID_CONFIG, ILLEGAL + "a=b"),
        (("match", SET, "client_id="), INVALID_CONFIG, ILLEGAL + "client_id="),
        (("match", SET, "client_id=["), INVALID_CONFIG, ILLEGAL + "client_id=["),
        (("match", SET, "client_id=a=b"), INVALID_CONFIG, ILLEGAL + "client_id=a=b"),
        (("match", SET, "CLIENT_ID=a"), INVALID_CONFIG, ILLEGAL + "CLIENT_ID=a"),
        (("match", SET, "client_id=a,,"), INVALID_CONFIG, "Configuration 'match' values must not be empty."),
        (("metrics", SET, "a,,b"), INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        (
            ("metrics", APPEND, "b"),
            INVALID_CONFIG,
            "Can't APPEND to key metrics because its type is not LIST.",
        ),
        (("no.such", SET, "1"), INVALID_REQUEST, "Unknown client metrics configuration: no.such"),
    ],
)
def test_what_makes_no_subscription_is_refused_and_changes_nothing(
    change: Change, code: ErrorCode, sentence: str
) -> None:
    async def story(node: Services) -> tuple[int, str | None]:
        answer = await changed(node, "m", ("metrics", SET, "kept"), change) if change[0] != "metrics" else None
        answer = answer or await changed(node, "m", change)
        assert await listed(node) == []
        return answer

    assert with_node(story) == (code, sentence)


def test_nothing_is_kept_under_no_name() -> None:
    async def story(node: Services) -> list[Any]:
        changes: list[Change] = [("interval.ms", SET, "1000"), ("interval.ms", DELETE, None)]
        return [await changed(node, "", change) for change in changes] + [await changed(node, "m", changes[1])]

    nameless = (INVALID_REQUEST, "Subscription name can't be empty")
    assert with_node(story) == [nameless, nameless, OK]


@pytest.mark.parametrize("edge", ("100", "3600000"))
def test_the_shortest_and_the_longest_interval_are_allowed(edge: str) -> None:
    async def story(node: Services) -> tuple[int, str | None]:
        return await changed(node, "m", ("interval.ms", SET, edge))

    assert with_node(story) == OK


def test_what_settings_say() -> None:
    assert subscription_of({}) == Subscription(300_000, {}, ())
    match = " client_id = a.* ,client_software_name=b,client_id=c"
    assert subscription_of({"interval.ms": "5", "match": match, "metrics": " x. , * "}) == Subscription(
        5, {"client_id": "c", "client_software_name": "b"}, ("x.", "*")
    )
    assert subscription_of({"match": " ", "metrics": ""}) == Subscription(300_000, {}, ())
    with pytest.raises(InvalidConfig):
        subscription_of({"interval.ms": "often"})
