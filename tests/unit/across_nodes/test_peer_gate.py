"""Asking the coordinator of a transactional id in another node."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.across_nodes.peer_gate import AT_ONCE, TIMES, Answers, PeerGate
from broker.coordination.coordinators import CoordinatorError
from coordinator.cluster.leaders import NOBODY
from coordinator.transactions.fencing import Producer
from coordinator.transactions.states import TopicPartitions
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.unit.across_nodes.rig import ME, OTHER, FakePeers, turns

WANTED = [TopicPartitions("a", b"a" * 16, (0, 1)), TopicPartitions("b", b"b" * 16, (2,))]


def answered(node: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """The second partition of each topic is not in the transaction."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=ErrorCode.TRANSACTION_ABORTABLE if number else ErrorCode.NONE,
                            )
                            for number, index in enumerate(topic.partitions)
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in request.transactions
        ]
    )


def ask(answer: Any, leader: int = OTHER, *, adds: bool = False) -> tuple[FakePeers, Any]:
    async def story() -> tuple[FakePeers, Any]:
        peers = FakePeers(answer)
        nodes: Any = SimpleNamespace(node_id=ME)
        found = await PeerGate(nodes, peers, asyncio.ensure_future).ask(leader, "tx", Producer(7, 3), WANTED, adds=adds)
        return peers, found

    return asyncio.run(story())


@pytest.mark.parametrize("adds", [False, True])
def test_each_partition_has_its_answer(adds: bool) -> None:
    peers, found = ask(answered, adds=adds)
    assert found == {
        ("a", 0): ErrorCode.NONE,
        ("a", 1): ErrorCode.TRANSACTION_ABORTABLE,
        ("b", 2): ErrorCode.NONE,
    }
    ((node, request, version),) = peers.asked
    (sent,) = request.transactions
    assert (node, version, sent.transactional_id, sent.verify_only) == (OTHER, 5, "tx", not adds)
    assert (sent.producer_id, sent.producer_epoch) == (7, 3)
    assert [(topic.name, topic.partitions) for topic in sent.topics] == [("a", [0, 1]), ("b", [2])]
    assert [topic.topic_id for topic in sent.topics] == [one.topic_id for one in WANTED]


@pytest.mark.parametrize("leader", [NOBODY, ME])
def test_where_no_other_node_has_it_nobody_is_asked(leader: int) -> None:
    """This one may hear of it any moment: it is no coordinator before that."""
    with pytest.raises(CoordinatorError) as refused:
        ask(answered, leader)
    assert refused.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_cannot_be_reached_may_be_asked_again() -> None:
    """Clients hear of no connection of ours (KAFKA-16386: NETWORK_EXCEPTION was told to them)."""
    with pytest.raises(CoordinatorError) as refused:
        ask(lambda node, request: None)
    assert refused.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_refusal_of_all_is_one() -> None:
    with pytest.raises(CoordinatorError) as refused:
        ask(lambda node, request: AddPartitionsToTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_that_nodes_may_not_ask_is_no_matter_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka. It is in the log, once."""
    denied = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def story() -> None:
        answers = [denied, denied, None, denied]
        nodes: Any = SimpleNamespace(node_id=ME)
        gate = PeerGate(
            nodes, FakePeers(lambda node, request: answers.pop(0) or answered(node, request)), asyncio.ensure_future
        )
        for is_denied in (True, True, False, True):
            try:
                await gate.ask(OTHER, "tx", Producer(7, 3), WANTED, adds=True)
            except CoordinatorError as refused:
                assert is_denied and refused.error is ErrorCode.INVALID_TXN_STATE
            else:
                assert not is_denied

    asyncio.run(story())
    told = [vars(one)["fields"] for one in caplog.records]
    assert told == [{"node": OTHER, "of": "AddPartitionsToTxn"}] * 2


class Several:
    """Transactions of many producers at one gate. `error_of` says what becomes of one, each time that it is asked."""

    def __init__(self, error_of: Callable[[str], ErrorCode] = lambda _: ErrorCode.NONE) -> None:
        self._error_of = error_of
        self.peers = FakePeers(self._answered)
        nodes: Any = SimpleNamespace(node_id=ME)
        self._gate = PeerGate(nodes, self.peers, asyncio.ensure_future)  # type: ignore[arg-type]

    def ask(self, name: str, index: int = 0, *, adds: bool = True) -> "asyncio.Task[Answers]":
        wanted = [TopicPartitions("a", b"a" * 16, (index,))]
        return asyncio.ensure_future(self._gate.ask(OTHER, name, Producer(7, 3), wanted, adds=adds))

    @property
    def asked(self) -> list[list[str]]:
        return [[one.transactional_id for one in request.transactions] for _, request, _ in self.peers.asked]

    def _answered(self, node: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        answer = answered(node, request)
        for one in answer.results_by_transaction:
            for topic in one.topic_results:
                for result in topic.results_by_partition:
                    result.partition_error_code = self._error_of(one.transactional_id)
        return answer


def test_transactions_that_come_meanwhile_go_with_the_next_request() -> None:
    async def story() -> None:
        several = Several()
        several.peers.gate.clear()
        waiting = [several.ask("first")]
        await turns()
        waiting += [several.ask(f"tx-{number}") for number in range(AT_ONCE + 1)]
        await turns()
        assert several.asked == [["first"]], "one request at a time"
        several.peers.gate.set()
        assert await asyncio.gather(*waiting) == [{("a", 0): ErrorCode.NONE}] * len(waiting)
        assert [len(one) for one in several.asked] == [1, AT_ONCE, 1]

    asyncio.run(story())


def test_a_transaction_is_never_twice_in_one_request() -> None:
    """Its answer names it by its id."""

    async def story() -> None:
        several = Several()
        several.peers.gate.clear()
        waiting = [several.ask("other"), *(several.ask("tx", index) for index in range(2))]
        await turns()
        waiting[1].cancel()
        several.peers.gate.set()
        assert await waiting[2] == {("a", 1): ErrorCode.NONE}
        assert several.asked == [["other", "tx"], ["tx"]]

    asyncio.run(story())


def test_what_waits_for_the_transaction_before_is_asked_for_again() -> None:
    """It was held there each time, and what was behind it goes on between."""
    busy = ErrorCode.CONCURRENT_TRANSACTIONS

    async def story() -> None:
        completes = [busy, busy, ErrorCode.NONE]
        several = Several(lambda name: completes.pop(0) if name == "soon" else ErrorCode.NONE)
        answers = await asyncio.gather(several.ask("soon"), several.ask("other"))
        assert answers == [{("a", 0): ErrorCode.NONE}] * 2
        assert several.asked == [["soon", "other"], ["soon"], ["soon"]]
        never = Several(lambda _: busy)
        assert await never.ask("tx") == {("a", 0): busy}
        assert len(never.asked) == TIMES
        assert await never.ask("tx", adds=False) == {("a", 0): busy}
        assert len(never.asked) == TIMES + 1, "who only looks has nothing to wait for"

    asyncio.run(story())
