"""A request that a coordinator cannot take concerns nobody else; and what Kafka takes, however odd, is taken."""

from typing import Any

import pytest

from broker.api.services import Services
from broker.coordination.transaction_gate import admit_offset_commit
from broker.node import Node
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.machine import Outcome
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from tests.unit.transactions.node_rig import ask, end, in_a_node, init


def commit(group: str = "g", **fields: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    return OffsetCommitRequest(group_id=group, member_id="", topics=topics, **fields)


async def committed(node: Node, group: str) -> int:
    wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = await ask(node, OffsetFetchRequest(group_id=group, topics=wanted), 7)
    return int(answer.topics[0].partitions[0].committed_offset)


def test_a_retention_time_that_overflows_wraps_as_in_kafka(tmp_path: Any) -> None:
    """The sum of now and 2^63-1 is a time long past: the offset is taken, and expires with the next look."""

    async def story(node: Node) -> None:
        answer = await ask(node, commit(retention_time_ms=(1 << 63) - 1), 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await committed(node, "g") == 7

    in_a_node(story, tmp_path)


def test_a_raising_operation_is_unknown_server_error_for_its_client(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Node) -> None:
        assert (await ask(node, commit(), 2)).topics[0].partitions[0].error_code == ErrorCode.NONE
        shards = [(shard, shard.machine) for shard in node.groups.all()]

        def raises(*arguments: Any) -> Outcome:
            raise OverflowError("int64")

        with monkeypatch.context() as planted:
            planted.setattr(GroupCoordinator, "commit_offsets", raises)
            answer = await ask(node, commit(), 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert all(shard.machine is machine and shard.incarnation == 0 for shard, machine in shards)
        assert await committed(node, "g") == 7

    in_a_node(story, tmp_path)
    assert [record.message for record in caplog.records if record.exc_info] == ["an operation failed"]


def test_an_unknown_topic_without_partitions_is_nothing_to_add(tmp_path: Any) -> None:
    async def story(node: Node) -> None:
        identity = await init(node)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="nowhere", partitions=[])],
        )
        answer = await ask(node, request, 3)
        assert answer.results_by_topic_v3_and_below == []
        assert (await end(node, identity, commit=True, version=3)).error_code == ErrorCode.NONE

    in_a_node(story, tmp_path)


def test_a_coordinator_that_is_gone_is_said_to_be(tmp_path: Any) -> None:
    """Each request about its ids is answered NOT_COORDINATOR. Listed is what the others have."""

    async def story(node: Services) -> None:
        identity = await init(node)
        names = {"producer_id": identity.producer_id, "producer_epoch": identity.producer_epoch}
        shard = node.transactions.shard_of("tx")
        assert shard is not None
        shard.close()
        old = AddPartitionsToTxnRequest(
            **{f"v3_and_below_{name}": value for name, value in (names | {"transactional_id": "tx"}).items()},
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        added = await ask(node, old, 3)
        offsets = AddOffsetsToTxnRequest(transactional_id="tx", **names, group_id="g")
        described = await ask(node, DescribeTransactionsRequest(transactional_ids=["tx", ""]), 0)
        assert [
            (await init(node)).error_code,
            (await end(node, identity, commit=True)).error_code,
            added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            (await ask(node, offsets, 3)).error_code,
            described.transaction_states[0].error_code,
        ] == [ErrorCode.NOT_COORDINATOR] * 5
        staged = await admit_offset_commit(node, "tx", identity.producer_id, identity.producer_epoch, "g", 5)
        assert staged == ErrorCode.NOT_COORDINATOR
        assert described.transaction_states[1].error_code == ErrorCode.INVALID_REQUEST
        listed = await ask(node, ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
        assert (listed.error_code, listed.transaction_states) == (ErrorCode.NONE, [])

    in_a_node(story, tmp_path)
