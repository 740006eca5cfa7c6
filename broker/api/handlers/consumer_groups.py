"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): groups of the consumer protocol (KIP-848).

One request does all: a member joins with epoch 0, stays with its epoch, leaves with -1, or for a while (-2, a static
member). Nobody waits for others. Where the cluster's `group.version` is 0 both are answered UNSUPPORTED_VERSION.
"""

from typing import Protocol
from uuid import UUID

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.described_groups import described_groups, described_members
from broker.api.permissions.need import WithAuthorizer, permissions_of
from broker.api.permissions.of_consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, SEE_TOPIC
from broker.api.services import WithCluster, WithConfig, WithEnvironment, WithExpressions, WithGroups
from broker.coordination.consumer_groups.expressions import problem_of
from broker.coordination.coordinators import CoordinatorError
from broker.process.time_slice import TimeSlice
from coordinator.cluster.features import GROUP_VERSION
from coordinator.groups.consumer.answers import heartbeat_refused
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.consumer.topics import NAMES_MOST
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)

OWN_IDS_SINCE = 1
"""From here on members choose their ids themselves (KIP-1082)."""


class ConsumerGroupServices(
    WithAuthorizer, WithCluster, WithConfig, WithEnvironment, WithExpressions, WithGroups, Protocol
):
    """What these handlers use of the node."""


@handles(
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    versions=range(0, 2),
    guard=CONSUMER_GROUP_HEARTBEAT,
)
async def consumer_group_heartbeat(
    services: ConsumerGroupServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Become a member, stay one, say what one wants and owns, leave. Answered at once with what the member is to own,
    when that is durable; what becomes of a regular expression comes with a later heartbeat.

    v1 members choose their ids; subscriptions by regular expression (RE2).
    """
    if not _is_on(services):
        return heartbeat_refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        _check(request, context.api_version, services.config.get_list("group.consumer.assignors"))
    except Refusal as refusal:
        return heartbeat_refused(refusal.error, refusal.message)
    said = await _said(services, context, request)
    try:
        answer = await services.groups.ask(
            request.group_id, lambda machine, ticket, now_ms: machine.consumer_heartbeat(said, ticket, now_ms)
        )
    except CoordinatorError as refused:
        return heartbeat_refused(refused.error)
    if answer.resolution is not None:
        _resolve(services, context, answer.resolution)
    return answer.response


def _is_on(services: ConsumerGroupServices) -> bool:
    return services.cluster.finalized_features.get(GROUP_VERSION, 0) > 0


def _check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """What is wrong with a request in itself, in Kafka's order and words. Raises `Refusal`."""
    epoch = request.member_epoch
    if version >= OWN_IDS_SINCE or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    problem = None
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            problem = "RebalanceTimeoutMs must be provided in first request."
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "TopicPartitions must be empty when (re-)joining."
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    elif epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        problem = "InstanceId can't be null."
    elif epoch < LEAVING_STATIC_EPOCH:
        problem = "MemberEpoch is invalid."
    if len(request.subscribed_topic_names or ()) > NAMES_MOST:
        problem = f"More than {NAMES_MOST} topics are named."
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        sentence = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, sentence)


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


async def _said(
    services: ConsumerGroupServices, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Said:
    """The request as the coordinator takes it. An expression is compiled beside the loop."""
    regex, problem = request.subscribed_topic_regex, None
    if regex:
        problem = await services.environment.run_beside(lambda: problem_of(regex))
    names, owned = request.subscribed_topic_names, request.topic_partitions
    member_id = request.member_id
    if not member_id and request.member_epoch == JOINING_EPOCH:
        member_id = str(UUID(bytes=services.environment.random_bytes(16), version=4))
    return Said(
        group_id=request.group_id,
        member_id=member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        regex=regex,
        regex_problem=problem,
        assignor=request.server_assignor,
        owned=None if owned is None else [(bytes(topic.topic_id), topic.partitions) for topic in owned],
    )


def _resolve(services: ConsumerGroupServices, context: RequestContext, asked: Resolution) -> None:
    """In a task that outlives this request."""
    permissions = permissions_of(services, context, "ConsumerGroupHeartbeat")

    def may_see(name: str) -> bool:
        return permissions is None or permissions.have(SEE_TOPIC, name, quietly=True)

    services.expressions.begin(asked, may_see)


@handles(
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, versions=range(0, 2), guard=CONSUMER_GROUP_DESCRIBE
)
async def consumer_group_describe(
    services: ConsumerGroupServices, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Each group with its epochs and members: what they want, have, and are to have. Answered at once.

    GROUP_ID_NOT_FOUND for a group that is not there or of the classic protocol. v1 which protocol each member speaks.
    """
    groups = await described_groups(
        services,
        request,
        feature=GROUP_VERSION,
        refused=lambda group_id, error: DescribedConsumerGroup(group_id=group_id, error_code=error),
        described=lambda group_id, time_slice: _described(services, group_id, time_slice),
    )
    return ConsumerGroupDescribeResponse(groups=groups)


async def _described(services: ConsumerGroupServices, group_id: str, time_slice: TimeSlice) -> DescribedConsumerGroup:
    shown = await services.groups.ask(
        group_id, lambda machine, ticket, now_ms: machine.describe_consumer_group(group_id, ticket, now_ms)
    )
    shown.group.members = await described_members(shown.members, time_slice)
    return shown.group
