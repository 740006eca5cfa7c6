"""Offsets of a transaction whose coordinator is in another node: what the partition has seen while that is asked."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transaction_gate import admit_offset_commit
from protocol.errors import ErrorCode
from protocol.internal_topics import CONSUMER_OFFSETS
from tests.unit.transactions.node_rig import in_a_node

PRODUCER_ID, EPOCH = 7, 3
VERSION = 4


class Gate:
    """The way to the other node, which says that the partition is in the transaction. `meanwhile` is done first."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    async def ask(self, *_: Any, **__: Any) -> dict[tuple[str, int], ErrorCode]:
        self._meanwhile()
        return {(CONSUMER_OFFSETS, index): ErrorCode.NONE for index in range(50)}


@pytest.mark.parametrize(("comes_back", "expected"), [(False, ErrorCode.NONE), (True, ErrorCode.NOT_COORDINATOR)])
def test_a_partition_that_was_closed_and_opened_again_takes_none(
    comes_back: bool, expected: ErrorCode, tmp_path: Any
) -> None:
    """Another node led it meanwhile, and may have written the marker that ends the transaction: offsets behind it would
    belong to none, and keep readers of the group waiting for good."""

    async def story(node: Services) -> None:
        find = node.topics.partition
        later: dict[str, Any] = {}

        def meanwhile() -> None:
            if comes_back:
                later[CONSUMER_OFFSETS] = object()

        topics = SimpleNamespace(
            by_name=node.topics.by_name,
            leader=lambda name, index: (2, 1),
            partition=lambda name, index: later.get(name, find(name, index)),
        )
        others: Any = SimpleNamespace(gate=Gate(meanwhile))
        transactions = SimpleNamespace(partition_for=node.transactions.partition_for, led=lambda index: False)
        beside = dataclasses.replace(
            node,
            others=others,
            topics=topics,  # type: ignore[arg-type]
            transactions=transactions,  # type: ignore[arg-type]
        )
        assert await admit_offset_commit(beside, "tx", PRODUCER_ID, EPOCH, "g", VERSION) is expected

    in_a_node(story, tmp_path)
