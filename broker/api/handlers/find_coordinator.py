"""FindCoordinator (10): which node looks after a group or a transactional id. Every such client begins with it."""

from typing import Any, Protocol

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.permissions.of_groups import FIND_COORDINATOR
from broker.api.services import WithEndpoints, WithEnvironment, WithGroups, WithShareState, WithTopics, WithTransactions
from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.share_groups.state import names_share_partition
from broker.process.logging import EventLog
from coordinator.runtime import ShardState
from protocol.errors import ErrorCode
from protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_log = EventLog("groups")

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED_SINCE = 4
SHARES_SINCE = 6
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}
"""Kafka's words. Until version 3 every answer has some; later on only one to a kind of key that nobody knows has."""


class CoordinatorServices(
    WithEndpoints, WithEnvironment, WithGroups, WithShareState, WithTopics, WithTransactions, Protocol
):
    """What these handlers use of the node."""


@handles(FindCoordinatorRequest, FindCoordinatorResponse, versions=range(0, 7), guard=FIND_COORDINATOR)
async def find_coordinator(
    services: CoordinatorServices, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The node that leads the partition of the key, as this listener's clients reach it. The first such question makes
    the internal topic, and is held until that is there, for some seconds; Kafka answers 15 at once and the client
    retries.

    v1 transactional ids; v4 several keys at once, each with its own error (KIP-699); v5 TRANSACTION_ABORTABLE is
    understood; v6 share partitions, named `group:topicId:partition` (KIP-932).
    """
    if context.api_version >= BATCHED_SINCE:
        time_slice = services.environment.time_slice()
        coordinators: list[Coordinator] = []
        refused: list[ErrorCode] = []
        for key in request.coordinator_keys:
            coordinators.append(await _coordinator(services, context, request.key_type, key, refused))
            if time_slice.spent():
                await time_slice.wait_for_turn()
        return FindCoordinatorResponse(coordinators=coordinators)
    one = await _coordinator(services, context, request.key_type, request.key, [])
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=MESSAGES.get(ErrorCode(one.error_code), ErrorCode(one.error_code).name),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _coordinator(
    services: CoordinatorServices, context: RequestContext, key_type: int, key: str, refused: list[ErrorCode]
) -> Coordinator:
    """`refused` is why the topic of these coordinators could not be made for an earlier key: nobody waits twice."""
    error = await _ready(services, context.api_version, key_type, key, refused)
    if error is not ErrorCode.NONE:
        message = "" if key_type in (GROUP, TRANSACTION, SHARE) else MESSAGES[error]
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
    shards = _shards_of(services, context.api_version, key_type, key)
    assert shards is not None, "it was looked for before"
    node_id, _ = services.topics.leader(shards.topic, shards.partition_for(key))
    endpoint = services.nodes.reach(node_id, context.connection.listener)
    if endpoint is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="")
    return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)


def _shards_of(services: CoordinatorServices, version: int, key_type: int, key: str) -> Shards[Any] | None:
    if key_type == GROUP:
        return services.groups
    if key_type == TRANSACTION:
        return services.transactions
    if key_type == SHARE and version >= SHARES_SINCE and names_share_partition(key):
        return services.share_state.shards
    return None


async def _ready(
    services: CoordinatorServices, version: int, key_type: int, key: str, refused: list[ErrorCode]
) -> ErrorCode:
    """NONE once the coordinator exists; it may still be loading, which its own answers tell."""
    shards = _shards_of(services, version, key_type, key)
    if shards is None:
        return ErrorCode.INVALID_REQUEST
    shard = shards.shard_of(key)
    if shard is not None:
        # A shard that is closed while its node runs has a damaged log: Kafka has no leader for it then.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if shard.state is ShardState.CLOSED else ErrorCode.NONE
    if refused:
        return refused[0]
    try:
        found = await services.topics.ensure_internal(shards.topic)
    except CoordinatorError as problem:
        _log.warning("an internal topic could not be made", topic=shards.topic, error=problem.error.name)
        refused.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return refused[0]
    # The node opens the shards of a topic by itself; opening them here spares this client a retry.
    shards.open(found.partitions.present())
    return ErrorCode.NONE
