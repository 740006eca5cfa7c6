"""DescribeGroups (15), ListGroups (16), DeleteGroups (42): groups as administrators see and remove them."""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_groups import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from broker.api.services import WithEnvironment, WithGroups, WithShareErrands
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.groups import delete_group
from broker.coordination.share_groups.errands import is_gone
from coordinator.groups.consumer.answers import listed_consumers, wanted_states
from coordinator.groups.seen.listing import group_filter, listed
from coordinator.groups.share.answers import listed_share_group, wanted_share_states
from coordinator.groups.streams.answers import listed_streams, wanted_streams_states
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

NOT_FOUND_SINCE = 6
TIMES = 5
"""How often a deletion is begun."""
ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe configs, alter configs: all there is to do with a group, as nobody is restricted."""


class AdministrationServices(WithEnvironment, WithGroups, WithShareErrands, Protocol):
    """What these handlers use of the node."""


@handles(DescribeGroupsRequest, DescribeGroupsResponse, versions=range(0, 7), guard=DESCRIBE_GROUPS)
async def describe_groups(
    services: AdministrationServices, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Each group once, with its members; their metadata only while it is stable.

    An unknown group is Dead, and from v6 on also GROUP_ID_NOT_FOUND. v3 authorised operations; v4 instance ids.
    """
    time_slice = services.environment.time_slice()
    groups = []
    for group_id in dict.fromkeys(request.groups):
        group = await _describe(services, group_id)
        if time_slice.spent():
            await time_slice.wait_for_turn()
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and context.api_version < NOT_FOUND_SINCE:
            group.error_code = ErrorCode.NONE
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ALL_OPERATIONS
        groups.append(group)
    return DescribeGroupsResponse(groups=groups)


async def _describe(services: AdministrationServices, group_id: str) -> DescribedGroup:
    try:
        return await services.groups.ask(
            group_id, lambda machine, ticket, now_ms: machine.describe_group(group_id, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return DescribedGroup(
            error_code=refused.error, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
        )


@handles(ListGroupsRequest, ListGroupsResponse, versions=range(0, 6), guard=LIST_GROUPS)
async def list_groups(
    services: AdministrationServices, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """All groups of this node; COORDINATOR_LOAD_IN_PROGRESS as long as some of them may be missing. Those in a damaged
    log are left out, as in Kafka.

    v4 state, and a filter on it (KIP-518); v5 type, and a filter on it (KIP-848).
    """
    time_slice = services.environment.time_slice()
    wanted = group_filter(request.states_filter, request.types_filter)
    states = wanted_states(request.states_filter, request.types_filter)
    of_streams = wanted_streams_states(request.states_filter, request.types_filter)
    shared = wanted_share_states(request.states_filter, request.types_filter)
    groups: list[ListedGroup] = []
    for index in services.groups.indexes():
        try:
            known = await services.groups.ask_partition(
                index, lambda machine, ticket, now_ms: machine.list_groups(wanted, ticket, now_ms)
            )
            streams = await services.groups.ask_partition(
                index, lambda machine, ticket, now_ms: machine.streams.list(of_streams, ticket, now_ms)
            )
            consumers = await services.groups.ask_partition(
                index, lambda machine, ticket, now_ms: machine.list_consumer_groups(states, ticket, now_ms)
            )
            shares = await services.groups.ask_partition(
                index,
                lambda machine, ticket, now_ms: machine.share_administration.list_groups(shared, ticket, now_ms),
            )
        except CoordinatorError as refused:
            if services.groups.is_offline(index):
                continue
            return ListGroupsResponse(error_code=refused.error, groups=[])
        groups += await time_slice.each(listed, known)
        groups += await time_slice.each(listed_consumers, consumers)
        groups += await time_slice.each(listed_streams, streams)
        groups += await time_slice.each(listed_share_group, shares)
        await time_slice.give_way()
    return ListGroupsResponse(groups=groups)


@handles(DeleteGroupsRequest, DeleteGroupsResponse, versions=range(0, 3), guard=DELETE_GROUPS)
async def delete_groups(
    services: AdministrationServices, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Groups without members go, with their offsets; others are NON_EMPTY_GROUP. Answered when that is durable.

    Of a share group the share coordinator forgets everything before.
    """
    time_slice = services.environment.time_slice()
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        error = await _delete(services, group_id)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        if time_slice.spent():
            await time_slice.wait_for_turn()
    return DeleteGroupsResponse(results=results)


async def _delete(services: AdministrationServices, group_id: str) -> ErrorCode:
    """Whoever sets offsets of a share group between the two steps begins with it again: they are taken once more."""
    error = ErrorCode.NONE
    for _ in range(TIMES):
        error = await _forget_shares(services, group_id)
        if error is not ErrorCode.NONE:
            return error
        error = await delete_group(services.groups, group_id)
        if error is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return error
    return error


async def _forget_shares(services: AdministrationServices, group_id: str) -> ErrorCode:
    """NONE as well where it is no share group, or one whose records cannot be read: it is given up as it is."""
    try:
        prepared = await services.groups.ask(
            group_id,
            lambda machine, ticket, now_ms: machine.share_administration.begin_forgetting(
                group_id, None, ticket, now_ms
            ),
        )
    except CoordinatorError as refused:
        return ErrorCode.NONE if refused.error is ErrorCode.UNKNOWN_SERVER_ERROR else refused.error
    if prepared.errand is None:
        return ErrorCode.NONE if prepared.error is ErrorCode.GROUP_ID_NOT_FOUND else prepared.error
    verdicts = await services.share_errands.forget(prepared.errand)
    return next((verdict.error for verdict in verdicts.values() if not is_gone(verdict)), ErrorCode.NONE)
