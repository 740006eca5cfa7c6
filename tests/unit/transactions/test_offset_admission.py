"""The gate of TxnOffsetCommit: what was true when the wait began has to be true when it is over."""

from typing import Any

import pytest

from broker import transaction_gate
from broker.node import Node
from broker.transaction_gate import admit_offset_commit
from protocol.errors import ErrorCode
from tests.unit.transactions.node_rig import end, in_a_node, init


def test_a_transaction_that_ends_while_offsets_are_admitted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I43, KAFKA-15449: the partition was added, and the transaction ended before the group could be asked. Offsets
    staged now would belong to no transaction, and stay unstable for good."""
    add = transaction_gate.add_to_transaction

    async def story(node: Node) -> None:
        identity = await init(node)

        async def add_then_end(*arguments: Any, **options: Any) -> ErrorCode:
            error = await add(*arguments, **options)
            assert (await end(node, identity, commit=False)).error_code == ErrorCode.NONE
            return error

        monkeypatch.setattr(transaction_gate, "add_to_transaction", add_then_end)
        admitted = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 5)
        assert admitted == ErrorCode.CONCURRENT_TRANSACTIONS

    in_a_node(story, tmp_path)
