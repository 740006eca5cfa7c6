"""Responses to operators while coordinators load: nothing that is not known, and nothing is torn."""

from typing import Any

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.node import Node
from coordinator.machine import Outcome
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest, ListGroupsRequest
from protocol.messages.transactions import ListTransactionsRequest
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, operators_abort, partitions_of, produce


def test_listings_before_shards_are_open_say_so(tmp_path: Any) -> None:
    """An empty list with NONE would say that there are no groups and no transactions."""

    async def story(node: Node) -> None:
        node.groups.close()
        node.transactions.close()
        groups = await ask(node, ListGroupsRequest(), 5)
        transactions = await ask(node, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 2)
        assert groups.error_code == transactions.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    in_a_node(story, tmp_path)


def test_an_operator_tears_no_transaction_while_shards_load(tmp_path: Any) -> None:
    """A marker straight into the partition would let the client commit the other half (decision 0003)."""

    async def story(node: Node) -> None:
        identity = await init(node)
        for index in (0, 1):
            assert await produce(node, identity, index=index) is ErrorCode.NONE
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        ends = [partition.end_offset for partition in partitions_of(node)]
        shard.reload()
        assert await operators_abort(node, identity) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [partition.end_offset for partition in partitions_of(node)] == ends
        await node.transactions.wait_until_loaded()
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)


def test_an_operator_is_told_to_come_again_where_the_shard_goes_under_the_abort(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when the transaction was looked up."""

    async def story(node: Node) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE

        async def gone(*_: object) -> Any:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)

        with monkeypatch.context() as patched:
            patched.setattr(node.transactions, "ask", gone)
            assert await operators_abort(node, identity) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)


def test_a_request_is_not_held_for_a_shard_that_is_gone(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears 51 as it was decided; asked again, it would be another answer."""
    asked: list[str] = []

    async def story(node: Node) -> None:
        async def ask_once(name: str, _: object) -> ErrorCode:
            asked.append(name)
            node.transactions.close()
            return ErrorCode.CONCURRENT_TRANSACTIONS

        monkeypatch.setattr(node.transactions, "ask", ask_once)
        answer: ErrorCode = await node.transactions.ask_held("tx", lambda machine, ticket, now_ms: Outcome())
        assert answer is ErrorCode.CONCURRENT_TRANSACTIONS

    in_a_node(story, tmp_path)
    assert asked == ["tx"]


def test_a_log_that_a_stop_leaves_closed_gets_no_shard(tmp_path: Any) -> None:
    """It would be an empty one, that answers for ids of which it knows nothing."""

    async def story(node: Node) -> None:
        topic = node.topics.by_name("__transaction_state")
        assert topic is not None
        node.topics.to_open.stop()
        closed = len(topic.partitions)
        topic.partitions.grow(closed + 1)
        key = next(name for name in map(str, range(10_000)) if node.transactions.partition_for(name) == closed)
        found = await ask(node, FindCoordinatorRequest(key_type=1, coordinator_keys=[key]), 4)
        assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert node.transactions.shard(closed) is None

    in_a_node(story, tmp_path)
