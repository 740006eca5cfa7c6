"""ShareFetch (78): records for the members of share groups, and what they say of those they had."""

from collections.abc import Sequence

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.handlers.share.acknowledging import (
    MOVED,
    Acknowledging,
    PartitionFinder,
    are_ids,
    reached_leaders,
)
from broker.api.handlers.share.delivering import ACQUIRE_MODES, Delivered, Delivering, FetchingServices
from broker.api.permissions.share.of_records import SHARE_FETCH
from broker.api.share_sessions import FINAL_EPOCH, FIRST_EPOCH, PartitionKey, ShareSession, ShareSessionRefused
from broker.process.time_slice import TimeSlice
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
        session = await _session(services, context, request, group_id, member_id)
    except ShareSessionRefused as refused:
        if refused.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # a client that repeats at once would do nothing else
            await services.waiting.park([], lambda last: last or None, request.max_wait_ms)
        return ShareFetchResponse(error_code=refused.code)
    acknowledging = Acknowledging(services, finder, group_id, member_id)
    said = (
        ((topic.topic_id, asked.partition_index), asked.acknowledgement_batches)
        for topic in request.topics
        for asked in topic.partitions
        if asked.acknowledgement_batches
    )
    await acknowledging.take(said, version=context.api_version, is_renew_ack=request.is_renew_ack)
    outcomes = await acknowledging.outcomes()  # of what it had, before it is handed more
    delivered = Delivered()
    is_final = request.share_session_epoch == FINAL_EPOCH
    if not is_final and not request.is_renew_ack and request.max_records > 0 and request.max_bytes > 0:
        delivered = await Delivering(services, context, request, finder, session).run()
    if is_final or context.connection.is_lost:
        services.share_sessions.end(session)
    return await _response(services, context, session, delivered, outcomes)


def _makes_sense(request: ShareFetchRequest) -> bool:
    """A request that renews wants no records. Of an acquire mode that it does not know, Kafka says
    UNKNOWN_SERVER_ERROR."""
    wanted = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    return request.share_acquire_mode in ACQUIRE_MODES and not (request.is_renew_ack and any(wanted))


async def _session(
    services: FetchingServices, context: RequestContext, request: ShareFetchRequest, group_id: str, member_id: str
) -> ShareSession:
    sessions, epoch = services.share_sessions, request.share_session_epoch
    time_slice = services.environment.time_slice()
    named = await time_slice.all(
        (topic.topic_id, asked.partition_index) for topic in request.topics for asked in topic.partitions
    )
    forgotten = await time_slice.all(
        (topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    )
    if epoch == FIRST_EPOCH:
        if any(asked.acknowledgement_batches for topic in request.topics for asked in topic.partitions):
            raise ShareSessionRefused(ErrorCode.INVALID_REQUEST)
        return sessions.begin(group_id, member_id, named, context.connection.connection_id)
    session = sessions.find(group_id, member_id)
    if epoch != FINAL_EPOCH:
        sessions.move_on(session, epoch, named, forgotten)
    return session


async def _response(
    services: FetchingServices,
    context: RequestContext,
    session: ShareSession,
    delivered: Delivered,
    outcomes: dict[PartitionKey, Verdict],
) -> ShareFetchResponse:
    if delivered.error:
        return ShareFetchResponse(error_code=delivered.error)
    time_slice = services.environment.time_slice()
    told = await _told_first(session, delivered, time_slice)
    told |= dict.fromkeys((*delivered.errors, *delivered.deliveries, *outcomes))
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    moved: list[tuple[bytes, PartitionData]] = []
    for key in told:
        data = _told(key, delivered, outcomes.get(key))
        if data.error_code in MOVED:
            moved.append((key[0], data))
        response = topics.setdefault(key[0], ShareFetchableTopicResponse(topic_id=key[0], partitions=[]))
        response.partitions.append(data)
        await time_slice.give_way()
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=services.share_partitions.settings_of(session.group_id).record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=_endpoints(services, context, moved),
    )


async def _told_first(session: ShareSession, delivered: Delivered, time_slice: TimeSlice) -> dict[PartitionKey, None]:
    """The partitions that are in this answer whatever there is to tell; those with an error are in the next one."""
    untold, session.untold = session.untold, dict.fromkeys(delivered.errors)
    told: dict[PartitionKey, None] = {}
    for key in delivered.looked_at:
        if key in untold:
            told[key] = None
        await time_slice.give_way()
    for key in untold:  # what came to the session since they were looked at
        if key not in told and key in session.wanted:
            session.untold[key] = None
        await time_slice.give_way()
    return told


def _told(key: PartitionKey, delivered: Delivered, outcome: Verdict | None) -> PartitionData:
    """What a member is told of one partition."""
    data = PartitionData(partition_index=key[1], error_code=delivered.errors.get(key, ErrorCode.NONE))
    delivery = delivered.deliveries.get(key)
    if delivery is not None:
        data.records = delivery.records
        data.acquired_records = [
            AcquiredRecords(
                first_offset=one.first_offset, last_offset=one.last_offset, delivery_count=one.delivery_count
            )
            for one in delivery.acquired
        ]
    if outcome is not None:
        data.acknowledge_error_code, data.acknowledge_error_message = outcome.error, outcome.message
    return data


def _endpoints(
    services: FetchingServices, context: RequestContext, moved: Sequence[tuple[bytes, PartitionData]]
) -> list[NodeEndpoint]:
    """KIP-951: who leads, where a member asked somebody else."""
    for topic_id, data in moved:
        leader, epoch = services.nodes.leader(topic_id, data.partition_index)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    reached = reached_leaders(services, context, (data.current_leader.leader_id for _, data in moved))
    return [
        NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port) for leader, endpoint in reached.items()
    ]
