"""Produce of the classic protocol, where the coordinator's answer is known without asking it (KAFKA-14402)."""

from typing import Any

from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.unit.transactions.node_rig import ask, batch, in_a_node, init, partitions_of


async def produce_to(node: Services, identity: Any, index: int) -> int:
    data = [PartitionProduceData(index=index, records=batch(identity))]
    request = ProduceRequest(
        transactional_id="tx", acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    answer = await ask(node, request, 9)
    error: int = answer.responses[0].partition_responses[0].error_code
    return error


def test_only_partitions_of_the_open_transaction_are_written_to(tmp_path: Any) -> None:
    """I25: the transaction is open, and this partition is not in it: a batch there would hang for good."""

    async def story(node: Services) -> None:
        identity = await init(node)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await ask(node, added, 0)
        assert await produce_to(node, identity, 1) == ErrorCode.INVALID_TXN_STATE
        assert await produce_to(node, identity, 0) == ErrorCode.NONE
        assert [partition.end_offset for partition in partitions_of(node)] == [1, 0]

    in_a_node(story, tmp_path)
