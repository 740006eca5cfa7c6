"""DescribeConfigs and the two ways to change settings, through the handlers of a running node."""

import asyncio
from typing import Any

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.harness.turns import CallsPerTurn, Turns
from tests.unit.cluster.cluster_rig import handle, topic, with_node

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
DEFAULT, STATIC, DYNAMIC_DEFAULT, DYNAMIC, OF_TOPIC = 5, 4, 3, 2, 1


async def describe(node: Services, kind: int, name: str, *keys: str) -> tuple[int, dict[str, Any]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = (await handle(node, request, 4)).results
    return result.error_code, {one.name: one for one in result.configs}


async def change(node: Services, kind: int, name: str, **values: str | None) -> int:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(
            name=key.replace("_", "."), config_operation=1 if value is None else 0, value=value
        )
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return int((await handle(node, request, 1)).responses[0].error_code)


def test_a_topic_setting_falls_back_to_broker_and_default() -> None:
    """The value, where it comes from, and all that was outvoted, most binding first (KIP-226)."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("t")])

        async def described() -> tuple[str, int, list[tuple[str, str, int]]]:
            _, configs = await describe(node, TOPIC, "t", "retention.ms")
            one = configs["retention.ms"]
            return one.value, one.config_source, [(s.name, s.value, s.source) for s in one.synonyms]

        minutes = ("log.retention.minutes", "2", STATIC)
        assert await described() == ("120000", STATIC, [minutes])
        await change(node, BROKER, "", log_retention_ms="3000")
        cluster = ("log.retention.ms", "3000", DYNAMIC_DEFAULT)
        assert await described() == ("3000", DYNAMIC_DEFAULT, [cluster, minutes])
        await change(node, BROKER, "1", log_retention_ms="4000")
        own = ("log.retention.ms", "4000", DYNAMIC)
        assert await described() == ("4000", DYNAMIC, [own, cluster, minutes])
        await change(node, TOPIC, "t", retention_ms="5000")
        assert await described() == ("5000", OF_TOPIC, [("retention.ms", "5000", OF_TOPIC), own, cluster, minutes])
        await change(node, TOPIC, "t", retention_ms=None)
        await change(node, BROKER, "1", log_retention_ms=None)
        assert await described() == ("3000", DYNAMIC_DEFAULT, [cluster, minutes])

    with_node(story, settings={"log.retention.minutes": "2"})


def test_a_change_is_in_force_when_it_is_answered() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("t"), topic("own", configs={"max.message.bytes": "77"})])
        found, own = node.topics.by_name("t"), node.topics.by_name("own")
        assert found is not None and own is not None
        assert await change(node, TOPIC, "t", segment_ms="123456") == ErrorCode.NONE
        assert found.config.log.segment_ms == found.partitions[0].config.log.segment_ms == 123456
        assert await change(node, BROKER, "", message_max_bytes="5000") == ErrorCode.NONE
        assert node.config.get_int("message.max.bytes") == 5000
        assert (found.partitions[0].config.max_message_bytes, own.partitions[0].config.max_message_bytes) == (5000, 77)

    with_node(story)


def test_many_topics_take_over_a_setting_of_the_broker_in_slices() -> None:
    """All of them did in one turn: eighty milliseconds for ten thousand."""

    async def story(node: Services) -> None:
        await node.topics.create([topic(f"t{number}", 1) for number in range(300)])
        calls = CallsPerTurn(node.config.topic_config)
        setattr(node.config, "topic_config", calls)  # noqa: B010  it is a method
        Turns(node.environment)
        changes = [change(node, BROKER, "", message_max_bytes=str(value)) for value in (5000, 6000)]
        assert await asyncio.gather(*changes) == [ErrorCode.NONE] * 2
        assert {one.partitions[0].config.max_message_bytes for one in node.topics.all()} == {6000}
        assert calls.total >= 300 and calls.most <= 60

    with_node(story)


def test_replacing_all_settings_reads_modifies_and_writes() -> None:
    """What librdkafka's AlterConfigs does: it sends everything back."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("t", configs={"retention.ms": "5"})])
        _, before = await describe(node, TOPIC, "t")
        values = {name: one.value for name, one in before.items()} | {"segment.ms": "654321"}
        request = AlterConfigsRequest(
            resources=[
                AlterConfigsRequestAlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[AlterConfigsRequestAlterableConfig(name=n, value=v) for n, v in values.items()],
                )
            ],
            validate_only=False,
        )
        (result,) = (await handle(node, request, 2)).responses
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
        _, after = await describe(node, TOPIC, "t")
        assert {name: one.value for name, one in after.items()} == values

    with_node(story)


