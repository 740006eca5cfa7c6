"""The handlers of transactions over a whole node without sockets: responses to clients of either protocol."""

from dataclasses import replace
from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transaction_gate import ProduceBatch, admit_offset_commit, admit_produce
from broker.coordination.transactions import _is_answered_for, reconcile
from coordinator.machine import Marker
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from protocol.records.batch import LAST_EPOCH, read_header
from protocol.records.record import NewRecord, build_batch
from storage.producers.producer_entry import ProducerEntry
from tests.unit.transactions.node_rig import ask, batch, end, in_a_node, init, operators_abort, partitions_of, produce


def test_sequential_transactions_never_get_concurrent_transactions(tmp_path: Any) -> None:
    """Hold, do not bounce: the next transaction is let in when the one before is complete, and LSO follows."""

    async def story(node: Services) -> None:
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

    async def story(node: Services) -> None:
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

    async def story(node: Services) -> None:
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

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity)
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
            )
            for name in ("tx", "unknown")
        ]
        answer = await ask(node, AddPartitionsToTxnRequest(transactions=transactions), 5)
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
    """I20, I25: classic clients must have added the partition; the error depends on what they know."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce(node, identity, version=version) == code
        offsets = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 3)
        assert offsets == ErrorCode.INVALID_TXN_STATE
        offsets = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 4)
        assert offsets == ErrorCode.TRANSACTION_ABORTABLE
        assert all(partition.end_offset == 0 for partition in partitions_of(node))

    in_a_node(story, tmp_path)


def test_offsets_join_the_transaction_and_a_zombie_does_not(tmp_path: Any) -> None:
    """I11: version 5 of TxnOffsetCommit adds its partition; the old epoch gets 47, never 90."""

    async def story(node: Services) -> None:
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

    async def story(node: Services) -> None:
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

    async def story(node: Services) -> None:
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
        assert await operators_abort(node, identity) is ErrorCode.NONE
        await node.group_commit.wait_until_idle()
        assert all(partition.last_stable_offset == partition.end_offset == 2 for partition in partitions_of(node))
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.INVALID_TXN_STATE

    in_a_node(story, tmp_path)


def test_listing_filters(tmp_path: Any) -> None:
    """KIP-664, KIP-994, KIP-1152."""

    async def story(node: Services) -> None:
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


def test_only_orphans_are_aborted_at_start(tmp_path: Any) -> None:
    """I50, §8.3: an injected open transaction nobody knows of is aborted; one in progress is left alone."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)
        stranger = type(identity)(producer_id=999_999, producer_epoch=3)
        partition = partitions_of(node)[1]
        partition.append(
            batch(stranger), transactional_id="gone", verification=False, now_ms=node.environment.wall_ms()
        )
        assert await reconcile(node) == 1
        assert partition.last_stable_offset == 2
        assert [one.producer_id for one in partition.derived.aborted.collect(0, 2)] == [stranger.producer_id]
        assert partition.derived.producers.epoch(stranger.producer_id) == 4, "whoever it was is fenced"
        assert partitions_of(node)[0].last_stable_offset == 0
        assert await reconcile(node) == 0

    in_a_node(story, tmp_path)


def test_an_orphan_of_the_last_epoch_is_aborted(tmp_path: Any) -> None:
    """I09: there is no epoch above it for its marker, which the leader takes with the last one."""

    async def story(node: Services) -> None:
        identity = await init(node)
        stranger = type(identity)(producer_id=999_999, producer_epoch=LAST_EPOCH)
        partition = partitions_of(node)[0]
        partition.append(
            batch(stranger), transactional_id="gone", verification=False, now_ms=node.environment.wall_ms()
        )
        assert await reconcile(node) == 1
        assert partition.last_stable_offset == 2
        assert partition.derived.producers.epoch(stranger.producer_id) == LAST_EPOCH

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(
    ("decided_epoch", "client_version", "answers"), [(1, 2, True), (0, 2, False), (0, 0, True), (-1, 0, False)]
)
def test_a_decision_does_not_answer_for_the_next_transaction(
    decided_epoch: int, client_version: int, answers: bool, tmp_path: Any
) -> None:
    """I50, KIP-1228: its marker would be refused where the data has its epoch, or a later one."""

    async def story(node: Services) -> None:
        identity = await init(node)
        await produce(node, identity, index=0)
        partition, owner = partitions_of(node)[0], node.transactions.transaction_of("tx")
        entry = partition.derived.producers.entry(identity.producer_id)
        assert owner is not None and entry is not None and entry.epoch == 0
        decided = replace(
            owner,
            state=TransactionState.PREPARE_COMMIT,
            producer_epoch=decided_epoch,
            client_version=client_version,
        )
        assert _is_answered_for(decided, entry, partition) == answers
        assert not _is_answered_for(decided, entry, partitions_of(node)[1])
        assert _is_answered_for(owner, entry, partition)
        for nobody in (replace(owner, producer_epoch=1), replace(owner, state=TransactionState.COMPLETE_ABORT), None):
            assert not _is_answered_for(nobody, entry, partition)
        used_up = replace(owner, state=TransactionState.PREPARE_ABORT, producer_epoch=LAST_EPOCH, client_version=2)
        assert _is_answered_for(used_up, entry._replace(epoch=LAST_EPOCH), partition), "there is none after it"

    in_a_node(story, tmp_path)


def test_idle_producers_are_not_looked_at_for_orphans(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition may know a million of them, and they were all listed in one turn of the loop."""

    async def story(node: Services) -> None:
        identity = await init(node)
        partition = partitions_of(node)[0]
        partition.append(
            batch(identity), transactional_id="gone", verification=False, now_ms=node.environment.wall_ms()
        )
        state = partition.derived.producers
        for producer_id in range(10_000, 10_500):
            idle = build_batch([NewRecord(value=b"v", timestamp_ms=1)], producer_id=producer_id, base_sequence=0)
            state.apply_data(read_header(idle), state.offset, 1)
        unpack, looks = ProducerEntry.unpack, []

        def counted(packed: bytes) -> ProducerEntry:
            looks.append(packed)
            return unpack(packed)

        monkeypatch.setattr(ProducerEntry, "unpack", counted)
        assert await reconcile(node) == 1
        assert len(looks) < 10

    in_a_node(story, tmp_path)


def test_a_marker_in_between_invalidates_an_admission(tmp_path: Any) -> None:
    """I26, KAFKA-14884: verified, then the transaction ends, then the append: refused."""

    async def story(node: Services) -> None:
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
