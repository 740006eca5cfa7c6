"""The handlers of transactions over a whole node without sockets: what clients of either protocol are told."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from broker.config import BrokerConfig
from broker.context import ConnectionInfo, RequestContext
from broker.environment import RealEnvironment
from broker.local_files import LocalFiles
from broker.marker_writer import LocalMarkerWriter, UncommittedMarkers
from broker.node import Node
from broker.transaction_gate import ProduceBatch, admit_offset_commit, admit_produce
from broker.transactions import reconcile
from coordinator.machine import Marker
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.topics import DeleteTopicState
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.record import NewRecord, build_batch
from protocol.schema import schema_of

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1)


def in_a_node(story: Callable[[Node], Coroutine[Any, Any, None]], tmp_path: Any, **settings: str) -> None:
    """Run a story against a fresh node in memory with the topic `t` of two partitions."""

    async def run() -> None:
        values = {"tallystick.in.memory": "true", "num.partitions": "2"}
        environment = RealEnvironment(LocalFiles(str(tmp_path)), sync_threads=1)
        node = Node(BrokerConfig(values | {key.replace("_", "."): text for key, text in settings.items()}), environment)
        await node.start()
        try:
            for topic in ("__transaction_state", "__consumer_offsets"):
                await node.topics.ensure_internal(topic)
            await node.topics.auto_create("t")
            await asyncio.wait_for(story(node), 20)
        finally:
            await node.stop()
            environment.close()

    asyncio.run(run())


async def ask(node: Node, request: Any, version: int) -> Any:
    key = schema_of(type(request)).api_key
    context = RequestContext(CONNECTION, key, version, 1, "test")
    answer = node.catalogue[key].handler(node, context, request)
    return await answer if isinstance(answer, Awaitable) else answer


async def init(node: Node, name: str = "tx", version: int = 4, **fields: Any) -> Any:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **fields)
    return await ask(node, request, version)


async def end(node: Node, identity: Any, *, commit: bool, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id="tx",
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=commit,
    )
    return await ask(node, request, version)


def batch(identity: Any, sequence: int = 0) -> memoryview:
    return memoryview(
        build_batch(
            [NewRecord(value=b"v", timestamp_ms=1)],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


async def produce(node: Node, identity: Any, *, version: int = 12, sequence: int = 0, index: int = 0) -> ErrorCode:
    """What the Produce handler does with one transactional batch."""
    partition = node.topics.partition("t", index)
    assert partition is not None
    records = batch(identity, sequence)
    (admission,) = await admit_produce(node, "tx", version, [ProduceBatch(partition, records)])
    if admission.error is ErrorCode.NONE:
        partition.append(
            records,
            transactional_id="tx",
            guard=admission.guard,
            verification=admission.verification,
            now_ms=node.environment.wall_ms(),
        )
    return admission.error


def partitions_of(node: Node) -> list[Any]:
    topic = node.topics.by_name("t")
    assert topic is not None
    return list(topic.partitions)


def test_transactions_one_after_the_other_never_hear_of_a_concurrent_one(tmp_path: Any) -> None:
    """Hold, do not bounce: the next transaction is let in when the one before is complete, and LSO follows."""

    async def story(node: Node) -> None:
        identity = await init(node)
        for number in range(5):
            for index in (0, 1):
                assert await produce(node, identity, index=index) == ErrorCode.NONE
            identity = await end(node, identity, commit=number % 2 == 0)
            assert identity.error_code == ErrorCode.NONE
            assert identity.producer_epoch == number + 1
        await node.transactions.wait_until_completed("tx", 5)
        await node.group_commit.wait_until_idle()
        for partition in partitions_of(node):
            assert partition.last_stable_offset == partition.end_offset == 10

    in_a_node(story, tmp_path)


def test_the_classic_protocol_adds_and_ends(tmp_path: Any) -> None:
    """Versions 0 and 1, as librdkafka and aiokafka speak them; 90 is 47 for them (§2.14)."""

    async def story(node: Node) -> None:
        old = await init(node, version=0)
        for committed in (True, False):
            added = await ask(
                node,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="tx",
                    v3_and_below_producer_id=old.producer_id,
                    v3_and_below_producer_epoch=old.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
                ),
                0,
            )
            results = added.results_by_topic_v3_and_below[0].results_by_partition
            assert [result.partition_error_code for result in results] == [0, 0]
            offsets = AddOffsetsToTxnRequest(
                transactional_id="tx", producer_id=old.producer_id, producer_epoch=old.producer_epoch, group_id="g"
            )
            assert (await ask(node, offsets, 0)).error_code == 0
            assert await produce(node, old, version=7, sequence=0 if committed else 1) == ErrorCode.NONE
            ended = await end(node, old, commit=committed, version=1)
            assert (ended.error_code, ended.producer_id) == (0, -1)
        new = await init(node)
        assert new.producer_epoch == old.producer_epoch + 1
        assert (await ask(node, offsets, 1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await ask(node, offsets, 2)).error_code == ErrorCode.PRODUCER_FENCED
        assert (await end(node, old, commit=True, version=1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await end(node, old, commit=True, version=2)).error_code == ErrorCode.PRODUCER_FENCED
        known = {"producer_id": old.producer_id, "producer_epoch": old.producer_epoch}
        assert (await init(node, version=3, **known)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await init(node, version=4, **known)).error_code == ErrorCode.PRODUCER_FENCED

    in_a_node(story, tmp_path)


def test_partitions_are_added_all_or_none(tmp_path: Any) -> None:
    """I13, KAFKA-5322: 3 and 29 for those at fault, 55 for the others; our own topics are not the client's."""

    async def story(node: Node) -> None:
        identity = await init(node)
        topics = [("t", [0, 9]), ("nowhere", [0]), ("__transaction_state", [0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=list_) for name, list_ in topics],
        )
        answer = await ask(node, request, 3)
        codes = [
            (topic.name, result.partition_index, result.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        assert codes == [("t", 0, 55), ("t", 9, 3), ("nowhere", 0, 3), ("__transaction_state", 0, 29)]
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None
        assert transaction.state is TransactionState.EMPTY

    in_a_node(story, tmp_path)


def test_brokers_verify_several_transactions_at_once(tmp_path: Any) -> None:
    """Version 4 and later of AddPartitionsToTxn (KIP-890 part 1)."""

    async def story(node: Node) -> None:
        identity = await init(node)
        await produce(node, identity)
        asked = [
            AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
            )
            for name in ("tx", "unknown")
        ]
        answer = await ask(node, AddPartitionsToTxnRequest(transactions=asked), 5)
        codes = [
            [result.partition_error_code for result in found.topic_results[0].results_by_partition]
            for found in answer.results_by_transaction
        ]
        assert codes == [[0, 120], [49, 49]]

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("version", "code"),
    [(7, 48), (10, 48), (11, 120)],
)
def test_a_write_outside_the_transaction_is_refused(tmp_path: Any, version: int, code: int) -> None:
    """I20, I25: classic clients must have added the partition; what they are told depends on what they know."""

    async def story(node: Node) -> None:
        identity = await init(node)
        assert await produce(node, identity, version=version) == code
        offsets = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 3)
        assert offsets == ErrorCode.INVALID_TXN_STATE
        offsets = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 4)
        assert offsets == ErrorCode.TRANSACTION_ABORTABLE
        assert all(partition.end_offset == 0 for partition in partitions_of(node))

    in_a_node(story, tmp_path)


