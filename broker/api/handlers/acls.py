"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): who may do what, as administrators see and change it.

Without an authorizer all three are SECURITY_DISABLED. What was written stays in the metadata log when the authorizer is
switched off, and is in force again when it is switched on.
"""

from typing import Protocol, TypeVar

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_cluster import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from broker.api.services import WithCluster, WithEnvironment
from broker.coordination.access.acls import FollowedAcls
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.cluster.acls import AclFilter, unknown_in
from coordinator.cluster.topic_rules import MOST_RECORDS_PER_REQUEST, TOO_LARGE, Refused
from protocol.acls import Acl, Operation, PatternType, Permission, ResourceType
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

DISABLED = "No Authorizer is configured on the broker"
DISABLED_WHERE_ACLS_GO = "No Authorizer is configured."
"""Kafka's words, in DescribeAcls and CreateAcls, and in DeleteAcls."""
Found = list[tuple[bytes, Acl]]
"""Ids and ACLs."""
Code = TypeVar("Code", ResourceType, PatternType, Operation, Permission)


class AclServices(WithCluster, WithEnvironment, Protocol):
    """What these handlers use of the node."""

    @property
    def acls(self) -> FollowedAcls | None: ...


@handles(DescribeAclsRequest, DescribeAclsResponse, versions=range(1, 4), guard=DESCRIBE_ACLS)
async def describe_acls(
    services: AclServices, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """The ACLs that a filter means, by resource pattern. Answered when they are durable.

    v1 pattern types (KIP-290): MATCH asks for all that is about the resource of a name, ANY for a pattern of that name.
    v2 flexible; v3 users as resources, of which there are none here. A code that nobody knows means none.
    """
    if services.acls is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=DISABLED, resources=[])
    time_slice = services.environment.time_slice()
    try:
        if services.cluster.leads:  # Else nothing is known here that is not durable.
            await services.cluster.ask(lambda machine, ticket: machine.look(ticket))
        found = await _found(services, _filter(request), time_slice)
    except CoordinatorError as refused:
        return DescribeAclsResponse(error_code=refused.error, resources=[])
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for _, acl in found:
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        description = AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
        )
        resource.acls.append(description)
        await time_slice.give_way()
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


@handles(CreateAclsRequest, CreateAclsResponse, versions=range(1, 4), guard=CREATE_ACLS)
async def create_acls(services: AclServices, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Write ACLs, each on its own. Answered when they are durable and in force; one that is there already is as good
    as made. v1 pattern types (KIP-290); v2 flexible; v3 users as resources, which nothing here asks about.

    What only a filter can hold (ANY, MATCH) is INVALID_REQUEST with a sentence; Kafka says UNKNOWN_SERVER_ERROR.
    """
    if services.acls is None:
        disabled = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=DISABLED)
        return CreateAclsResponse(results=[disabled] * len(request.creations))
    if len(request.creations) > MOST_RECORDS_PER_REQUEST:
        too_large = AclCreationResult(error_code=ErrorCode.POLICY_VIOLATION, error_message=TOO_LARGE)
        return CreateAclsResponse(results=[too_large] * len(request.creations))
    time_slice = services.environment.time_slice()
    acls = await time_slice.each(_acl, request.creations)
    random_bytes = services.environment.random_bytes
    try:
        results = await services.cluster.ask_in_slices(
            acls,
            lambda machine, ticket, rest, spent: machine.create_acls(
                ticket, rest, fresh_id=lambda: random_bytes(16), spent=spent
            ),
        )
    except CoordinatorError as refused:
        failed = AclCreationResult(error_code=refused.error)
        return CreateAclsResponse(results=[failed] * len(request.creations))
    await services.acls.wait_until_in_force()
    return CreateAclsResponse(results=await time_slice.each(_result, results))


def _result(refused: Refused | None) -> AclCreationResult:
    if refused is None:
        return AclCreationResult(error_message="")
    return AclCreationResult(error_code=refused.error, error_message=refused.message)


def _acl(creation: AclCreation) -> Acl:
    """Raises `ProtocolError` where one of the codes says that it is unknown."""
    return Acl(
        _known(ResourceType, creation.resource_type),
        creation.resource_name,
        _known(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _known(Operation, creation.operation),
        _known(Permission, creation.permission_type),
    )


def _known(kind: type[Code], code: int) -> Code:
    """UNKNOWN for a code that nobody knows. The code of UNKNOWN itself closes the connection, as Kafka's."""
    if code == 0:
        raise ProtocolError(f"{code} is no {kind.__name__}")
    try:
        return kind(code)
    except ValueError:
        return kind(0)


@handles(DeleteAclsRequest, DeleteAclsResponse, versions=range(1, 4), guard=DELETE_ACLS)
async def delete_acls(services: AclServices, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Take away all ACLs that one of the filters means. Answered when that is durable and in force, with what each
    filter took. v1 pattern types, as in DescribeAcls; v2 flexible; v3 users as resources.

    An ACL that several filters mean is told once, with the first of them, which bounds the answer; Kafka tells it with
    each.
    """
    if services.acls is None:
        disabled = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=DISABLED_WHERE_ACLS_GO, matching_acls=[]
        )
        return DeleteAclsResponse(filter_results=[disabled] * len(request.filters))
    time_slice = services.environment.time_slice()
    results: list[DeleteAclsFilterResult] = []
    for wanted in request.filters:
        result = DeleteAclsFilterResult(matching_acls=[])
        results.append(result)
        meant = _filter(wanted)
        result.error_message = unknown_in(meant)
        if result.error_message is not None:
            result.error_code = ErrorCode.INVALID_REQUEST
            continue
        try:
            result.matching_acls = await _delete(services, meant, time_slice)
        except CoordinatorError as refused:
            result.error_code = refused.error
    await services.acls.wait_until_in_force()
    return DeleteAclsResponse(filter_results=results)


async def _delete(services: AclServices, wanted: AclFilter, time_slice: TimeSlice) -> list[DeleteAclsMatchingAcl]:
    found = await _found(services, wanted, time_slice)
    if not found:
        return []
    removed = await services.cluster.ask_in_slices(
        [acl_id for acl_id, _ in found],
        lambda machine, ticket, rest, spent: machine.remove_acls(ticket, rest, spent=spent),
    )
    return await time_slice.each(_matching, [acl for acl in removed if acl is not None])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Raises `ProtocolError` where one of the codes says that it is unknown."""
    return AclFilter(
        _known(ResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _known(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _known(Operation, wanted.operation),
        _known(Permission, wanted.permission_type),
    )


async def _found(services: AclServices, wanted: AclFilter, time_slice: TimeSlice) -> Found:
    """The ACLs of the log, up to its end, that a filter means."""
    found: Found = []
    for acl_id, acl in list(services.cluster.image.acls.by_id.items()):
        if wanted.means(acl):
            found.append((acl_id, acl))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return found
