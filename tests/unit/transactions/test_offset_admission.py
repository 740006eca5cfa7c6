"""The gate of TxnOffsetCommit: what was true when the wait began has to be true when it is over."""

from typing import Any

import pytest

from broker.api.handlers import group_offsets
from broker.api.services import Services
from broker.coordination import transaction_gate
from broker.coordination.transaction_gate import admit_offset_commit
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.transactions import AddOffsetsToTxnRequest
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, produce


def test_a_transaction_that_ends_while_offsets_are_admitted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """I43, KAFKA-15449: the partition was added, and the transaction ended before the group could be checked. Offsets
    staged now would belong to no transaction, and stay unstable for good."""
    add = transaction_gate.add_to_transaction

    async def story(node: Services) -> None:
        identity = await init(node)

        async def add_then_end(*arguments: Any, **options: Any) -> ErrorCode:
            error = await add(*arguments, **options)
            assert (await end(node, identity, commit=False)).error_code == ErrorCode.NONE
            return error

        monkeypatch.setattr(transaction_gate, "add_to_transaction", add_then_end)
        admitted = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 5)
        assert admitted == ErrorCode.CONCURRENT_TRANSACTIONS

    in_a_node(story, tmp_path)


def test_a_coordinator_that_goes_while_offsets_are_admitted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another node has it from then on, and the transaction is still open there."""
    add = transaction_gate.add_to_transaction

    async def story(node: Services) -> None:
        identity = await init(node)

        async def add_and_lose(*arguments: Any, **options: Any) -> ErrorCode:
            error = await add(*arguments, **options)
            shard = node.transactions.shard_of("tx")
            assert shard is not None
            shard.close()
            return error

        monkeypatch.setattr(transaction_gate, "add_to_transaction", add_and_lose)
        admitted = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 5)
        assert admitted == ErrorCode.NOT_COORDINATOR

    in_a_node(story, tmp_path)


@pytest.mark.parametrize(("version", "partitions"), [(4, []), (5, ["__consumer_offsets"])])
def test_without_verification_new_clients_are_still_added(version: int, partitions: list[str], tmp_path: Any) -> None:
    """They count on it; what old ones commit is taken as it comes."""

    async def story(node: Services) -> None:
        identity = await init(node)
        admitted = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", version)
        transaction = node.transactions.transaction_of("tx")
        assert admitted is ErrorCode.NONE and transaction is not None
        assert [entry.topic for entry in transaction.partitions] == partitions

    in_a_node(story, tmp_path, transaction_partition_verification_enable="false")


@pytest.mark.parametrize(("version", "partitions"), [(11, []), (12, ["t"])])
def test_without_verification_what_new_clients_produce_is_still_added(
    version: int, partitions: list[str], tmp_path: Any
) -> None:
    async def story(node: Services) -> None:
        assert await produce(node, await init(node), version=version) is ErrorCode.NONE
        transaction = node.transactions.transaction_of("tx")
        assert transaction is not None and [entry.topic for entry in transaction.partitions] == partitions

    in_a_node(story, tmp_path, transaction_partition_verification_enable="false")


@pytest.mark.parametrize(("version", "expected"), [(1, 15), (2, 14)])
def test_a_coordinator_that_loads_has_another_name_for_old_clients(
    version: int, expected: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-7296: they retry COORDINATOR_NOT_AVAILABLE, and give up at COORDINATOR_LOAD_IN_PROGRESS."""

    async def loading(*arguments: Any) -> ErrorCode:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def story(node: Services) -> None:
        monkeypatch.setattr(group_offsets, "admit_offset_commit", loading)
        offsets = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)]
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=offsets)],
        )
        answer = await ask(node, request, version)
        assert answer.topics[0].partitions[0].error_code == expected

    in_a_node(story, tmp_path)


def test_a_transaction_that_ends_while_its_group_loads(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A classic producer, whose epoch stays. Loading is waited for before the transaction is looked at: an offset that
    is admitted and then waits may be staged behind the end of its transaction, and would be unstable for good."""

    async def story(node: Services) -> None:
        identity = await init(node)
        fields = {"group_id": "g", "producer_id": identity.producer_id, "producer_epoch": identity.producer_epoch}
        added = await ask(node, AddOffsetsToTxnRequest(transactional_id="tx", **fields), 3)
        assert added.error_code == ErrorCode.NONE
        shard = node.groups.shard_of("g")
        assert shard is not None
        shard.on_reload = None
        shard.reload()
        wait_until_ready = node.groups.wait_until_ready

        async def end_then_load(index: int) -> Any:
            assert (await end(node, identity, commit=True, version=3)).error_code == ErrorCode.NONE
            while not shard.load_slice(1 << 20):
                pass
            assert await node.transactions.wait_until_completed("tx", 10)
            return await wait_until_ready(index)

        monkeypatch.setattr(node.groups, "wait_until_ready", end_then_load)
        offsets = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)]
        topics = [TxnOffsetCommitRequestTopic(name="t", partitions=offsets)]
        answer = await ask(node, TxnOffsetCommitRequest(transactional_id="tx", topics=topics, **fields), 3)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
        wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        fetched = await ask(node, OffsetFetchRequest(group_id="g", topics=wanted, require_stable=True), 7)
        assert fetched.topics[0].partitions[0].error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)
