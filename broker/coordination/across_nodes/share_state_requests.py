"""Requests to share coordinators in other nodes: one of each kind to a node at a time, and what comes meanwhile goes
together with the next one, as in Kafka: requests on a connection wait for one another, and each for a commit.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.coordination.across_nodes.denials import Denials, denied_parts
from broker.peers.port import Peers, PeerUnreachable
from coordinator.cluster.leaders import NOBODY
from coordinator.share_state.kept import ShareKey
from protocol.errors import ErrorCode
from protocol.messages.share import state as said

AT_ONCE = 64
"""Share partitions of one request: as many as who is asked works on at a time."""

Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class Kind:
    """All have the same form: partitions of topics of a group, and a result for each."""

    request: type[Any]
    topic: type[Any]
    response: type[Any]
    version: int


INITIALIZE = Kind(
    said.InitializeShareGroupStateRequest, said.InitializeStateData, said.InitializeShareGroupStateResponse, 0
)
READ = Kind(said.ReadShareGroupStateRequest, said.ReadStateData, said.ReadShareGroupStateResponse, 0)
WRITE = Kind(said.WriteShareGroupStateRequest, said.WriteStateData, said.WriteShareGroupStateResponse, 1)
DELETE = Kind(said.DeleteShareGroupStateRequest, said.DeleteStateData, said.DeleteShareGroupStateResponse, 0)
SUMMARIZE = Kind(
    said.ReadShareGroupStateSummaryRequest, said.ReadStateSummaryData, said.ReadShareGroupStateSummaryResponse, 1
)
"""In the versions that nodes speak among each other."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    key: ShareKey
    data: Any
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, told: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(told)


class ShareStateRequests:
    """See the head of this file. `own` runs work in a task of the node's."""

    def __init__(self, peers: Peers, own: Own) -> None:
        self._peers = peers
        self._own = own
        self._denials: dict[Kind, Denials] = {}
        self._waiting: dict[tuple[int, Kind], list[_Waiting]] = {}
        """By the node that is asked; there is an entry while somebody asks it."""

    async def ask(self, leader: int, kind: Kind, key: ShareKey, data: Any) -> Any:
        """The result for one share partition, `data` being what is asked of it; or an error code where nothing was
        answered. What may have been done is done again by who asks again: each has the same effect once and twice."""
        if leader == NOBODY:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        one = _Waiting(key, data)
        if (leader, kind) in self._waiting:
            self._waiting[leader, kind].append(one)
        else:
            self._waiting[leader, kind] = [one]
            self._own(self._tell(leader, kind))
        return await one.answer

    async def _tell(self, leader: int, kind: Kind) -> None:
        try:
            while waiting := self._waiting[leader, kind]:
                together, self._waiting[leader, kind] = _together(waiting)
                await self._send(leader, kind, together)
        finally:
            for one in self._waiting.pop((leader, kind)):
                one.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _send(self, leader: int, kind: Kind, together: Sequence[_Waiting]) -> None:
        topics: dict[bytes, list[Any]] = {}
        for one in together:
            topics.setdefault(one.key.topic_id, []).append(one.data)
        named = [kind.topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]
        request = kind.request(group_id=together[0].key.group_id, topics=named)
        told: dict[tuple[bytes, int], Any] = {}
        missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            response = await self._peers.ask(leader, request, kind.version, kind.response)
            missing = ErrorCode.INVALID_REQUEST  # nothing is answered of a group without a name
            denials = self._denials.setdefault(kind, Denials(kind.request.__name__.removesuffix("Request")))
            denied = denied_parts(response)
            denials.answered(leader, *(part.error_code for part in denied))
            for part in denied:
                part.error_code, part.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, None
            for topic in response.results:
                told.update(((bytes(topic.topic_id), one.partition), one) for one in topic.partitions)
        except PeerUnreachable:
            pass
        finally:
            for one in together:
                one.settle(told.get((one.key.topic_id, one.key.partition), missing))


def _together(waiting: Sequence[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """What one request can hold, and the rest, in the order of asking: it is of one group, and names a share partition
    once."""
    keys: set[ShareKey] = set()
    together: list[_Waiting] = []
    rest: list[_Waiting] = []
    for one in waiting:
        fits = len(together) < AT_ONCE and one.key.group_id == waiting[0].key.group_id and one.key not in keys
        (together if fits else rest).append(one)
        keys.add(one.key)
    return together, rest
