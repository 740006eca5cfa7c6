"""Reading and changing settings of topics and brokers."""

from collections.abc import Iterable
from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.services import WithCluster, WithConfig, WithNodeId, WithTopics
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.config_keys import BROKER_KEYS, TOPIC_KEYS, Resolved, SynonymValue
from coordinator.cluster.config_types import ConfigSource, Scope
from coordinator.cluster.configs import Alteration, AlterationResult, AlteredResource
from coordinator.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from coordinator.cluster.topic_rules import Refused, check_name
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KNOWN_RESOURCE_TYPES = frozenset((2, 4, 8, 16, 32))
"""Topics, brokers, broker loggers, client metrics, groups; only the first two have settings here."""


class ConfigServices(WithCluster, WithConfig, WithNodeId, WithTopics, Protocol):
    """What these handlers use of the node."""


@handles(DescribeConfigsRequest, DescribeConfigsResponse, versions=range(1, 5))
def describe_configs(
    services: ConfigServices, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Tell settings, where they come from and what else could have said them. Answered at once.

    No keys (null) means all. A secret is never told. v3: types and documentation. Loggers, groups and client metrics
    have no settings here: INVALID_REQUEST.
    """
    return DescribeConfigsResponse(results=[_describe(services, request, resource) for resource in request.resources])


def _describe(
    services: ConfigServices, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    told = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
    )
    try:
        settings = _settings(services, resource.resource_type, resource.resource_name)
    except Refused as refused:
        told.error_code, told.error_message = refused.error, refused.message
        return told
    wanted = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    told.configs = [_entry(one, request, resource) for one in settings if wanted is None or one.key.name in wanted]
    return told


def _settings(services: ConfigServices, resource_type: int, name: str) -> Iterable[Resolved]:
    if resource_type == TOPIC_RESOURCE:
        check_name(name)
        image = services.cluster.image.topics.get(name)
        if image is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return [services.config.layers.topic(key, image.configs) for key in TOPIC_KEYS.values()]
    if resource_type == BROKER_RESOURCE:
        return _broker_settings(services, name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {resource_type} have no configuration here.")


def _broker_settings(services: ConfigServices, name: str) -> Iterable[Resolved]:
    if not name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        values = services.cluster.image.broker_configs.get("", {})
        return [
            Resolved(BROKER_KEYS[key], value, source, (SynonymValue(key, value, source),))
            for key, value in values.items()
            if key in BROKER_KEYS
        ]
    if not (name.isascii() and name.removeprefix("-").isdigit()):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(services.node_id):
        message = f"Unexpected broker id, expected {services.node_id} or empty string, but received {name}"
        raise Refused(ErrorCode.INVALID_REQUEST, message)
    return [services.config.layers.broker(key) for key in BROKER_KEYS.values()]


def _entry(
    setting: Resolved, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResourceResult:
    key = setting.key
    synonyms = setting.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if key.sensitive else setting.value,
        read_only=resource.resource_type == BROKER_RESOURCE and key.scope is Scope.READ_ONLY,
        config_source=setting.source,
        is_sensitive=key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=None if key.sensitive else one.value, source=one.source)
            for one in synonyms
        ],
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
    )


@handles(AlterConfigsRequest, AlterConfigsResponse, versions=range(0, 3))
async def alter_configs(
    services: ConfigServices, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """Replace all settings of topics or brokers: what is not named goes back to its default.

    Answered when durable and in force. Each resource changes whole or not at all.
    """
    resources = [
        AlteredResource(
            one.resource_type,
            one.resource_name,
            tuple(Alteration(config.name, config.value) for config in one.configs),
            replace=True,
        )
        for one in request.resources
    ]
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponseAlterConfigsResourceResponse(
                error_code=result.error,
                error_message=result.message,
                resource_type=result.resource.resource_type,
                resource_name=result.resource.name,
            )
            for result in await _alter(services, resources, validate_only=request.validate_only)
        ]
    )


@handles(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, versions=range(0, 2))
async def incremental_alter_configs(
    services: ConfigServices, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change some settings: set, delete, append to a list, take from a list (KIP-339).

    Answered when durable and in force. Each resource changes whole or not at all.
    """
    resources = [
        AlteredResource(
            one.resource_type,
            one.resource_name,
            tuple(Alteration(config.name, config.value, config.config_operation) for config in one.configs),
        )
        for one in request.resources
    ]
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=result.error,
                error_message=result.message,
                resource_type=result.resource.resource_type,
                resource_name=result.resource.name,
            )
            for result in await _alter(services, resources, validate_only=request.validate_only)
        ]
    )


async def _alter(
    services: ConfigServices, resources: list[AlteredResource], *, validate_only: bool
) -> list[AlterationResult]:
    rules = services.topics.rules()
    try:
        results: list[AlterationResult] = await services.cluster.ask(
            lambda machine, ticket: machine.alter_configs(ticket, resources, rules, validate_only=validate_only)
        )
    except CoordinatorError as refused:
        return [AlterationResult(resource, refused.error) for resource in resources]
    return results


@handles(ListConfigResourcesRequest, ListConfigResourcesResponse, versions=range(0, 2))
def list_config_resources(
    services: ConfigServices, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Name what has settings: topics and this broker (KIP-1142). Answered at once.

    v0 asks for client metrics only, of which there are none. An unknown type is UNSUPPORTED_VERSION.
    """
    if any(one not in KNOWN_RESOURCE_TYPES for one in request.resource_types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    wanted = frozenset(request.resource_types) or KNOWN_RESOURCE_TYPES
    found: list[ConfigResource] = []
    if context.api_version >= 1 and BROKER_RESOURCE in wanted:
        found.append(ConfigResource(resource_name=str(services.node_id), resource_type=BROKER_RESOURCE))
    if context.api_version >= 1 and TOPIC_RESOURCE in wanted:
        found += [
            ConfigResource(resource_name=topic.name, resource_type=TOPIC_RESOURCE) for topic in services.topics.all()
        ]
    return ListConfigResourcesResponse(config_resources=found)
