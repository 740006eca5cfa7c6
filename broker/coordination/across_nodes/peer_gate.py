"""Asking the coordinators of transactional ids that another node has: AddPartitionsToTxn in its form for brokers.

Requests on a connection wait for one another, and each for a commit: one goes to a node at a time, and what comes
meanwhile goes together with the next one, as in Kafka. Each transaction has an answer of its own. One that has to wait
for the transaction before is held there for a moment only, for all that is behind it waits as well, and asked for anew.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.coordination.across_nodes.denials import Denials
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.coordinators import CoordinatorError
from broker.peers.port import Peers, PeerUnreachable
from coordinator.cluster.leaders import NOBODY
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TopicPartitions
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

ADD_PARTITIONS_TO_TXN = 5
"""The version that nodes speak among each other."""
AT_ONCE = 64
"""Transactions of one request: as many as who is asked works on at a time."""
TIMES = 5
"""How often a transaction is asked for, each time held; after that CONCURRENT_TRANSACTIONS, as in Kafka."""

Answers = dict[tuple[str, int], ErrorCode]
Own = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    transaction: AddPartitionsToTxnTransaction
    answer: "asyncio.Future[Answers]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, answers: Answers) -> None:
        if not self.answer.done():
            self.answer.set_result(answers)

    def refuse(self, error: ErrorCode) -> None:
        if not self.answer.done():
            self.answer.set_exception(CoordinatorError(error))


class PeerGate:
    """The way to coordinators in other nodes. `own` runs work in a task of the node's."""

    def __init__(self, nodes: Nodes, peers: Peers, own: Own) -> None:
        self._nodes = nodes
        self._peers = peers
        self._own = own
        self._denials = Denials("AddPartitionsToTxn")
        self._waiting: dict[int, list[_Waiting]] = {}
        """By the node that is asked; there is an entry while somebody asks it."""

    async def ask(
        self,
        leader: int,
        transactional_id: str,
        producer: Producer,
        partitions: Sequence[TopicPartitions],
        *,
        adds: bool,
    ) -> Answers:
        """What the coordinator in that node says of each partition: whether it belongs to the open transaction, or was
        added to it. Raises `CoordinatorError`."""
        if leader in (NOBODY, self._nodes.node_id):
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        topics = [
            AddPartitionsToTxnTopic(name=one.topic, partitions=list(one.partitions), topic_id=one.topic_id)
            for one in partitions
        ]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=not adds,
            topics=topics,
        )
        for _ in range(TIMES):
            answers = await self._put(leader, _Waiting(transaction))
            if ErrorCode.CONCURRENT_TRANSACTIONS not in answers.values() or not adds:
                break
        return answers

    def _put(self, leader: int, one: _Waiting) -> "asyncio.Future[Answers]":
        if leader in self._waiting:
            self._waiting[leader].append(one)
        else:
            self._waiting[leader] = [one]
            self._own(self._tell(leader))
        return one.answer

    async def _tell(self, leader: int) -> None:
        try:
            while waiting := self._waiting[leader]:
                together, self._waiting[leader] = _together(waiting)
                await self._send(leader, together)
        finally:
            for one in self._waiting.pop(leader):
                one.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _send(self, leader: int, together: Sequence[_Waiting]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[one.transaction for one in together])
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        told: dict[str, Answers] = {}
        try:
            response = await self._peers.ask(leader, request, ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnResponse)
            error = ErrorCode(response.error_code)
            self._denials.answered(leader, error)
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                error = ErrorCode.INVALID_TXN_STATE  # As in Kafka: it is not the client that is denied.
            for of_one in response.results_by_transaction:
                told[of_one.transactional_id] = {
                    (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
                    for topic in of_one.topic_results
                    for result in topic.results_by_partition
                }
        except PeerUnreachable:
            pass
        finally:
            for one in together:
                if error is ErrorCode.NONE:
                    one.settle(told.get(one.transaction.transactional_id, {}))
                else:
                    one.refuse(error)


def _together(waiting: Sequence[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """What one request can hold, and the rest, in the order of asking: its answer names transactions by their ids."""
    ids: set[str] = set()
    together: list[_Waiting] = []
    rest: list[_Waiting] = []
    for one in waiting:
        transactional_id = one.transaction.transactional_id
        (together if len(together) < AT_ONCE and transactional_id not in ids else rest).append(one)
        ids.add(transactional_id)
    return together, rest
