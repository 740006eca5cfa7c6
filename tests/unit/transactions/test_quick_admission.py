"""Produce of the classic protocol, where the coordinator's answer is known without asking it (KAFKA-14402)."""

from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.marker_writer import UncommittedMarkers
from broker.coordination.transaction_gate import ProduceBatch, admit_produce, admitted_at_once
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import CreatePartitionsTopic
from protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.records.record import NewRecord, build_batch
from tests.harness.turns import Turns
from tests.unit.transactions.node_rig import ask, batch, end, in_a_node, init, partitions_of

NOT_THE_OWNER = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH)


async def produce_to(node: Services, identity: Any, index: int, sequence: int = 0) -> int:
    data = [PartitionProduceData(index=index, records=batch(identity, sequence))]
    request = ProduceRequest(
        transactional_id="tx", acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    answer = await ask(node, request, 9)
    error: int = answer.responses[0].partition_responses[0].error_code
    return error


def known(node: Services, identity: Any, index: int, *, name: str | None = "tx", version: int = 9) -> bool:
    """Whether the coordinator need not be asked."""
    return admitted_at_once(node, name, version, [ProduceBatch(partitions_of(node)[index], batch(identity))])


def test_nothing_is_written_to_a_transaction_that_is_decided(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of the classic protocol has the same epoch before and after, and the partitions are still listed."""

    async def story(node: Services) -> None:
        identity = await init(node)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await ask(node, added, 0)
        assert await produce_to(node, identity, 0) == ErrorCode.NONE
        with monkeypatch.context() as patched:
            patched.setattr(UncommittedMarkers, "wait", lambda *_: None)
            assert (await end(node, identity, commit=True, version=3)).error_code == ErrorCode.NONE
            transaction = node.transactions.transaction_of("tx")
            assert transaction is not None and transaction.state is TransactionState.PREPARE_COMMIT
            assert not known(node, identity, 0)

    in_a_node(story, tmp_path)


def test_only_partitions_of_the_open_transaction_are_written_to(tmp_path: Any) -> None:
    """I25: the transaction is open, and this partition is not in it: a batch there would hang for good."""

    async def story(node: Services) -> None:
        identity = await init(node)
        assert await produce_to(node, identity, 1) == ErrorCode.INVALID_TXN_STATE, "nothing is open"
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await ask(node, added, 0)
        assert await produce_to(node, identity, 1) == ErrorCode.INVALID_TXN_STATE
        # Where the producer is not known any more, one of the classic protocol goes on where it is.
        assert await produce_to(node, identity, 0, sequence=7) == ErrorCode.NONE
        for stranger in ((identity.producer_id + 7, 0), (identity.producer_id, 1)):
            named = type(identity)(producer_id=stranger[0], producer_epoch=stranger[1])
            assert await produce_to(node, named, 0) in NOT_THE_OWNER
            assert not known(node, named, 0)
        assert (known(node, identity, 0), known(node, identity, 1)) == (True, False)
        assert not known(node, identity, 0, name=None) and not known(node, identity, 0, name="other")
        assert not known(node, identity, 0, version=12), "it would not be added"
        assert [partition.end_offset for partition in partitions_of(node)] == [1, 0]

    in_a_node(story, tmp_path)


def test_what_is_no_batch_is_not_asked_about(tmp_path: Any) -> None:
    """Nobody is asked, and the batches beside it are admitted."""

    async def story(node: Services) -> None:
        identity = await init(node)
        nothing, something = partitions_of(node)
        batches = [ProduceBatch(nothing, memoryview(b"")), ProduceBatch(something, batch(identity))]
        admissions = await admit_produce(node, "tx", 12, batches)
        assert [admission.error for admission in admissions] == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]
        assert [admission.guard is None for admission in admissions] == [True, False]

    in_a_node(story, tmp_path)


def test_a_produce_to_many_partitions_gives_way_at_the_gate(tmp_path: Any) -> None:
    """Guards were taken, and partitions put together by topic, in one turn."""

    async def story(node: Services) -> None:
        await node.topics.grow([CreatePartitionsTopic(name="t", count=200, assignments=None)])
        identity = await init(node)
        batches = [ProduceBatch(partition, batch(identity)) for partition in partitions_of(node)]
        turns = Turns(node.environment)
        admissions = await admit_produce(node, "tx", 12, batches)
        assert {admission.error for admission in admissions} == {ErrorCode.NONE}
        assert turns.waited >= 10
        for one, admission in zip(batches, admissions, strict=True):
            one.partition.append(one.records, transactional_id="tx", guard=admission.guard, now_ms=1)

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("version", [9, 12])
def test_a_produce_to_many_partitions_is_admitted_in_all_of_them(version: int, tmp_path: Any) -> None:
    """Or, by the classic protocol, in those that were added; batches of no transaction go beside them."""
    count = 200

    async def story(node: Services) -> None:
        await node.topics.grow([CreatePartitionsTopic(name="t", count=count + 1, assignments=None)])
        identity = await init(node)
        added = list(range(count)) if version >= 12 else [*range(0, count, 2)]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=added)],
        )
        if version < 12:
            await ask(node, request, 0)
        plain = memoryview(build_batch([NewRecord(value=b"v", timestamp_ms=1)]))
        data = [PartitionProduceData(index=index, records=batch(identity)) for index in range(count)]
        data.append(PartitionProduceData(index=count, records=plain))
        topics = [TopicProduceData(name="t", partition_data=data)]
        produced = ProduceRequest(transactional_id="tx", acks=1, timeout_ms=1, topic_data=topics)
        answers = (await ask(node, produced, version)).responses[0].partition_responses
        expected = [ErrorCode.NONE if index in added else ErrorCode.INVALID_TXN_STATE for index in range(count)]
        assert [one.error_code for one in answers] == [*expected, ErrorCode.NONE]
        ends = [partition.end_offset for partition in partitions_of(node)]
        assert ends == [int(index in added) for index in range(count)] + [1]

    in_a_node(story, tmp_path)
