"""What the APIs need that are about the cluster: its settings, features, users and ACLs."""

from collections import Counter
from typing import Any

from broker.api.permissions.need import Call, Guard, Need, asks_itself, open_to_all, sift, whole, whole_of_many
from coordinator.cluster.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from protocol.acls import CLUSTER_NAME, Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreationResult,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsResponse,
    DescribeAclsResponse,
)
from protocol.messages.client_quotas import (
    AlterClientQuotasResponse,
    DescribeClientQuotasResponse,
    QuotaAlterationResult,
)
from protocol.messages.configs import (
    AlterConfigsResponseAlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ListConfigResourcesResponse,
)
from protocol.messages.features import UpdateFeaturesResponse
from protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.sasl import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
CLUSTER_MESSAGE = "Cluster authorization failed."
MESSAGES = {
    CLUSTER_DENIED: CLUSTER_MESSAGE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
}
"""Kafka's words."""


def of_cluster(operation: Operation) -> Need:
    """What most of these need."""
    return Need(operation, ResourceType.CLUSTER, CLUSTER_DENIED)


API_VERSIONS = open_to_all("How a client finds out what it may say; before it has said who it is, too.")
AUTHENTICATION = open_to_all("How a client says who it is.")
UPDATE_FEATURES = whole(
    of_cluster(Operation.ALTER),
    lambda _, error: UpdateFeaturesResponse(error_code=error, error_message=CLUSTER_MESSAGE),
)
LIST_CONFIG_RESOURCES = whole(
    of_cluster(Operation.DESCRIBE_CONFIGS),
    lambda _, error: ListConfigResourcesResponse(error_code=error, config_resources=[]),
)
DESCRIBE_ACLS = whole(
    of_cluster(Operation.DESCRIBE),
    lambda _, error: DescribeAclsResponse(error_code=error, error_message=CLUSTER_MESSAGE, resources=[]),
)
CREATE_ACLS = whole_of_many(
    of_cluster(Operation.ALTER),
    elements=lambda request: request.creations,
    refused=lambda _, error: AclCreationResult(error_code=error, error_message=CLUSTER_MESSAGE),
    response=lambda results: CreateAclsResponse(results=results),
)
DELETE_ACLS = whole_of_many(
    of_cluster(Operation.ALTER),
    elements=lambda request: request.filters,
    refused=lambda _, error: DeleteAclsFilterResult(error_code=error, error_message=CLUSTER_MESSAGE, matching_acls=[]),
    response=lambda results: DeleteAclsResponse(filter_results=results),
)
DESCRIBE_USERS = whole_of_many(
    of_cluster(Operation.DESCRIBE),
    elements=lambda request: request.users or (),
    refused=lambda _, error: DescribeUserScramCredentialsResult(user="", error_code=error, credential_infos=[]),
    response=lambda results: DescribeUserScramCredentialsResponse(error_code=CLUSTER_DENIED, results=results),
)
CREATE_TOKEN_OF_ANOTHER = Need(
    Operation.CREATE_TOKENS,
    ResourceType.USER,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    "another owner",
)
CREATE_TOKEN = asks_itself(CREATE_TOKEN_OF_ANOTHER, also="There are no delegation tokens; who may ask is told so.")
TOKENS = open_to_all("There are no delegation tokens.")
ALTER_USERS = whole_of_many(
    of_cluster(Operation.ALTER),
    elements=lambda request: dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions)),
    refused=lambda name, error: AlterUserScramCredentialsResult(
        user=name, error_code=error, error_message=CLUSTER_MESSAGE
    ),
    response=lambda results: AlterUserScramCredentialsResponse(results=results),
)
DESCRIBE_QUOTAS = whole(
    of_cluster(Operation.DESCRIBE_CONFIGS),
    lambda _, error: DescribeClientQuotasResponse(error_code=error, error_message=None, entries=None),
)
ALTER_QUOTAS = whole_of_many(
    of_cluster(Operation.ALTER_CONFIGS),
    elements=lambda request: request.entries,
    refused=lambda entry, error: QuotaAlterationResult(
        error_code=error, error_message=CLUSTER_MESSAGE, entity=entry.entity
    ),
    response=lambda results: AlterClientQuotasResponse(entries=results),
)


# -- DescribeCluster -------------------------------------------------------------------------------------------------

DESCRIBE = Need(Operation.DESCRIBE, ResourceType.CLUSTER, None, "to be told of its operations")


async def _describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    response: DescribeClusterResponse = await call.answer(request)
    if request.include_cluster_authorized_operations and not response.error_code:
        allowed = call.permissions.have(DESCRIBE)
        response.cluster_authorized_operations = call.permissions.operations(ResourceType.CLUSTER) if allowed else 0
    return response


DESCRIBE_CLUSTER = Guard((DESCRIBE,), _describe_cluster)


# -- settings --------------------------------------------------------------------------------------------------------


def _needs_of_settings(operation: Operation) -> dict[int, Need]:
    """By the type of the resource that has the settings."""
    cluster = Need(operation, ResourceType.CLUSTER, CLUSTER_DENIED, "for brokers and metrics of clients")
    return {
        TOPIC_RESOURCE: Need(operation, ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "each topic"),
        BROKER_RESOURCE: cluster,
        BROKER_LOGGER_RESOURCE: cluster,
        CLIENT_METRICS_RESOURCE: cluster,
        GROUP_RESOURCE: Need(operation, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "each group"),
    }


def _may(call: Call, needs: dict[int, Need], resource: Any) -> bool:
    need = needs.get(resource.resource_type)
    if need is None:  # no resource has settings that is of such a type: the handler says so
        return True
    name = CLUSTER_NAME if need.resource is ResourceType.CLUSTER else resource.resource_name
    return call.permissions.have(need, name)


def _denied(needs: dict[int, Need], resource: Any) -> dict[str, Any]:
    error = needs[resource.resource_type].error
    assert error is not None
    return {
        "error_code": error,
        "error_message": MESSAGES[error],
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


_DESCRIBING = _needs_of_settings(Operation.DESCRIBE_CONFIGS)
_ALTERING = _needs_of_settings(Operation.ALTER_CONFIGS)


async def _describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    time_slice = call.time_slice()
    request.resources, denied = await sift(
        request.resources, lambda resource: _may(call, _DESCRIBING, resource), time_slice
    )
    response: DescribeConfigsResponse = await call.answer(request)
    response.results += await time_slice.each(
        lambda resource: DescribeConfigsResult(**_denied(_DESCRIBING, resource), configs=[]), denied
    )
    return response


def _altering(refused: type) -> Guard:
    """`refused` is what a result is called in the answer."""

    async def answer(call: Call, request: Any) -> Any:
        time_slice = call.time_slice()
        times_named = Counter((one.resource_type, one.resource_name) for one in request.resources)
        request.resources, denied = await sift(
            request.resources,
            lambda one: times_named[one.resource_type, one.resource_name] > 1 or _may(call, _ALTERING, one),
            time_slice,
        )
        response = await call.answer(request)
        response.responses += await time_slice.each(lambda one: refused(**_denied(_ALTERING, one)), denied)
        return response

    return Guard(tuple(dict.fromkeys(_ALTERING.values())), answer)


DESCRIBE_CONFIGS = Guard(tuple(dict.fromkeys(_DESCRIBING.values())), _describe_configs)
ALTER_CONFIGS = _altering(AlterConfigsResponseAlterConfigsResourceResponse)
INCREMENTAL_ALTER_CONFIGS = _altering(IncrementalAlterConfigsResponseAlterConfigsResourceResponse)
