"""The handlers of transactions over a whole node without sockets: which requests are held or dropped, what survives."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.services import Services
from broker.config.broker_config import BrokerConfig
from broker.coordination.marker_writer import LocalMarkerWriter, UncommittedMarkers
from broker.coordination.transaction_gate import admit_offset_commit
from broker.disk.local_files import LocalFiles
from broker.node import Node
from broker.process.environment import RealEnvironment
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.topics import DeleteTopicState
from protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, operators_abort, partitions_of, produce


class HeldMarkers:
    """Keeps the news that markers are durable, until the test lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: list[Callable[[ErrorCode], None]] = []
        monkeypatch.setattr(
            UncommittedMarkers, "wait", lambda waits, partition, end_offset, done: self.kept.append(done)
        )

    def let_go(self) -> None:
        kept, self.kept = self.kept, []
        for done in kept:
            done(ErrorCode.NONE)


def test_an_early_request_is_held_and_then_admitted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold, do not bounce: an implicit add, a classic add and a new instance wait for COMPLETE, in this order."""

    async def story(node: Services) -> None:
        markers = HeldMarkers(monkeypatch)
        identity = await init(node)
        await produce(node, identity)
        identity = await end(node, identity, commit=True)
        early = [
            asyncio.create_task(produce(node, identity, index=0)),
            asyncio.create_task(produce(node, identity, index=1)),
        ]
        done, _ = await asyncio.wait(early, timeout=0.01)
        assert not done
        markers.let_go()
        assert [await task for task in early] == [ErrorCode.NONE, ErrorCode.NONE]
        markers.let_go()

    in_a_node(story, tmp_path)


def test_nobody_is_held_for_ever(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.6: after a tenth of a second 51, which a classic Produce, that is not held at all, hears as 19."""

    async def story(node: Services) -> None:
        markers = HeldMarkers(monkeypatch)
        identity = await init(node)
        await produce(node, identity)
        after = await end(node, identity, commit=True)
        assert await produce(node, after, version=12) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert not await node.transactions.wait_until_completed("tx", 0.001)
        assert not node.transactions._held, "who has left is not remembered"
        assert await admit_offset_commit(node, "tx", after.producer_id, after.producer_epoch, "g", 5) == 51
        assert (await init(node)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await produce(node, after, version=11, index=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        markers.let_go()
        assert await produce(node, after) == ErrorCode.NONE
        markers.let_go()

    in_a_node(story, tmp_path)


def test_an_operator_is_not_held_for_ever(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is decided when the abort is answered; its markers may take longer."""

    async def story(node: Services) -> None:
        markers = HeldMarkers(monkeypatch)
        identity = await init(node)
        assert await produce(node, identity) is ErrorCode.NONE
        assert await operators_abort(node, identity) is ErrorCode.NONE
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and transaction.state is TransactionState.PREPARE_ABORT
        markers.let_go()

    in_a_node(story, tmp_path)


def test_a_topic_deleted_and_made_again_gets_no_marker(tmp_path: Any) -> None:
    """I17: the transaction completes without it, and the new topic of the same name stays empty."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity)
        await node.topics.delete([DeleteTopicState(name="t", topic_id=bytes(16))])
        assert node.topics.by_name("t") is None
        await node.topics.auto_create_all(["t"])
        after = await end(node, identity, commit=True)
        assert after.error_code == 0
        assert await node.transactions.wait_until_completed("tx", 5)
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None
        assert transaction.state is TransactionState.COMPLETE_COMMIT
        assert [partition.end_offset for partition in partitions_of(node)] == [0, 0]

    in_a_node(story, tmp_path)


def test_an_operator_cannot_commit_what_the_coordinator_holds_open(tmp_path: Any) -> None:
    """§8.4: a marker past the coordinator would tear the transaction apart."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity)
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            transaction_result=True,
            topics=[
                WritableTxnMarkerTopic(name="t", partition_indexes=[0]),
                WritableTxnMarkerTopic(name="no", partition_indexes=[0]),
            ],
            coordinator_epoch=0,
        )
        answer = await ask(node, WriteTxnMarkersRequest(markers=[marker]), 2)
        codes = [topic.partitions[0].error_code for topic in answer.markers[0].topics]
        assert codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (await end(node, identity, commit=True)).error_code == 0

    in_a_node(story, tmp_path)


def test_a_disconnect_cancels_only_the_wait(tmp_path: Any) -> None:
    """I45: EndTxn is cancelled at its first await; the decision is made all the same."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity)
        await (partitions_of(node)[0].committed(1) or asyncio.sleep(0))
        ending = asyncio.create_task(end(node, identity, commit=True))
        await asyncio.sleep(0)
        ending.cancel()
        await node.transactions.wait_until_completed("tx", 5)
        assert (await end(node, identity, commit=True)).producer_epoch == 1
        assert (await end(node, identity, commit=False)).error_code == ErrorCode.INVALID_TXN_STATE

    in_a_node(story, tmp_path)


def test_a_node_that_died_between_the_decision_and_the_markers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I04, I14: the next start reads PREPARE, writes the markers and COMPLETE, and the data is there to be read."""
    values = {"log.dirs": str(tmp_path), "num.partitions": "2"}

    async def dies(node: Services) -> Any:
        for topic in ("__transaction_state", "__consumer_offsets"):
            await node.topics.ensure_internal(topic)
        await node.topics.auto_create_all(["t"])
        monkeypatch.setattr(LocalMarkerWriter, "write", lambda *arguments: None)
        identity = await init(node)
        await produce(node, identity)
        assert (await end(node, identity, commit=True)).error_code == 0
        monkeypatch.undo()
        return identity

    async def comes_back(node: Services, identity: Any) -> None:
        await node.transactions.wait_until_loaded()
        after = await end(node, identity, commit=True)
        while after.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            await node.transactions.wait_until_completed("tx", 5)
            after = await end(node, identity, commit=True)
        assert (after.error_code, after.producer_epoch) == (0, identity.producer_epoch + 1)
        assert [partition.last_stable_offset for partition in partitions_of(node)] == [2, 0]
        assert await produce(node, after) == ErrorCode.NONE

    async def run() -> None:
        identity = None
        for life in ("dies", "comes back"):
            environment = RealEnvironment(LocalFiles(str(tmp_path)), sync_threads=1)
            node = Node(BrokerConfig(values), environment)
            services = await node.start()
            await services.topics.wait_until_open()
            if life == "dies":
                identity = await dies(services)
                node.abandon()
            else:
                await comes_back(services, identity)
                await node.stop()
            environment.close()
            if isinstance(environment.files, LocalFiles):
                environment.files.close()

    asyncio.run(run())
