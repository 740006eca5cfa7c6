"""Configs of topics, brokers and groups: read, set and deleted, each change for itself (KIP-339).

A broker answers for its own; whatever else is asked, any node answers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from protocol.errors import ErrorCode
from protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tallystick.client.client import Client
from tallystick.client.connection import Connection
from tallystick.client.errors import KafkaError, UnsupportedByBroker, check

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources."""
CLUSTER_WIDE = ""
"""The name of what holds for all brokers."""
Resource = tuple[int, str]
"""Type, name."""
_SET, _DELETE = 0, 1
_RESOURCES_OF_ALL_TYPES_SINCE = 1
"""Version of ListConfigResources (KIP-1142)."""


class Source(IntEnum):
    """Where a value comes from, in the words of Kafka's tools."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place of those where a value is looked for, the first of which wins."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Config:
    """One value."""

    name: str
    value: str | None
    """None: there is none, or it is not told."""
    source: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source == Source.DEFAULT_CONFIG.name


def dynamic_source(resource: Resource) -> str:
    """What is set on this resource itself."""
    kind, name = resource
    if kind == TOPIC:
        return Source.DYNAMIC_TOPIC_CONFIG.name
    if kind == GROUP:
        return Source.DYNAMIC_GROUP_CONFIG.name
    return (Source.DYNAMIC_DEFAULT_BROKER_CONFIG if name == CLUSTER_WIDE else Source.DYNAMIC_BROKER_CONFIG).name


async def configs_of(
    client: Client, wanted: Sequence[Resource], *, where_allowed: bool = False
) -> dict[Resource, list[Config]]:
    """Every config of some resources, by name. Raises `KafkaError` for the first that is not there; those that may not
    be seen are left out where only the others are wanted."""
    found: dict[Resource, list[Config]] = {}
    for node, its in await _by_node(client, wanted):
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in its
        ]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
        answer: DescribeConfigsResponse = await node.ask(request)
        for one in answer.results:
            if where_allowed and one.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                continue
            check(one.error_code, one.error_message or one.resource_name)
            configs = sorted(one.configs, key=lambda config: config.name)
            found[one.resource_type, one.resource_name] = [_config(config) for config in configs]
    return {resource: found[resource] for resource in wanted if resource in found or not where_allowed}


async def _by_node(client: Client, wanted: Sequence[Resource]) -> list[tuple[Connection, list[Resource]]]:
    anywhere = [one for one in wanted if one[0] != BROKER or one[1] == CLUSTER_WIDE]
    asked = [(await client.any_node(), anywhere)] if anywhere else []
    return asked + [(await _node_of(client, one), [one]) for one in wanted if one not in anywhere]


async def _node_of(client: Client, resource: Resource) -> Connection:
    kind, name = resource
    if kind != BROKER or name == CLUSTER_WIDE:
        return await client.any_node()
    if name not in await broker_names(client):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}")
    return await client.node(int(name))


async def broker_names(client: Client) -> list[str]:
    """The ids of the brokers that are there, as configs name them."""
    return [str(number) for number in sorted(one.node_id for one in (await client.metadata([])).brokers)]


async def groups_with_configs(client: Client) -> list[str]:
    """The groups that have configs of their own. Raises `UnsupportedByBroker` where a broker cannot list them."""
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    node = await client.any_node()
    if node.version_for(ListConfigResourcesRequest) < _RESOURCES_OF_ALL_TYPES_SINCE:
        raise UnsupportedByBroker("the broker does not list the groups that have configs: name one")
    answer: ListConfigResourcesResponse = await node.ask(request)
    check(answer.error_code)
    return sorted(one.resource_name for one in answer.config_resources if one.resource_type == GROUP)


def _config(said: DescribeConfigsResourceResult) -> Config:
    synonyms = (Synonym(one.name, one.value, _source(one.source)) for one in said.synonyms)
    return Config(
        name=said.name,
        value=said.value,
        source=_source(said.config_source),
        is_read_only=said.read_only,
        is_sensitive=said.is_sensitive,
        synonyms=tuple(synonyms),
    )


def _source(number: int) -> str:
    known = Source.__members__.values()
    return (Source(number) if number in known else Source.UNKNOWN).name


async def alter(client: Client, resource: Resource, *, add: Mapping[str, str], delete: Collection[str]) -> None:
    """Set some and take others back, all or none. Raises `KafkaError`."""
    changes = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in [
            *((key, _SET, value) for key, value in add.items()),
            *((key, _DELETE, None) for key in delete),
        ]
    ]
    kind, name = resource
    wanted = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)
    answer: IncrementalAlterConfigsResponse = await (await _node_of(client, resource)).ask(request)
    check(answer.responses[0].error_code, answer.responses[0].error_message or name)
