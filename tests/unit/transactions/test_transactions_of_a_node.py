"""AddPartitionsToTxn as another node sends it: for many transactions, none of which waits for the others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.handlers.transactions import AT_ONCE
from broker.api.services import Services
from broker.coordination.transactions import HOLD_MS, HOLD_OF_A_NODE_MS
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.unit.transactions.node_rig import ask, in_a_node, init


def transaction(name: str) -> AddPartitionsToTxnTransaction:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
    return AddPartitionsToTxnTransaction(transactional_id=name, producer_id=7, producer_epoch=0, topics=topics)


def test_many_share_a_commit(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: Services) -> None:
        begun: list[tuple[str, int]] = []
        durable = asyncio.Event()

        async def ask_held(name: str, operation: Callable[..., Any], hold_ms: int) -> ErrorCode:
            begun.append((name, hold_ms))
            await durable.wait()
            return ErrorCode.NONE

        monkeypatch.setattr(node.transactions, "ask_held", ask_held)
        names = [f"tx-{number}" for number in range(AT_ONCE + 1)]
        asked = asyncio.create_task(ask(node, AddPartitionsToTxnRequest(transactions=[*map(transaction, names)]), 5))
        while len(begun) < AT_ONCE:
            await asyncio.sleep(0)
        # One whose slice of time is over is begun behind others.
        assert sorted(begun) == sorted((name, HOLD_OF_A_NODE_MS) for name in names[:AT_ONCE])
        durable.set()
        answer = await asked
        assert [one.transactional_id for one in answer.results_by_transaction] == names
        of_a_client = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=7,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await ask(node, of_a_client, 3)
        assert begun[-1] == ("tx", HOLD_MS)

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("verify_only", [False, True])
def test_a_topic_that_was_made_anew_is_another_one(verify_only: bool, tmp_path: Any) -> None:
    """One of two nodes knows of it already. The marker of the topic before goes to nobody, and what was written into
    the new one would be ended by the next transaction of its producer, as that ends."""

    async def story(node: Services) -> None:
        identity = await init(node)
        here = node.topics.by_name("t")
        assert here is not None

        async def asked(topic_id: bytes, *, verify_only: bool) -> int:
            one = transaction("tx")
            one.producer_id, one.producer_epoch = identity.producer_id, identity.producer_epoch
            one.verify_only, one.topics[0].topic_id = verify_only, topic_id
            answer = await ask(node, AddPartitionsToTxnRequest(transactions=[one]), 5)
            (result,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
            return int(result.partition_error_code)

        assert await asked(here.topic_id, verify_only=False) == ErrorCode.NONE
        for known in (here.topic_id, bytes(16)):
            assert await asked(known, verify_only=verify_only) == ErrorCode.NONE
        another = await asked(b"another".ljust(16), verify_only=verify_only)
        assert another == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    in_a_node(story, tmp_path)
