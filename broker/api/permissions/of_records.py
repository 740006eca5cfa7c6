"""What Produce and Fetch need.

Fetch asks for itself: what is read stands in its session and not in each request.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import RequestContext
from broker.api.permissions.need import Call, Guard, Need, Permissions, WithAuthorizer, asks_itself, permissions_of
from protocol.acls import Operation, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import HEADER_SIZE, TRANSACTIONAL, read_header

IDS_SINCE = 13
AT_ONCE = 64
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

WRITE_ID = Need(
    Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ID_DENIED, "the transactional id, if a batch is of a transaction"
)
WRITE = Need(Operation.WRITE, ResourceType.TOPIC, TOPIC_DENIED, "each topic")
READ = Need(Operation.READ, ResourceType.TOPIC, TOPIC_DENIED, "each topic")
FOLLOW = Need(
    Operation.CLUSTER_ACTION, ResourceType.CLUSTER, TOPIC_DENIED, "instead of Read, where a replica id is given"
)

FETCH = asks_itself(READ, FOLLOW, also="Asked anew for each Fetch of a session.")


class Readable:
    """The topics that the client of one Fetch may read; each is asked for once."""

    __slots__ = ("_known", "_permissions")

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._known: dict[str, bool] = {}

    def includes(self, topic: str) -> bool:
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._permissions.have(READ, topic)
        return known


class _NothingReadable(Readable):
    """Who gives a replica id without being let in as a broker reads nothing."""

    def includes(self, topic: str) -> bool:
        return False


def readable(services: WithAuthorizer, context: RequestContext, request: FetchRequest) -> Readable | None:
    """None where everything is."""
    permissions = permissions_of(services, context, "Fetch")
    if permissions is None:
        return None
    if max(request.replica_id, request.replica_state.replica_id) < 0:
        return Readable(permissions)
    return None if permissions.have(FOLLOW) else _NothingReadable(permissions)


def _produce(call: Call, request: ProduceRequest) -> Any:
    """In one step: the topics of a request that has many of them are nearly always few."""
    permissions, transactional_id = call.permissions, request.transactional_id
    if transactional_id is not None and _is_transactional(request) and not permissions.have(WRITE_ID, transactional_id):
        return _refused(request, request.topic_data, ID_DENIED)
    denied: list[TopicProduceData] = []
    for topic in request.topic_data:
        name = topic.name
        if call.context.api_version >= IDS_SINCE:
            known = call.services.topics.by_id(topic.topic_id)
            if known is None:  # nobody's: the handler says so
                continue
            name = known.name
        if not permissions.have(WRITE, name):
            denied.append(topic)
    if not denied:
        return call.handled(request)
    are_denied = {id(topic) for topic in denied}
    request.topic_data = [topic for topic in request.topic_data if id(topic) not in are_denied]
    if not request.topic_data:
        return _refused(request, denied, TOPIC_DENIED)
    return _with_refused(call.handled(request), request, denied)


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if isinstance(records, memoryview) and len(records) >= HEADER_SIZE:
                header = read_header(records)
                if header is not None and header.attributes & TRANSACTIONAL:
                    return True
    return False


def _refused(request: ProduceRequest, topics: list[TopicProduceData], error: ErrorCode) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnection(f"a Produce with acks=0 failed: {error.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def _with_refused(result: Any, request: ProduceRequest, denied: list[TopicProduceData]) -> Any:
    if isinstance(result, Deferred):
        return Deferred(_added(result.answer, request, denied))
    if isawaitable(result):
        return _added(result, request, denied)
    if result is NO_ANSWER:  # what was allowed is written, and the client is told that not all was
        raise CloseConnection(f"a Produce with acks=0 failed: {TOPIC_DENIED.name}")
    result.responses += _refused(request, denied, TOPIC_DENIED).responses
    return result


async def _added(answer: Awaitable[Any], request: ProduceRequest, denied: list[TopicProduceData]) -> Any:
    return _with_refused(await answer, request, denied)


PRODUCE = Guard((WRITE_ID, WRITE), _produce)
