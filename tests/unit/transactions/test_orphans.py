"""Open transactions that are found at a start, and whose they are by then."""

from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transactions import reconcile
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.transactions import InitProducerIdResponse
from tests.unit.transactions.node_rig import batch, in_a_node, init, operators_abort, partitions_of, produce


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


def test_the_end_of_an_orphan_leaves_the_next_transaction_what_was_asked_for_it(tmp_path: Any) -> None:
    """KAFKA-18654: its epoch is that of the marker."""

    async def story(node: Services) -> None:
        partition, now_ms = partitions_of(node)[0], node.environment.wall_ms()
        orphan, following = (InitProducerIdResponse(producer_id=999_999, producer_epoch=epoch) for epoch in (3, 4))
        partition.append(batch(orphan), transactional_id="gone", verification=False, now_ms=now_ms)
        guard = partition.begin_verification(following.producer_id, following.producer_epoch, 0, True)
        assert await reconcile(node) == 1
        partition.append(batch(following), transactional_id="back", guard=guard, now_ms=now_ms)
        assert (partition.last_stable_offset, partition.end_offset) == (2, 3)

    in_a_node(story, tmp_path)


def test_what_has_ended_meanwhile_is_no_orphan(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator was quicker: a second marker would fence whoever has the epoch after it."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        stranger = InitProducerIdResponse(producer_id=999_999, producer_epoch=3)
        partition.append(
            batch(stranger), transactional_id="gone", verification=False, now_ms=node.environment.wall_ms()
        )
        wait, waits = node.transactions.wait_until_loaded, list[int]()

        async def ended() -> None:
            await wait()
            waits.append(1)
            if len(waits) == 2:
                assert await operators_abort(node, stranger) is ErrorCode.NONE

        monkeypatch.setattr(node.transactions, "wait_until_loaded", ended)
        assert await reconcile(node) == 0
        assert (partition.end_offset, partition.derived.producers.epoch(999_999)) == (2, 3)

    in_a_node(story, tmp_path)


def test_one_that_has_ended_meanwhile_hides_no_other(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Services) -> None:
        partition, now_ms = partitions_of(node)[0], node.environment.wall_ms()
        orphans = [InitProducerIdResponse(producer_id=900 + number, producer_epoch=3) for number in range(3)]
        for orphan in orphans:
            partition.append(batch(orphan), transactional_id="gone", verification=False, now_ms=now_ms)
        wait, waits = node.transactions.wait_until_loaded, list[int]()

        async def ended() -> None:
            await wait()
            waits.append(1)
            if len(waits) == 2:
                assert await operators_abort(node, orphans[1]) is ErrorCode.NONE

        monkeypatch.setattr(node.transactions, "wait_until_loaded", ended)
        assert await reconcile(node) == 2
        assert partition.last_stable_offset == partition.end_offset == 6
        assert "was refused" not in caplog.text

    in_a_node(story, tmp_path)
