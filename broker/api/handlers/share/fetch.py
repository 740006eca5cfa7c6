"""ShareFetch (78): records for the members of share groups, and what they say of those they had."""

from collections.abc import Sequence

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.handlers.share.acknowledging import (
    MOVED,
    RENEW_SINCE,
    Acknowledging,
    PartitionFinder,
    are_ids,
)
from broker.api.handlers.share.delivering import ACQUIRE_MODES, Delivered, Delivering, FetchingServices
from broker.api.permissions.share.of_records import SHARE_FETCH
from broker.api.share_sessions import FINAL_EPOCH, FIRST_EPOCH, PartitionKey, ShareSession, ShareSessionRefused
from broker.partitions.share.states import AcknowledgeType
from coordinator.share_state.answers import Verdict
from protocol.errors import ErrorCode
from protocol.messages.share.fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)


@handles(ShareFetchRequest, ShareFetchResponse, versions=range(1, 3), guard=SHARE_FETCH)
async def share_fetch(
    services: FetchingServices, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse:
    """Hand records to a member of a share group, and take what it says of those it had.

    Answers when there are records, when no partition can be read, or when `max_wait_ms` have passed; and not before
    what the member says is kept. Epoch 0 begins a session, -1 ends it and gives back what its member holds. A partition
    is in the answer of a session that goes on only where there is something to tell: records, what became of
    acknowledgements, an error and its end, or that it is looked at from now on. v2 acquire modes (KIP-1206) and
    renewals (KIP-1222): a request that renews brings no records.

    Not done: remote storage, reading from the nearest replica.
    """
    if not are_ids(request.group_id, request.member_id) or not _makes_sense(request):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    group_id, member_id = request.group_id or "", request.member_id or ""
    finder = PartitionFinder(services, context, "ShareFetch")
    try:
        session = _session(services, context, request, group_id, member_id)
    except ShareSessionRefused as refused:
        if refused.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # a client that repeats at once would do nothing else
            await services.waiting.park([], lambda last: last or None, request.max_wait_ms)
        return ShareFetchResponse(error_code=refused.code)
    acknowledging = Acknowledging(services, finder, group_id, member_id)
    await _take(acknowledging, request, context.api_version)
    delivered = Delivered()
    is_final = request.share_session_epoch == FINAL_EPOCH
    if not is_final and not request.is_renew_ack and request.max_records > 0 and request.max_bytes > 0:
        delivered = await Delivering(services, context, request, finder, session).run()
    outcomes = await acknowledging.outcomes()
    if is_final or context.connection.is_lost:
        services.share_sessions.end(session)
    return _response(services, context, session, delivered, outcomes)


def _makes_sense(request: ShareFetchRequest) -> bool:
    """A request that renews wants no records. Of an acquire mode that it does not know, Kafka says
    UNKNOWN_SERVER_ERROR."""
    wanted = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    return request.share_acquire_mode in ACQUIRE_MODES and not (request.is_renew_ack and any(wanted))


def _session(
    services: FetchingServices, context: RequestContext, request: ShareFetchRequest, group_id: str, member_id: str
) -> ShareSession:
    sessions, epoch = services.share_sessions, request.share_session_epoch
    named = [(topic.topic_id, asked.partition_index) for topic in request.topics for asked in topic.partitions]
    if epoch == FIRST_EPOCH:
        if any(asked.acknowledgement_batches for topic in request.topics for asked in topic.partitions):
            raise ShareSessionRefused(ErrorCode.INVALID_REQUEST)
        return sessions.begin(group_id, member_id, named, context.connection.connection_id)
    session = sessions.find(group_id, member_id)
    if epoch != FINAL_EPOCH:
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        sessions.move_on(session, epoch, named, forgotten)
    return session


async def _take(acknowledging: Acknowledging, request: ShareFetchRequest, version: int) -> None:
    if not any(asked.acknowledgement_batches for topic in request.topics for asked in topic.partitions):
        return
    most = AcknowledgeType.RENEW if version >= RENEW_SINCE else AcknowledgeType.REJECT
    for topic in request.topics:
        for asked in topic.partitions:
            if asked.acknowledgement_batches:
                key = (topic.topic_id, asked.partition_index)
                await acknowledging.begin(key, asked.acknowledgement_batches, most, renews=request.is_renew_ack)


def _response(
    services: FetchingServices,
    context: RequestContext,
    session: ShareSession,
    delivered: Delivered,
    outcomes: dict[PartitionKey, Verdict],
) -> ShareFetchResponse:
    if delivered.error:
        return ShareFetchResponse(error_code=delivered.error)
    told = {key: PartitionData(partition_index=key[1]) for key in delivered.looked_at if key in session.untold}
    session.untold = {key: None for key in session.untold if key not in told} | dict.fromkeys(delivered.errors)
    for key, error in delivered.errors.items():
        told[key] = PartitionData(partition_index=key[1], error_code=error)
    for key, delivery in delivered.deliveries.items():
        acquired = [
            AcquiredRecords(
                first_offset=one.first_offset, last_offset=one.last_offset, delivery_count=one.delivery_count
            )
            for one in delivery.acquired
        ]
        told[key] = PartitionData(partition_index=key[1], records=delivery.records, acquired_records=acquired)
    for key, outcome in outcomes.items():
        data = told.setdefault(key, PartitionData(partition_index=key[1]))
        data.acknowledge_error_code, data.acknowledge_error_message = outcome.error, outcome.message
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in told.items():
        response = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id, partitions=[]))
        response.partitions.append(data)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=services.share_partitions.settings_of(session.group_id).record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=_endpoints(services, context, list(told.values())),
    )


def _endpoints(
    services: FetchingServices, context: RequestContext, told: Sequence[PartitionData]
) -> list[NodeEndpoint]:
    """KIP-951: who leads, where a member asked somebody else."""
    moved = [data for data in told if data.error_code in MOVED]
    if not moved:
        return []
    for data in moved:
        data.current_leader = LeaderIdAndEpoch(leader_id=services.node_id, leader_epoch=services.epoch)
    endpoint = services.endpoints[context.connection.listener]
    return [NodeEndpoint(node_id=services.node_id, host=endpoint.host, port=endpoint.port)]
