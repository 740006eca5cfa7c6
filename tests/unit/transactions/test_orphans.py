"""Open transactions that are found at a start, and whose they are by then."""

from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transactions import reconcile
from coordinator.transactions.states import TransactionState
from tests.unit.transactions.node_rig import in_a_node, init, partitions_of, produce


def test_what_has_begun_meanwhile_is_no_orphan(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are at work while orphans are looked for: what looks like one is looked up once more."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)
        shards, looks = node.transactions.all, list[int]()

        def not_yet() -> Any:
            looks.append(1)
            return [] if len(looks) == 1 else shards()

        monkeypatch.setattr(node.transactions, "all", not_yet)
        assert await reconcile(node) == 0
        partition, transaction = partitions_of(node)[0], node.transactions.transaction_of("tx")
        assert (partition.last_stable_offset, partition.end_offset) == (0, 1)
        assert transaction is not None and transaction.state is TransactionState.ONGOING
        assert len(looks) == 3

    in_a_node(story, tmp_path)
