"""Levels of loggers as settings of the broker (KIP-412). Sentences were recorded from Kafka 4.3.1."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from broker.api.services import Services
from broker.process.log_levels import logger_names
from broker.process.logging import EventLog
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.unit.cluster.cluster_rig import handle, with_node

LOGGER, SET, DELETE, APPEND, SUBTRACT = 8, 0, 1, 2, 3
PART, OTHER = "tallystick.node", "tallystick.topics"
Change = tuple[str, int, str | None]
Told = tuple[int, str | None]
OK = (0, None)
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST

LONG = "9" * 5000
"""Digits of a number that Python does not read."""


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """All loggers are afterwards what they were before; the root is at WARN."""
    loggers = {name: logging.getLogger(None if name == "root" else name) for name in logger_names()}
    before = {name: logger.level for name, logger in loggers.items()}
    loggers["root"].setLevel(logging.WARNING)
    yield
    for name, logger in loggers.items():
        logger.setLevel(before[name])


async def changed(node: Services, *changes: Change, broker: str = "1", validate_only: bool = False) -> Told:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=LOGGER, resource_name=broker, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = (await handle(node, request, 1)).responses
    assert (answer.resource_type, answer.resource_name) == (LOGGER, broker)
    return answer.error_code, answer.error_message


async def described(node: Services, *names: str, broker: str = "1", no_keys: bool = False) -> Any:
    resource = DescribeConfigsResource(
        resource_type=LOGGER, resource_name=broker, configuration_keys=None if no_keys else list(names)
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (answer,) = (await handle(node, request, 4)).results
    return answer


async def levels_of(node: Services, *names: str) -> list[str | None]:
    found = {one.name: one.value for one in (await described(node, *names)).configs}
    return [found.get(name) for name in names]


def test_each_part_of_the_log_is_described_with_its_level() -> None:
    async def story(node: Services) -> list[Any]:
        return [await described(node, no_keys=True), await described(node), await described(node, PART, "no.such")]

    everything, without_keys, one = with_node(story)
    assert everything == without_keys
    names = [config.name for config in everything.configs]
    assert names == ["root", *sorted(names[1:])] and {PART, OTHER} <= set(names)
    assert all(name.startswith("tallystick") for name in names[1:])
    assert (one.error_code, one.error_message) == (0, "")
    assert one.configs == [
        DescribeConfigsResourceResult(
            name=PART,
            value="WARN",
            read_only=False,
            config_source=6,
            is_sensitive=False,
            synonyms=[],
            config_type=0,
            documentation="",
        )
    ]


def test_a_level_holds_at_once_and_goes_back_to_that_of_the_root(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("node")

    async def story(node: Services) -> None:
        assert await changed(node, (PART, SET, "DEBUG")) == OK
        assert await levels_of(node, PART, OTHER) == ["DEBUG", "WARN"]
        log.debug("now it is told")
        assert await changed(node, ("root", SET, "ERROR"), (PART, SET, "TRACE"), (OTHER, SET, "FATAL")) == OK
        assert await levels_of(node, "root", PART, OTHER) == ["ERROR", "TRACE", "FATAL"]
        assert await changed(node, (PART, DELETE, None), (OTHER, DELETE, "INFO")) == OK
        assert await levels_of(node, PART, OTHER) == ["ERROR", "ERROR"]
        log.warning("now it is not")

    with_node(story)
    told = [record.getMessage() for record in caplog.records]
    assert "now it is told" in told and "now it is not" not in told


NO_LEVEL = "as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([(PART, SET, "debug")], (INVALID_CONFIG, f"Cannot set the log level of {PART} to debug {NO_LEVEL}")),
        ([(PART, SET, "")], (INVALID_CONFIG, f"Cannot set the log level of {PART} to  {NO_LEVEL}")),
        ([(PART, SET, None)], (INVALID_REQUEST, f"Null value not supported for : {PART}")),
        ([(PART, APPEND, "INFO")], (INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource")),
        (
            [(PART, SUBTRACT, "INFO")],
            (INVALID_REQUEST, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
        ),
        ([(PART, 7, "INFO")], (INVALID_REQUEST, f"Unknown operation type 7 is specified for config key {PART}.")),
        ([("no.such", SET, "INFO")], (INVALID_CONFIG, "Logger no.such does not exist!")),
        ([("no.such", DELETE, None)], (INVALID_CONFIG, "Logger no.such does not exist!")),
        ([("asyncio", SET, "INFO")], (INVALID_CONFIG, "Logger asyncio does not exist!")),
        ([("root", DELETE, None)], (INVALID_REQUEST, "Removing the log level of the root logger is not allowed")),
        ([(OTHER, SET, "INFO"), (OTHER, SET, "WARN")], (INVALID_REQUEST, "Error due to duplicate config keys")),
        ([(PART, SET, "INFO"), ("no.such", SET, "INFO")], (INVALID_CONFIG, "Logger no.such does not exist!")),
    ],
)
def test_what_is_refused_changes_nothing(changes: list[Change], told: Told) -> None:
    async def story(node: Services) -> tuple[Told, list[str | None]]:
        return await changed(node, *changes), await levels_of(node, "root", PART, OTHER)

    assert with_node(story) == (told, ["WARN", "WARN", "WARN"])


def test_what_is_only_tried_changes_nothing() -> None:
    async def story(node: Services) -> None:
        assert await changed(node, (PART, SET, "INFO"), validate_only=True) == OK
        assert (await changed(node, (PART, SET, "LOUD"), validate_only=True))[0] == INVALID_CONFIG
        assert await levels_of(node, PART) == ["WARN"]

    with_node(story)


@pytest.mark.parametrize(
    ("broker", "describing", "altering"),
    [
        ("2", "Unexpected broker id, expected 1 but received 2", "Unexpected node id. Expected 1, but received 2"),
        ("", "Broker id must not be empty", "Node id must be an integer, but it is: "),
        ("x", "Broker id must be an integer, but it is: x", "Node id must be an integer, but it is: x"),
        ("²", "Broker id must be an integer, but it is: ²", "Node id must be an integer, but it is: ²"),
        (LONG, f"Broker id must be an integer, but it is: {LONG}", f"Node id must be an integer, but it is: {LONG}"),
    ],
)
def test_other_brokers_have_no_loggers_here(broker: str, describing: str, altering: str) -> None:
    async def story(node: Services) -> tuple[Any, Told]:
        return await described(node, broker=broker), await changed(node, (PART, SET, "INFO"), broker=broker)

    answer, refused = with_node(story)
    assert (answer.error_code, answer.error_message, answer.configs) == (INVALID_REQUEST, describing, [])
    assert refused == (INVALID_REQUEST, altering)


def test_levels_are_not_replaced_as_a_whole_and_named_once() -> None:
    async def story(node: Services) -> list[Told]:
        resource = AlterConfigsRequestAlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[])
        whole = await handle(node, AlterConfigsRequest(resources=[resource], validate_only=False), 2)
        configs = [IncrementalAlterConfigsRequestAlterableConfig(name=PART, config_operation=SET, value="INFO")]
        one = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=LOGGER, resource_name="1", configs=configs
        )
        twice = await handle(node, IncrementalAlterConfigsRequest(resources=[one, one], validate_only=False), 1)
        assert await levels_of(node, PART) == ["WARN"]
        return [(answer.error_code, answer.error_message) for answer in (*whole.responses, *twice.responses)]

    once = (INVALID_REQUEST, "Each resource must appear at most once.")
    assert with_node(story) == [(INVALID_REQUEST, "Unknown resource type 8"), once, once]


def test_what_becomes_of_loggers_is_told_in_the_order_of_the_request() -> None:
    async def story(node: Services) -> list[tuple[int, int]]:
        level = IncrementalAlterConfigsRequestAlterableConfig(name=PART, config_operation=SET, value="INFO")
        wanted = [(2, "ghost", []), (LOGGER, "1", [level]), (16, "", [])]
        resources = [
            IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            for kind, name, configs in wanted
        ]
        answer = await handle(node, IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1)
        assert await levels_of(node, PART) == ["INFO"]
        return [(one.resource_type, one.error_code) for one in answer.responses]

    assert with_node(story) == [(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (LOGGER, 0), (16, INVALID_REQUEST)]


def test_the_broker_is_listed_with_its_loggers() -> None:
    async def story(node: Services) -> list[Any]:
        asked = ((1, [LOGGER]), (1, [4, LOGGER]), (0, []))
        return [
            (await handle(node, ListConfigResourcesRequest(resource_types=kinds), version)).config_resources
            for version, kinds in asked
        ]

    loggers, broker = (ConfigResource(resource_name="1", resource_type=kind) for kind in (LOGGER, 4))
    assert with_node(story) == [[loggers], [loggers, broker], []]
