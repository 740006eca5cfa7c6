"""A partition of `__transaction_state` goes to another node: who had it knows nothing of its transactions any more."""

from pathlib import Path

from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from tests.unit.across_nodes.three_nodes import ThreeNodes, until, with_three_nodes
from tests.unit.transactions.node_rig import end, init, produce


def test_who_coordinated_before_has_given_all_of_it_up(tmp_path: Path) -> None:
    """KAFKA-9235: it was kept, and answered from. A coordinator that comes back loads what was written meanwhile."""

    async def story(nodes: ThreeNodes) -> None:
        first, second = nodes.others()
        before, after = nodes.by_id[first], nodes.by_id[second]
        await nodes.make_topic("t", second)
        await nodes.coordinate_transactions_at(first)
        identity = await init(before)
        assert await produce(after, identity) is ErrorCode.NONE
        assert len(before.transactions.all()) == 1 and not after.transactions.all()
        await nodes.coordinate_transactions_at(second)
        await until(lambda: not before.transactions.all())
        assert before.transactions.transaction_of("tx") is None
        refused = await end(before, identity, commit=True)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        assert (await end(after, identity, commit=True)).error_code == ErrorCode.NONE
        assert await after.transactions.wait_until_completed("tx", 30)
        await nodes.coordinate_transactions_at(first)
        await until(lambda: not after.transactions.all() and len(before.transactions.all()) == 1)
        await until(lambda: before.transactions.transaction_of("tx") is not None)
        transaction = before.transactions.transaction_of("tx")
        assert transaction is not None
        assert transaction.state is TransactionState.COMPLETE_COMMIT

    with_three_nodes(story, tmp_path)
