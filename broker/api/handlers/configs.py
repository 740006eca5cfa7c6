"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources (74): reading and changing
settings of topics and brokers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from broker.api.broker_loggers import alter_loggers, logger_levels
from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.forwarded import altered_by_controller
from broker.api.guarded_configs import put_in_force, refused_by_guards, refused_to_asker
from broker.api.linear_pattern import understands
from broker.api.permissions.of_cluster import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
)
from broker.api.services import (
    WithCluster,
    WithConfig,
    WithController,
    WithEnvironment,
    WithNodeId,
    WithNodes,
    WithTopics,
)
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.configs import Alteration, AlterationResult, AlteredResource, broker_number
from coordinator.cluster.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from coordinator.cluster.keys.config_keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    Resolved,
    SynonymValue,
    broker_key,
)
from coordinator.cluster.keys.config_types import ConfigSource, Scope, render
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST, TOO_LARGE, Refused, check_name
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KNOWN_RESOURCE_TYPES = frozenset((2, 4, 8, 16, 32))
"""Topics, brokers, broker loggers, client metrics, groups; all have settings that can be changed."""
MOST_UNSET = 1000
"""Groups and subscriptions that nothing is set of, described in one answer: some ten megabytes."""
TOO_MANY_UNSET = f"More than {MOST_UNSET} names are described that nothing is set of."


