"""ShareGroupHeartbeat (76), ShareGroupDescribe (77): share groups (KIP-932).

One request does all: a member joins with epoch 0, stays with its epoch, leaves with -1. Nobody waits for others. Where
the cluster's `share.version` is 0 both are answered UNSUPPORTED_VERSION.
"""

from typing import Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.described_groups import described_groups
from broker.api.permissions.share.of_groups import SHARE_GROUP_DESCRIBE, SHARE_GROUP_HEARTBEAT
from broker.api.services import WithCluster, WithEnvironment, WithGroups, WithShareErrands
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.features import SHARE_VERSION
from coordinator.groups.consumer.topics import NAMES_MOST
from coordinator.groups.share.answers import heartbeat_refused
from coordinator.groups.share.member import JOINING_EPOCH, LEAVING_EPOCH
from coordinator.groups.share.protocol import Said
from protocol.errors import ErrorCode
from protocol.messages.share.groups import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareGroupServices(WithCluster, WithEnvironment, WithGroups, WithShareErrands, Protocol):
    """What these handlers use of the node."""


@handles(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, versions=range(1, 2), guard=SHARE_GROUP_HEARTBEAT)
async def share_group_heartbeat(
    services: ShareGroupServices, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Become a member, stay one, say which topics one wants, leave. Answered at once with what the member may fetch,
    when that is durable. Partitions that the group has never had come with a later heartbeat: they are initialised."""
    if not _is_on(services):
        return heartbeat_refused(ErrorCode.UNSUPPORTED_VERSION)
    problem = _problem(request)
    if problem is not None:
        return heartbeat_refused(ErrorCode.INVALID_REQUEST, problem or None)
    names = request.subscribed_topic_names
    said = Said(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer_host}",
        rack_id=request.rack_id,
        topics=None if names is None else frozenset(names),
    )
    try:
        answer = await services.groups.ask(
            request.group_id, lambda machine, ticket, now_ms: machine.shares.heartbeat(said, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return heartbeat_refused(refused.error)
    if answer.errand is not None:
        services.share_errands.begin(answer.errand)
    return answer.response


def _is_on(services: ShareGroupServices) -> bool:
    return services.cluster.finalized_features.get(SHARE_VERSION, 0) > 0


def _problem(request: ShareGroupHeartbeatRequest) -> str | None:
    """What is wrong with a request in itself, in Kafka's order and words: an empty text where it has none."""
    if not request.member_id.strip():
        return ""
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVING_EPOCH:
        return "MemberEpoch is invalid."
    if len(request.subscribed_topic_names or ()) > NAMES_MOST:
        return f"More than {NAMES_MOST} topics are named."
    return None


@handles(ShareGroupDescribeRequest, ShareGroupDescribeResponse, versions=range(1, 2), guard=SHARE_GROUP_DESCRIBE)
async def share_group_describe(
    services: ShareGroupServices, context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Each group with its epochs and members: what they want and have. Answered at once."""
    groups = await described_groups(
        services,
        request,
        feature=SHARE_VERSION,
        refused=lambda group_id, error: DescribedShareGroup(group_id=group_id, error_code=error),
        described=lambda group_id, _: services.groups.ask(
            group_id,
            lambda machine, ticket, now_ms: machine.share_administration.describe(group_id, ticket, now_ms),
        ),
    )
    return ShareGroupDescribeResponse(groups=groups)