def test_offsets_join_the_transaction_and_a_zombie_does_not(tmp_path: Any) -> None:
    """I11: version 5 of TxnOffsetCommit adds its partition; the old epoch is told 47, never 90."""

    async def story(node: Node) -> None:
        old = await init(node)
        assert await admit_offset_commit(node, "tx", old.producer_id, old.producer_epoch, "g", 5) == ErrorCode.NONE
        new = await init(node)
        assert new.error_code == 0
        assert new.producer_epoch == old.producer_epoch + 2
        assert await admit_offset_commit(node, "tx", old.producer_id, old.producer_epoch, "g", 5) == 47
        assert await produce(node, old) == ErrorCode.INVALID_PRODUCER_EPOCH

    in_a_node(story, tmp_path)


def test_what_is_wrong_with_an_init_producer_id_itself(tmp_path: Any) -> None:
    """Rows 2 to 7 of §2.5."""

    async def story(node: Node) -> None:
        assert (await init(node, producer_id=1, producer_epoch=-1)).error_code == ErrorCode.INVALID_REQUEST
        assert (await init(node, name="")).error_code == ErrorCode.INVALID_REQUEST
        for timeout_ms in (0, -1, 900_001):
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=timeout_ms)
            assert (await ask(node, request, 4)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        idempotent = [
            await ask(node, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4)
            for _ in range(3)
        ]
        assert len({answer.producer_id for answer in idempotent}) == 3
        assert {(answer.error_code, answer.producer_epoch) for answer in idempotent} == {(0, 0)}

    in_a_node(story, tmp_path)


def test_an_operator_looks_and_aborts(tmp_path: Any) -> None:
    """KIP-664 and §8.4: an abort of what the coordinator holds open ends all of it, and the client is fenced."""

    async def story(node: Node) -> None:
        identity = await init(node)
        for index in (0, 1):
            await produce(node, identity, index=index)
        producers = await ask(
            node, DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 7])]), 0
        )
        found, unknown = producers.topics[0].partitions
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [(p.producer_id, p.current_txn_start_offset) for p in found.active_producers] == [
            (identity.producer_id, 0)
        ]
        described = await ask(node, DescribeTransactionsRequest(transactional_ids=["tx", "none", ""]), 0)
        assert [state.error_code for state in described.transaction_states] == [0, 105, 42]
        assert described.transaction_states[0].transaction_state == "Ongoing"
        assert [(t.topic, t.partitions) for t in described.transaction_states[0].topics] == [("t", [0, 1])]
        abort = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = await ask(node, WriteTxnMarkersRequest(markers=[abort]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
        await node.group_commit.wait_until_idle()
        assert all(partition.last_stable_offset == partition.end_offset == 2 for partition in partitions_of(node))
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.INVALID_TXN_STATE

    in_a_node(story, tmp_path)


def test_listing_filters(tmp_path: Any) -> None:
    """KIP-664, KIP-994, KIP-1152."""

    async def story(node: Node) -> None:
        for name in ("orders-1", "orders-2", "other"):
            await init(node, name)

        async def listed(**filters: Any) -> tuple[int, list[str], list[str]]:
            request = ListTransactionsRequest(**({"state_filters": [], "producer_id_filters": []} | filters))
            answer = await ask(node, request, 2)
            names = sorted(state.transactional_id for state in answer.transaction_states)
            return answer.error_code, names, answer.unknown_state_filters

        assert await listed() == (0, ["orders-1", "orders-2", "other"], [])
        assert await listed(transactional_id_pattern="orders-.") == (0, ["orders-1", "orders-2"], [])
        assert await listed(transactional_id_pattern="orders") == (0, [], [])
        assert await listed(transactional_id_pattern="(") == (128, [], [])
        assert await listed(transactional_id_pattern=r"(a)\1") == (128, [], [])
        assert await listed(state_filters=["Ongoing", "Odd"]) == (0, [], ["Odd"])
        assert await listed(producer_id_filters=[-5]) == (0, [], [])

    in_a_node(story, tmp_path)


def test_orphans_are_ended_at_start_and_what_is_answered_for_is_not(tmp_path: Any) -> None:
    """I50, §8.3: an injected open transaction nobody knows of is aborted; one in progress is left alone."""

    async def story(node: Node) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)
        stranger = type(identity)(producer_id=999_999, producer_epoch=3)
        partition = partitions_of(node)[1]
        partition.append(
            batch(stranger), transactional_id="gone", verification=False, now_ms=node.environment.wall_ms()
        )
        assert await reconcile(node) == 1
        assert partition.last_stable_offset == 2
        assert partitions_of(node)[0].last_stable_offset == 0
        assert await reconcile(node) == 0

    in_a_node(story, tmp_path)


def test_a_marker_in_between_invalidates_an_admission(tmp_path: Any) -> None:
    """I26, KAFKA-14884: verified, then the transaction ends, then the append: refused."""

    async def story(node: Node) -> None:
        identity = await init(node)
        await produce(node, identity, index=1)
        partition = partitions_of(node)[0]
        (admission,) = await admit_produce(node, "tx", 12, [ProduceBatch(partition, batch(identity))])
        assert admission.error == ErrorCode.NONE
        marker = Marker(identity.producer_id, identity.producer_epoch + 1, False, 9, 2)
        partition.append_marker(marker, node.environment.wall_ms())
        with pytest.raises(Exception, match="INVALID_PRODUCER_EPOCH"):
            partition.append(
                batch(identity), transactional_id="tx", guard=admission.guard, now_ms=node.environment.wall_ms()
            )

    in_a_node(story, tmp_path)


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


def test_who_comes_too_early_is_held_and_then_let_in(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold, do not bounce: an implicit add, a classic add and a new instance wait for COMPLETE, in this order."""

    async def story(node: Node) -> None:
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

    async def story(node: Node) -> None:
        markers = HeldMarkers(monkeypatch)
        identity = await init(node)
        await produce(node, identity)
        after = await end(node, identity, commit=True)
        assert await produce(node, after, version=12) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await admit_offset_commit(node, "tx", after.producer_id, after.producer_epoch, "g", 5) == 51
        assert (await init(node)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await produce(node, after, version=11, index=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        markers.let_go()
        assert await produce(node, after) == ErrorCode.NONE
        markers.let_go()

    in_a_node(story, tmp_path)


def test_a_topic_deleted_and_made_again_gets_no_marker(tmp_path: Any) -> None:
    """I17: the transaction completes without it, and the new topic of the same name stays empty."""

    async def story(node: Node) -> None:
        identity = await init(node)
        await produce(node, identity)
        await node.topics.delete([DeleteTopicState(name="t", topic_id=bytes(16))])
        assert node.topics.by_name("t") is None
        await node.topics.auto_create("t")
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

    async def story(node: Node) -> None:
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


def test_a_client_that_goes_away_cancels_its_wait_and_nothing_else(tmp_path: Any) -> None:
    """I45: EndTxn is cancelled at its first await; the decision is made all the same."""

    async def story(node: Node) -> None:
        identity = await init(node)
        await produce(node, identity)
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

    async def dies(node: Node) -> Any:
        for topic in ("__transaction_state", "__consumer_offsets"):
            await node.topics.ensure_internal(topic)
        await node.topics.auto_create("t")
        monkeypatch.setattr(LocalMarkerWriter, "write", lambda *arguments: None)
        identity = await init(node)
        await produce(node, identity)
        assert (await end(node, identity, commit=True)).error_code == 0
        monkeypatch.undo()
        return identity

    async def comes_back(node: Node, identity: Any) -> None:
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
            await node.start()
            await node.topics.wait_until_open()
            if life == "dies":
                identity = await dies(node)
                node.abandon()
            else:
                await comes_back(node, identity)
                await node.stop()
            environment.close()
            if isinstance(environment.files, LocalFiles):
                environment.files.close()

    asyncio.run(run())
