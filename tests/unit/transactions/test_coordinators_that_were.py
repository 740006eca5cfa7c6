"""A coordinator that was replaced a moment ago, and does not know it: what it answers out of memory is asked for."""

from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.coordinators import CoordinatorError
from broker.coordination.transaction_gate import ProduceBatch, admitted_at_once
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.internal_topics import TRANSACTION_STATE
from tests.unit.transactions.node_rig import batch, end, in_a_node, init, partitions_of, produce


def test_what_was_written_needs_no_question_and_what_was_not_does(tmp_path: Any) -> None:
    async def story(node: Services) -> None:
        asked: list[str] = []
        is_ours = True

        async def confirm(partition: Partition) -> bool:
            asked.append(partition.topic)
            return is_ours

        node.transactions.confirm = confirm
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        assert asked == [], "an id, and a transaction that has begun: a commit that was refused would have said it"
        assert await produce(node, identity, version=11, index=1) is ErrorCode.TRANSACTION_ABORTABLE
        assert asked == [TRANSACTION_STATE], "that this partition is not in it was written nowhere"
        is_ours = False
        refused = await produce(node, identity, version=11, index=1)
        assert refused is ErrorCode.NOT_ENOUGH_REPLICAS, "so that the client looks for another coordinator"
        fenced = type(identity)(producer_id=identity.producer_id, producer_epoch=9)
        assert (await end(node, fenced, commit=True)).error_code == ErrorCode.NOT_COORDINATOR
        with pytest.raises(CoordinatorError, match="NOT_COORDINATOR"):
            await node.transactions.ask(
                "tx", lambda machine, ticket, now_ms: machine.describe(ticket, now_ms, transactional_id="tx")
            )

    in_a_node(story, tmp_path)


def test_of_several_nodes_nothing_is_admitted_without_a_question(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        batches = [ProduceBatch(partitions_of(node)[0], batch(identity, 1))]
        assert admitted_at_once(node, "tx", 11, batches)
        monkeypatch.setattr(Services, "peer_gate", object())
        assert not admitted_at_once(node, "tx", 11, batches)

    in_a_node(story, tmp_path)
