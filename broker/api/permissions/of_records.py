"""What Produce and Fetch need.

Fetch asks for itself: what is read stands in its session and not in each request.
"""

from collections.abc import Awaitable, Iterable
from inspect import isawaitable
from typing import Any

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import RequestContext
from broker.api.permissions.need import (
    Call,
    Guard,
    Need,
    Permissions,
    WithAuthorizer,
    asks_itself,
    permissions_of,
    sift,
)
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
"""Topics and partitions of a request that is looked at in one go."""
NOT_ALL = "a Produce with acks=0 was not allowed whole"
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

FETCH = asks_itself(
    READ,
    FOLLOW,
    also="Asked anew for each Fetch of a session, of what may have something new; of all when ACLs change.",
)


class Readable:
    """The topics that the client of one Fetch may read; each is asked for once."""

    __slots__ = ("_known", "_permissions")

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._known: dict[str, bool] = {}

    @property
    def state(self) -> object:
        """As long as it is equal, the same principal may read the same."""
        return self._permissions.state

    def includes(self, topic: str | None) -> bool:
        """None stands for an id that is nobody's: it is known to be one."""
        if topic is None:
            return True
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._permissions.have(READ, topic)
        return known


class _NothingReadable(Readable):
    """Who gives a replica id without being let in as a broker reads nothing."""

    @property
    def state(self) -> object:
        return None, self._permissions.state

    def includes(self, topic: str | None) -> bool:
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
    """At once, as nearly always; a request for many partitions in slices."""
    if sum([1 + len(topic.partition_data) for topic in request.topic_data]) > AT_ONCE:
        return _produce_in_slices(call, request)
    if _may_not_write_as(call, request.transactional_id, map(_is_transactional, request.topic_data)):
        return _answered(request, [_refused_topic(topic, ID_DENIED) for topic in request.topic_data])
    denied = [topic for topic in request.topic_data if not _may_write(call, topic)]
    if not denied:
        return call.handled(request)
    are_denied = {id(topic) for topic in denied}
    request.topic_data = [topic for topic in request.topic_data if id(topic) not in are_denied]
    refused = [_refused_topic(topic, TOPIC_DENIED) for topic in denied]
    return _with_refused(call.handled(request), refused) if request.topic_data else _answered(request, refused)


async def _produce_in_slices(call: Call, request: ProduceRequest) -> Any:
    time_slice = call.time_slice()
    transactional = await time_slice.each(_is_transactional, request.topic_data)
    if _may_not_write_as(call, request.transactional_id, transactional):
        refused = await time_slice.each(lambda topic: _refused_topic(topic, ID_DENIED), request.topic_data)
        return _answered(request, refused)
    request.topic_data, denied = await sift(request.topic_data, lambda topic: _may_write(call, topic), time_slice)
    if not denied:
        return await call.answer(request)
    refused = await time_slice.each(lambda topic: _refused_topic(topic, TOPIC_DENIED), denied)
    return _with_refused(await call.answer(request), refused) if request.topic_data else _answered(request, refused)


def _may_not_write_as(call: Call, transactional_id: str | None, transactional: Iterable[bool]) -> bool:
    """Without an id the handler refuses batches of a transaction by itself."""
    return transactional_id is not None and any(transactional) and not call.permissions.have(WRITE_ID, transactional_id)


def _may_write(call: Call, topic: TopicProduceData) -> bool:
    """An id that is nobody's is known to be one."""
    if call.context.api_version < IDS_SINCE:
        return call.permissions.have(WRITE, topic.name)
    known = call.services.topics.by_id(topic.topic_id)
    return known is None or call.permissions.have(WRITE, known.name)


def _is_transactional(topic: TopicProduceData) -> bool:
    for data in topic.partition_data:
        records = data.records
        if isinstance(records, memoryview) and len(records) >= HEADER_SIZE:
            header = read_header(records)
            if header.attributes & TRANSACTIONAL:
                return True
    return False


def _refused_topic(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ],
    )


def _answered(request: ProduceRequest, refused: list[TopicProduceResponse]) -> ProduceResponse:
    """An answer in which all is refused."""
    if request.acks == 0:
        raise CloseConnection(NOT_ALL)
    return ProduceResponse(responses=refused)


def _with_refused(result: Any, refused: list[TopicProduceResponse]) -> Any:
    if isinstance(result, Deferred):
        return Deferred(_added(result.answer, refused))
    if isawaitable(result):
        return _added(result, refused)
    if result is NO_ANSWER:  # what was allowed is written; that not all was, the client is told by this alone
        raise CloseConnection(NOT_ALL)
    result.responses += refused
    return result


async def _added(answer: Awaitable[Any], refused: list[TopicProduceResponse]) -> Any:
    return _with_refused(await answer, refused)


PRODUCE = Guard((WRITE_ID, WRITE), _produce)