class _WithConfigs(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def configs(self) -> Sized: ...


A = TypeVar("A")


class ConfigServices(
    WithCluster, WithConfig, WithController, WithEnvironment, WithNodeId, WithNodes, WithTopics, Protocol
):
    """What these handlers use of the node."""


@handles(DescribeConfigsRequest, DescribeConfigsResponse, versions=range(1, 5), guard=DESCRIBE_CONFIGS)
async def describe_configs(
    services: ConfigServices, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Settings with their source and synonyms. Answered at once.

    No keys (null) means all. A secret is never returned. v3: types and documentation. A subscription to metrics of
    clients (KIP-714) has its defaults where nothing is set of it, whatever its name; a group has those of the consumer
    protocol (KIP-848), whether it exists or not. Loggers have their levels (KIP-412). A resource that is named more
    than once is described once, with all keys that are wanted of it: a few bytes would be answered with 20 KB each
    time. So it would be with names that nothing is set of: one request may ask for 1 000 of them (POLICY_VIOLATION).
    """
    time_slice = services.environment.time_slice()
    wanted: dict[tuple[int, str], set[str] | None] = {}
    for resource in request.resources:
        keys = wanted.setdefault((resource.resource_type, resource.resource_name), set())
        if resource.configuration_keys is None:
            wanted[resource.resource_type, resource.resource_name] = None
        elif keys is not None:
            keys.update(resource.configuration_keys)
        await time_slice.give_way()
    results: list[DescribeConfigsResult] = []
    unset = 0
    for (resource_type, name), keys in wanted.items():
        is_set = _has_settings(services.cluster.image, resource_type, name)
        unset += not is_set
        if unset > MOST_UNSET and not is_set:
            results.append(_not_described(resource_type, name, ErrorCode.POLICY_VIOLATION, TOO_MANY_UNSET))
        else:
            results.append(_describe(services, request, resource_type, name, keys))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return DescribeConfigsResponse(results=results)


def _describe(
    services: ConfigServices, request: DescribeConfigsRequest, resource_type: int, name: str, keys: set[str] | None
) -> DescribeConfigsResult:
    try:
        settings = _settings(services, resource_type, name)
    except Refused as refused:
        return _not_described(resource_type, name, refused.error, refused.message)
    is_broker = resource_type == BROKER_RESOURCE
    configs = [
        _entry(setting, request, is_broker=is_broker)
        for setting in settings
        if keys is None or setting.key.name in keys or (resource_type == BROKER_LOGGER_RESOURCE and not keys)
    ]
    return DescribeConfigsResult(error_message="", resource_type=resource_type, resource_name=name, configs=configs)


def _not_described(resource_type: int, name: str, error: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error, error_message=message, resource_type=resource_type, resource_name=name, configs=[]
    )


def _has_settings(image: ClusterImage, resource_type: int, name: str) -> bool:
    """Whether a resource is there by its name, or has settings of its own: of the others there are as many as anybody
    names."""
    if resource_type == CLIENT_METRICS_RESOURCE:
        return name in image.client_metrics
    return resource_type != GROUP_RESOURCE or name in image.group_configs


def _settings(services: ConfigServices, resource_type: int, name: str) -> Iterable[Resolved]:
    if resource_type == TOPIC_RESOURCE:
        check_name(name)
        image = services.cluster.image.topics.get(name)
        if image is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return [services.config.layers.topic(key, image.configs) for key in TOPIC_KEYS.values()]
    if resource_type == BROKER_RESOURCE:
        return _broker_settings(services, name)
    if resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return _subscription(services.cluster.image.client_metrics.get(name, {}))
    if resource_type == GROUP_RESOURCE:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own = services.cluster.image.group_configs.get(name, {})
        return [services.config.layers.group(key, own) for key in GROUP_KEYS.values()]
    if resource_type == BROKER_LOGGER_RESOURCE:
        return logger_levels(name, services.node_id)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {resource_type} have no configuration here.")


def _subscription(configs: Mapping[str, str]) -> Iterable[Resolved]:
    for name, key in CLIENT_METRICS_KEYS.items():
        if (value := configs.get(name)) is None:
            yield Resolved(key, key.default, ConfigSource.DEFAULT, ())
        else:
            source, value = ConfigSource.CLIENT_METRICS, render(key.parse(value))
            yield Resolved(key, value, source, (SynonymValue(name, value, source),))


def _broker_settings(services: ConfigServices, name: str) -> Iterable[Resolved]:
    if not name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        values = services.cluster.image.broker_configs.get("", {})
        return [
            Resolved(key, value, source, (SynonymValue(name, value, source),))
            for name, value in values.items()
            if (key := broker_key(name)) is not None
        ]
    if broker_number(name) is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(services.node_id):
        message = f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    config = services.config
    return [config.layers.broker(key) for key in (*BROKER_KEYS.values(), *config.settings_of_listeners())]


def _entry(setting: Resolved, request: DescribeConfigsRequest, *, is_broker: bool) -> DescribeConfigsResourceResult:
    key = setting.key
    synonyms = setting.synonyms if request.include_synonyms else ()
    # What follows from the default of another key (`log.retention.ms` from hours) is not said of a broker, as in Kafka.
    value = key.default if is_broker and setting.source is ConfigSource.DEFAULT else setting.value
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if key.sensitive else value,
        read_only=is_broker and key.scope is Scope.READ_ONLY,
        config_source=setting.source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=None if key.sensitive else one.value, source=one.source)
            for one in synonyms
        ],
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
    )


@handles(AlterConfigsRequest, AlterConfigsResponse, versions=range(0, 3), guard=ALTER_CONFIGS)
async def alter_configs(
    services: ConfigServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace all settings of topics or brokers: what is not named goes back to its default.

    Answered when durable and in force. Each resource changes whole or not at all.
    """

    def altered(one: AlterConfigsRequestAlterConfigsResource) -> AlteredResource:
        alterations = tuple(Alteration(config.name, config.value) for config in one.configs)
        return AlteredResource(one.resource_type, one.resource_name, alterations, replace=True)

    results = await _alter(services, context, request, AlterConfigsResponse, altered)
    return AlterConfigsResponse(
        responses=await _responses(services, AlterConfigsResponseAlterConfigsResourceResponse, results)
    )


@handles(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    versions=range(0, 2),
    guard=INCREMENTAL_ALTER_CONFIGS,
)
async def incremental_alter_configs(
    services: ConfigServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change some settings: set, delete, append to a list, take from a list (KIP-339). Levels of loggers hold until the
    process ends (KIP-412).

    Answered when durable and in force. Each resource changes whole or not at all.
    """

    def altered(one: IncrementalAlterConfigsRequestAlterConfigsResource) -> AlteredResource:
        alterations = tuple(Alteration(config.name, config.value, config.config_operation) for config in one.configs)
        return AlteredResource(one.resource_type, one.resource_name, alterations)

    results = await _alter(services, context, request, IncrementalAlterConfigsResponse, altered)
    return IncrementalAlterConfigsResponse(
        responses=await _responses(services, IncrementalAlterConfigsResponseAlterConfigsResourceResponse, results)
    )


async def _responses(services: ConfigServices, kind: Callable[..., A], results: Sequence[AlterationResult]) -> list[A]:
    """`kind` is what a result is called in the response; both have the same fields."""

    def response_of(result: AlterationResult) -> A:
        return kind(
            error_code=result.error,
            error_message=result.message,
            resource_type=result.resource.resource_type,
            resource_name=result.resource.name,
        )

    return await services.environment.time_slice().each(response_of, results)


async def _alter(
    services: ConfigServices,
    context: RequestContext,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    response: type[AlterConfigsResponse] | type[IncrementalAlterConfigsResponse],
    altered: Callable[[Any], AlteredResource],
) -> list[AlterationResult]:
    """`altered` makes of a resource of the request what is asked of the coordinator."""
    time_slice = services.environment.time_slice()
    requested: Sequence[_WithConfigs] = request.resources
    if sum(1 + len(one.configs) for one in requested) > MOST_RECORDS_PER_REQUEST:

        def too_large(one: _WithConfigs) -> AlterationResult:
            resource = AlteredResource(one.resource_type, one.resource_name, ())
            return AlterationResult(resource, ErrorCode.POLICY_VIOLATION, TOO_LARGE)

        return await time_slice.each(too_large, requested)
    resources = await time_slice.each(altered, requested)
    rules = replace(services.topics.rules(), asked_from=context.connection.peer_host, understands=understands)
    times_named = Counter((resource.resource_type, resource.name) for resource in resources)
    refused = await refused_by_guards(services, resources)
    if services.controller is not None and not services.cluster.leads:
        refused |= refused_to_asker(services, resources, rules, times_named)
    for one in resources:
        place = (one.resource_type, one.name)
        if one.resource_type == BROKER_LOGGER_RESOURCE and not one.replace and times_named[place] == 1:
            refused[place] = alter_loggers(one, services.node_id, validate_only=request.validate_only)
    left = [one for one in resources if (one.resource_type, one.name) not in refused]
    try:
        results = None
        if services.controller is not None and not services.cluster.leads:
            asks = [one for one in requested if (one.resource_type, one.resource_name) not in refused]
            results = await altered_by_controller(services.controller, request, asks, left, response)
        if results is None:
            results = await services.cluster.ask_in_slices(
                left,
                lambda machine, ticket, rest, spent: machine.alter_configs(
                    ticket, rest, rules, times_named, validate_only=request.validate_only, spent=spent
                ),
            )
        await services.topics.wait_until_configured()
    except CoordinatorError as problem:
        return [AlterationResult(resource, problem.error) for resource in resources]
    if not request.validate_only:
        await put_in_force(services, results)
    if not refused:
        return results
    asked = iter(results)
    return [refused.get((one.resource_type, one.name)) or next(asked) for one in resources]


@handles(ListConfigResourcesRequest, ListConfigResourcesResponse, versions=range(0, 2), guard=LIST_CONFIG_RESOURCES)
def list_config_resources(
    services: ConfigServices, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Name what has settings: subscriptions to metrics of clients, brokers that serve, their loggers, topics, groups
    (KIP-1142). Answered at once.

    v0 asks for metrics of clients only. Groups are named that have settings of their own. An unknown type is
    UNSUPPORTED_VERSION.
    """
    if any(one not in KNOWN_RESOURCE_TYPES for one in request.resource_types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    wanted = frozenset(request.resource_types) or KNOWN_RESOURCE_TYPES
    found: list[ConfigResource] = []
    if CLIENT_METRICS_RESOURCE in wanted:
        found += [
            ConfigResource(resource_name=name, resource_type=CLIENT_METRICS_RESOURCE)
            for name in sorted(services.cluster.image.client_metrics)
        ]
    found += [
        ConfigResource(resource_name=str(node.node_id), resource_type=kind)
        for kind in (BROKER_LOGGER_RESOURCE, BROKER_RESOURCE)
        if context.api_version >= 1 and kind in wanted
        for node in services.nodes.reached(context.connection.listener)
    ]
    if context.api_version >= 1 and TOPIC_RESOURCE in wanted:
        found += [
            ConfigResource(resource_name=topic.name, resource_type=TOPIC_RESOURCE) for topic in services.topics.all()
        ]
    if context.api_version >= 1 and GROUP_RESOURCE in wanted:
        names = services.cluster.image.group_configs
        found += [ConfigResource(resource_name=name, resource_type=GROUP_RESOURCE) for name in names]
    return ListConfigResourcesResponse(config_resources=found)
