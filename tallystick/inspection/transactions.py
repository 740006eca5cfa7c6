"""Transactional ids, the producers of partitions, and the two ways to end a transaction that is not one's own.

`force_terminate` is for one that its coordinator holds open: whoever held it is fenced (as by `Admin.fenceProducers`).
`abort_in_partition` is for one that hangs: no coordinator knows of it (KIP-664).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tallystick.client.client import TRANSACTION, Client
from tallystick.client.errors import KafkaError, UnsupportedByBroker, check
from tallystick.inspection.places import Failed, Place, by_leader, by_topic, settle

ONGOING = "Ongoing"
DECIDED = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which a transaction holds its partitions, and its markers are on their way."""
_DURATION_SINCE, _PATTERN_SINCE = 1, 2
"""Versions of ListTransactions."""
_FENCE_TIMEOUT_MS = 1
"""Of the transactions that nobody is going to begin with the new epoch; as Java's admin client has it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Described:
    """A transactional id, as its coordinator describes it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    """Since 1970; None where nothing is open."""
    places: tuple[Place, ...]

    @property
    def is_open(self) -> bool:
        """Whether it holds readers of committed records."""
        return self.state == ONGOING or self.state in DECIDED

    def left_ms(self, now_ms: int) -> int | None:
        """Until its coordinator aborts it. None where it has not begun, or is decided."""
        if self.started_ms is None or self.state != ONGOING:
            return None
        return self.started_ms + self.timeout_ms - now_ms


async def listed(
    client: Client, *, producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[Listed]:
    """What all coordinators list, by transactional id. Raises `UnsupportedByBroker` where a broker does not know a
    filter (KIP-994, KIP-1152)."""

    async def attempt() -> list[Listed]:
        found = []
        for broker in (await client.metadata([])).brokers:
            node = await client.node(broker.node_id)
            needed = _PATTERN_SINCE if pattern is not None else _DURATION_SINCE if duration_ms >= 0 else 0
            if node.version_for(ListTransactionsRequest) < needed:
                raise UnsupportedByBroker(f"node {broker.node_id} does not list transactions by duration or pattern")
            request = ListTransactionsRequest(
                state_filters=[],
                producer_id_filters=list(producer_ids),
                duration_filter=duration_ms,
                transactional_id_pattern=pattern,
            )
            said: ListTransactionsResponse = await node.ask(request)
            check(said.error_code)  # a coordinator that still loads lists nothing at all
            found += [
                Listed(one.transactional_id, broker.node_id, one.producer_id, one.transaction_state)
                for one in said.transaction_states
            ]
        return sorted(found, key=lambda one: one.transactional_id)

    return await client.patiently(attempt)


async def described(client: Client, transactional_id: str) -> Described | None:
    """None where its coordinator does not know it."""

    async def attempt() -> Described | None:
        coordinator = await client.coordinator(transactional_id, TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer: DescribeTransactionsResponse = await coordinator.ask(request)
        (found,) = answer.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        check(found.error_code, transactional_id)
        return Described(
            transactional_id=transactional_id,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            state=found.transaction_state,
            timeout_ms=found.transaction_timeout_ms,
            started_ms=found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
            places=tuple(sorted((topic.topic, number) for topic in found.topics for number in topic.partitions)),
        )

    return await client.patiently(attempt)


async def producers_of(
    client: Client, wanted: Sequence[Place], failed: Failed | None = None
) -> dict[Place, list[ProducerState]]:
    """What the leaders of partitions know of those who wrote to them."""
    found: dict[Place, list[ProducerState]] = {}
    async for leader, its in by_leader(client, wanted, failed):
        topics = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(its).items()]
        answer: DescribeProducersResponse = await leader.ask(DescribeProducersRequest(topics=topics))
        for topic in answer.topics:
            for one in topic.partitions:
                place = topic.name, one.partition_index
                if settle(place, one.error_code, one.error_message, failed):
                    found[place] = one.active_producers
    return found


async def force_terminate(client: Client, transactional_id: str) -> Described | None:
    """End what is open of a transactional id (aborted, or settled as it was decided) and fence its holder, which fails
    with its next request. What was open; None: nothing was, and nothing was done."""
    found = await described(client, transactional_id)
    if found is None or not found.is_open:
        return None
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCE_TIMEOUT_MS)

    async def attempt() -> None:
        coordinator = await client.coordinator(transactional_id, TRANSACTION)
        answer: InitProducerIdResponse = await coordinator.ask(request)
        check(answer.error_code, transactional_id)

    await client.patiently(attempt)
    return found


async def abort_in_partition(client: Client, place: Place, start_offset: int) -> ProducerState:
    """Write an abort marker for the transaction that began at this offset of the partition; whose it was. Raises
    `KafkaError` where no open transaction did (INVALID_TXN_STATE), or the broker refuses it."""
    (producers,) = (await producers_of(client, [place])).values()
    one = next((one for one in producers if one.current_txn_start_offset == start_offset), None)
    name = f"{place[0]}-{place[1]}"
    if one is None or start_offset < 0:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"no open transaction of {name} began at {start_offset}")
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place[0], partition_indexes=[place[1]])],
        coordinator_epoch=max(one.coordinator_epoch, 0),
    )
    leader = await client.leader(*place)
    answer: WriteTxnMarkersResponse = await leader.ask(WriteTxnMarkersRequest(markers=[marker]))
    check(answer.markers[0].topics[0].partitions[0].error_code, name)
    return one
