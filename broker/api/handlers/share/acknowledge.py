"""ShareAcknowledge (79): what the members of share groups say of their records, apart from fetching others."""

from broker.api.catalogue import handles
from broker.api.context import RequestContext
from broker.api.handlers.share.acknowledging import (
    MOVED,
    Acknowledging,
    PartitionFinder,
    ShareServices,
    are_ids,
    reached_leaders,
)
from broker.api.permissions.share.of_records import SHARE_ACKNOWLEDGE
from broker.api.share_sessions import FINAL_EPOCH, FIRST_EPOCH, ShareSession, ShareSessionRefused, ShareSessions
from protocol.errors import ErrorCode
from protocol.messages.share.acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@handles(ShareAcknowledgeRequest, ShareAcknowledgeResponse, versions=range(1, 3), guard=SHARE_ACKNOWLEDGE)
async def share_acknowledge(
    services: ShareServices, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Take acknowledgements, partition by partition; answered when they are kept.

    Who is a member is not asked, in Kafka neither: who has a session may speak. Epoch -1 ends it, and gives back what
    the member still holds. v2 renewals (KIP-1222) and the time of a lock.
    """
    if not are_ids(request.group_id, request.member_id):
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    group_id, member_id = request.group_id or "", request.member_id or ""
    try:
        session = _moved_on(services.share_sessions, group_id, member_id, request.share_session_epoch)
    except ShareSessionRefused as refused:
        return ShareAcknowledgeResponse(error_code=refused.code)
    finder = PartitionFinder(services, context, "ShareAcknowledge")
    acknowledging = Acknowledging(services, finder, group_id, member_id)
    said = (
        ((topic.topic_id, asked.partition_index), asked.acknowledgement_batches)
        for topic in request.topics
        for asked in topic.partitions
    )
    await acknowledging.take(said, version=context.api_version, is_renew_ack=request.is_renew_ack)
    outcomes = await acknowledging.outcomes()
    if request.share_session_epoch == FINAL_EPOCH:
        services.share_sessions.end(session)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=services.share_partitions.settings_of(group_id).record_lock_duration_ms
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: list[int] = []
    time_slice = services.environment.time_slice()
    for (topic_id, index), outcome in outcomes.items():
        data = PartitionData(partition_index=index, error_code=outcome.error, error_message=outcome.message)
        if outcome.error in MOVED:
            leader, epoch = services.nodes.leader(topic_id, index)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            leaders.append(leader)
        topic_response = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[]))
        topic_response.partitions.append(data)
        await time_slice.give_way()
    response.responses = list(topics.values())
    response.node_endpoints = [
        NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port)
        for leader, endpoint in reached_leaders(services, context, leaders).items()
    ]
    return response


def _moved_on(sessions: ShareSessions, group_id: str, member_id: str, epoch: int) -> ShareSession:
    if epoch == FIRST_EPOCH:
        raise ShareSessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = sessions.find(group_id, member_id)
    if epoch != FINAL_EPOCH:
        sessions.move_on(session, epoch)
    return session