def test_what_tools_look_for_on_a_broker_is_there() -> None:
    async def story(node: Services) -> None:
        error, configs = await describe(node, BROKER, "1")
        assert error == ErrorCode.NONE
        for name in ("default.replication.factor", "delete.topic.enable", "inter.broker.protocol.version"):
            assert configs[name].value and configs[name].read_only
        assert configs["num.partitions"].config_source == STATIC and not configs["log.retention.ms"].read_only
        assert all(one.documentation and one.config_type for one in configs.values())
        assert all(one.value is None for one in configs.values() if one.is_sensitive)
        assert await describe(node, BROKER, "") == (ErrorCode.NONE, {})
        assert (await describe(node, BROKER, "2"))[0] == ErrorCode.INVALID_REQUEST
        assert (await describe(node, BROKER, "x"))[0] == ErrorCode.INVALID_REQUEST

    with_node(story)


def test_advertised_listeners_are_static_when_configured() -> None:
    """As in Kafka, which has the default, null, where nothing is said (a scenario has verified it)."""
    described = "PLAINTEXT://broker.example:9092"

    async def story(node: Services) -> None:
        _, configs = await describe(node, BROKER, "1", "advertised.listeners")
        one = configs["advertised.listeners"]
        assert (one.value, one.config_source, one.read_only) == (described, STATIC, True)
        assert [(s.name, s.value, s.source) for s in one.synonyms] == [("advertised.listeners", described, STATIC)]

    with_node(story, settings={"advertised.listeners": described})


def test_a_compacted_topic_is_exactly_compact() -> None:
    """Kafka Connect and the schema registry compare the whole value."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("_schemas", 1, configs={"cleanup.policy": "compact", "retention.ms": "-1"})])
        _, configs = await describe(node, TOPIC, "_schemas", "cleanup.policy", "retention.ms", "no.such.key")
        assert {name: one.value for name, one in configs.items()} == {"cleanup.policy": "compact", "retention.ms": "-1"}
        assert (await describe(node, TOPIC, "nope"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await describe(node, TOPIC, ""))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await describe(node, 64, "1"))[0] == ErrorCode.INVALID_REQUEST
        error, of_group = await describe(node, 32, "group")
        assert error == ErrorCode.NONE
        of_members = {name: one.value for name, one in of_group.items() if not name.startswith("share.")}
        assert of_members == {
            "consumer.session.timeout.ms": "45000",
            "consumer.heartbeat.interval.ms": "5000",
            "consumer.assignment.interval.ms": "1000",
            "streams.session.timeout.ms": "45000",
            "streams.heartbeat.interval.ms": "5000",
            "streams.num.standby.replicas": "0",
            "streams.initial.rebalance.delay.ms": "3000",
            "streams.assignment.interval.ms": "1000",
        }

    with_node(story)


def test_names_that_nothing_is_set_of_are_described_so_many_at_a_time() -> None:
    """A name is a few bytes, and the settings of a group, all of them defaults, are some ten kilobytes."""

    async def story(node: Services) -> None:
        await node.topics.create([topic("t")])
        assert await change(node, GROUP, "set", consumer_session_timeout_ms="46000") == 0
        assert await change(node, METRICS, "set", interval_ms="1000") == 0
        names = [*((GROUP, f"g{number}") for number in range(600)), *((METRICS, f"m{number}") for number in range(402))]
        there = [(GROUP, "set"), (METRICS, "set"), (TOPIC, "t"), (BROKER, "1")]
        wanted = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in (*names, *there)
        ]
        results = (await handle(node, DescribeConfigsRequest(resources=wanted), 4)).results
        told = {(one.resource_type, one.resource_name): (one.error_code, one.error_message) for one in results}
        sentence = "More than 1000 names are described that nothing is set of."
        refused = (ErrorCode.POLICY_VIOLATION, sentence)
        assert told == {place: refused if place in names[1000:] else (ErrorCode.NONE, "") for place in (*names, *there)}
        assert all(bool(one.configs) is (one.error_code == ErrorCode.NONE) for one in results)

    with_node(story)


def test_resources_with_settings_are_listed() -> None:
    async def story(node: Services) -> None:
        await node.topics.create([topic("t")])

        async def listed(version: int, *kinds: int) -> tuple[int, list[tuple[str, int]]]:
            answer = await handle(node, ListConfigResourcesRequest(resource_types=list(kinds)), version)
            return answer.error_code, [(one.resource_name, one.resource_type) for one in answer.config_resources]

        assert await listed(1) == (ErrorCode.NONE, [("1", LOGGER), ("1", BROKER), ("t", TOPIC)])
        assert await listed(1, TOPIC) == (ErrorCode.NONE, [("t", TOPIC)])
        assert await listed(1, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])
        assert await listed(0) == (ErrorCode.NONE, [])

    with_node(story)
