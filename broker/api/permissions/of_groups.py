"""What the APIs of groups need."""

from typing import Any

from broker.api.permissions.need import Call, Guard, Need, each, sift, whole
from coordinator.groups.answers import heartbeat, join_refused, sync_refused
from protocol.acls import CLUSTER_NAME, Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    Coordinator,
    DeletableGroupResult,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

NO_PROTOCOL_SINCE = 7
"""From here on JoinGroup can say that no protocol was chosen."""
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED

READ = Need(Operation.READ, ResourceType.GROUP, GROUP_DENIED, "the group")
DELETE = Need(Operation.DELETE, ResourceType.GROUP, GROUP_DENIED, "each group")
DESCRIBE = Need(Operation.DESCRIBE, ResourceType.GROUP, GROUP_DENIED, "each group")
LIST_ALL = Need(Operation.DESCRIBE, ResourceType.CLUSTER, None, "instead of Describe of each group")
LIST = Need(Operation.DESCRIBE, ResourceType.GROUP, None, "each group; others are left out")


def _group_of(request: Any) -> str:
    return str(request.group_id)


def _join_group(call: Call, request: JoinGroupRequest) -> Any:
    if call.permissions.have(READ, request.group_id):
        return call.handled(request)
    refused = join_refused(GROUP_DENIED, request.member_id)
    if call.context.api_version < NO_PROTOCOL_SINCE:
        refused.protocol_name = ""
    return refused


JOIN_GROUP = Guard((READ,), _join_group)
SYNC_GROUP = whole(READ, lambda _, error: sync_refused(error), _group_of)
HEARTBEAT = whole(READ, lambda _, error: heartbeat(error), _group_of)
LEAVE_GROUP = whole(READ, lambda _, error: LeaveGroupResponse(error_code=error), _group_of)
DELETE_GROUPS = each(
    DELETE,
    of="groups_names",
    into="results",
    refused=lambda name, error: DeletableGroupResult(group_id=name, error_code=error),
    name_of=str,
)


# -- looking ---------------------------------------------------------------------------------------------------------


async def _describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    permissions, time_slice = call.permissions, call.time_slice()
    request.groups, denied = await sift(request.groups, lambda one: permissions.have(DESCRIBE, one), time_slice)
    response: DescribeGroupsResponse = await call.answer(request)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = permissions.operations(ResourceType.GROUP, group.group_id)
            await time_slice.give_way()
    response.groups += await time_slice.each(
        lambda group_id: DescribedGroup(
            error_code=GROUP_DENIED,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        ),
        denied,
    )
    return response


async def _list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    permissions = call.permissions
    response: ListGroupsResponse = await call.answer(request)
    if not permissions.have(LIST_ALL, quietly=True):
        response.groups, _ = await sift(
            response.groups, lambda group: permissions.have(LIST, group.group_id, quietly=True), call.time_slice()
        )
    return response


DESCRIBE_GROUPS = Guard((DESCRIBE,), _describe_groups)
LIST_GROUPS = Guard((LIST_ALL, LIST), _list_groups)


# -- FindCoordinator -------------------------------------------------------------------------------------------------

FIND_GROUP = Need(Operation.DESCRIBE, ResourceType.GROUP, GROUP_DENIED, "a group that is asked for")
FIND_ID = Need(
    Operation.DESCRIBE,
    ResourceType.TRANSACTIONAL_ID,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "a transactional id that is asked for",
)
FIND_SHARE = Need(
    Operation.CLUSTER_ACTION,
    ResourceType.CLUSTER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "where share partitions are asked for",
)
_FINDABLE = {0: FIND_GROUP, 1: FIND_ID, 2: FIND_SHARE}
BATCHED_SINCE = 4
SHARES_SINCE = 6


async def _find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    need = _FINDABLE.get(request.key_type)
    if need is FIND_SHARE and call.context.api_version < SHARES_SINCE:
        need = None
    if need is None:  # what nobody knows: the handler says so
        return await call.answer(request)  # type: ignore[no-any-return]
    error = need.error
    assert error is not None

    def have(key: str) -> bool:
        return call.permissions.have(need, CLUSTER_NAME if need is FIND_SHARE else key)

    if call.context.api_version < BATCHED_SINCE:
        if have(request.key):
            return await call.answer(request)  # type: ignore[no-any-return]
        return FindCoordinatorResponse(error_code=error, error_message=MESSAGES[error], node_id=-1, host="", port=-1)
    time_slice = call.time_slice()
    request.coordinator_keys, denied = await sift(request.coordinator_keys, have, time_slice)
    response: FindCoordinatorResponse = await call.answer(request)
    message = MESSAGES[error] if need is FIND_SHARE else ""
    response.coordinators += await time_slice.each(
        lambda key: Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message), denied
    )
    return response


MESSAGES = {
    GROUP_DENIED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
FIND_COORDINATOR = Guard((FIND_GROUP, FIND_ID, FIND_SHARE), _find_coordinator)
