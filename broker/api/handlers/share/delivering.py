"""Records for one ShareFetch: looking at the partitions of its session until one has some, or the time is over."""

from dataclasses import dataclass, field
from typing import Protocol

from broker.api.context import RequestContext
from broker.api.handlers.share.acknowledging import PartitionFinder, ShareServices
from broker.api.share_sessions import PartitionKey, ShareSession
from broker.api.waiting import Movements, WaitingRoom
from broker.partitions.errors import storage_error
from broker.partitions.share.acquiring import Wish
from broker.partitions.share.share_partition import Delivery, SharePartition
from broker.process.logging import EventLog
from broker.process.memory_budget import AnswerBudget
from protocol.errors import ErrorCode
from protocol.messages.share.fetch import ShareFetchRequest
from storage.log import LogDamaged

_log = EventLog("share_groups")

RECORD_LIMIT = 1
"""The acquire mode in which a member is never handed more records than it wants."""
ACQUIRE_MODES = (0, RECORD_LIMIT)


class FetchingServices(ShareServices, Protocol):
    """What ShareFetch uses of the node."""

    @property
    def waiting(self) -> WaitingRoom: ...

    @property
    def answer_budget(self) -> AnswerBudget: ...


@dataclass(slots=True)
class Delivered:
    """What a member is handed, and what is wrong with partitions. `error`: of the whole request."""

    looked_at: list[PartitionKey] = field(default_factory=list)
    deliveries: dict[PartitionKey, Delivery] = field(default_factory=dict)
    errors: dict[PartitionKey, ErrorCode] = field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE
    count: int = 0
    size_bytes: int = 0


class Delivering:
    """See the head of this file."""

    def __init__(
        self,
        services: FetchingServices,
        context: RequestContext,
        request: ShareFetchRequest,
        finder: PartitionFinder,
        session: ShareSession,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._finder = finder
        self._session = session
        self._slice = services.environment.time_slice()
        most_bytes = min(request.max_bytes, services.config.get_int("fetch.max.bytes"))
        if context.charge is not None:
            most_bytes = context.charge.fetch_limit(most_bytes)
        self._most_bytes = most_bytes
        self._min_bytes = min(request.min_bytes, most_bytes)

    async def run(self) -> Delivered:
        """Wait until there is something."""
        services, now_ms = self._services, self._services.environment.monotonic_ms
        deadline_ms = now_ms() + self._request.max_wait_ms
        topics = services.topics
        await topics.to_open.wait_a_moment((topics.by_id(topic_id), index) for topic_id, index in self._session.wanted)
        while True:
            delivered = Delivered(self._in_turn())
            with Movements() as movements:
                ready = await self._look(delivered, movements)
                left_ms = deadline_ms - now_ms()
                is_last = left_ms <= 0 or services.waiting.closed
                if is_last or await self._are_enough(ready):
                    await self._deliver(delivered, ready)
                if self._session.ended:  # its client has gone, or has begun another
                    delivered.error = ErrorCode.SHARE_SESSION_NOT_FOUND
                all_failed = len(delivered.errors) == len(delivered.looked_at)
                if delivered.error or delivered.deliveries or is_last or all_failed:
                    break
                await services.waiting.park([movements], lambda last: True, left_ms)
        if self._context.charge is not None:
            self._context.charge.fetched(delivered.size_bytes)
        return delivered

    def _in_turn(self) -> list[PartitionKey]:
        """Another partition comes first each time, so that none of them takes all of the room."""
        wanted = list(self._session.wanted)
        first = self._session.epoch % len(wanted) if wanted else 0
        return wanted[first:] + wanted[:first]

    async def _look(self, delivered: Delivered, movements: Movements) -> dict[PartitionKey, SharePartition]:
        """Those that records may be had of; they and the others are watched from now on."""
        ready: dict[PartitionKey, SharePartition] = {}
        share_partitions = self._services.share_partitions
        for key in delivered.looked_at:
            found = self._finder.find(key)
            if self._session.ended:
                break
            if isinstance(found, ErrorCode):
                delivered.errors[key] = found
                continue
            share_partition = share_partitions.of(self._session.group_id, found)
            movements.add(found)
            movements.add(share_partition)
            if share_partition.begin():
                ready[key] = share_partition
            elif share_partition.error:
                delivered.errors[key] = share_partition.error
                share_partitions.let_go(share_partition)
            await self._slice.give_way()
        return ready

    async def _are_enough(self, ready: dict[PartitionKey, SharePartition]) -> bool:
        """Whether `min_bytes` are there."""
        size_bytes = 0
        if self._min_bytes > 1:
            for share_partition in ready.values():
                size_bytes += share_partition.readable_bytes(self._min_bytes)
                if size_bytes >= self._min_bytes:
                    break
                await self._slice.give_way()
        return size_bytes >= self._min_bytes or self._min_bytes <= 1

    async def _deliver(self, delivered: Delivered, ready: dict[PartitionKey, SharePartition]) -> None:
        room = self._services.answer_budget.fetch_limit(self._most_bytes)
        for key, share_partition in ready.items():
            left = self._request.max_records - delivered.count
            if self._session.ended or left <= 0 or (delivered.size_bytes >= room and delivered.deliveries):
                return
            self._deliver_of(delivered, key, share_partition, left, room - delivered.size_bytes)
            await self._slice.give_way()

    def _deliver_of(
        self, delivered: Delivered, key: PartitionKey, share_partition: SharePartition, left: int, room: int
    ) -> None:
        request = self._request
        strictly = request.share_acquire_mode == RECORD_LIMIT
        wish = Wish(self._session.member_id, left, request.batch_size, strictly)
        try:
            delivery = share_partition.acquire(wish, max(0, room), at_least_one=not delivered.deliveries)
        except LogDamaged as damaged:
            delivered.errors[key] = storage_error(damaged)
            return
        except OSError as error:
            _log.error("a partition cannot be read", partition=share_partition.partition.name, reason=error)
            delivered.errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
            return
        if delivery is not None:
            delivered.deliveries[key] = delivery
            delivered.count += delivery.count
            delivered.size_bytes += delivery.size_bytes
