"""A topic that is deleted while somebody works on it: an answer for the one, nothing wrong with the node."""

from typing import Any

import pytest

from broker.api.handlers import produce as produce_handler
from broker.api.services import Services
from broker.coordination.transaction_gate import admit_produce
from broker.coordination.transactions import reconcile
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.topics import DeleteTopicState
from tests.unit.transactions.node_rig import ask, batch, end, in_a_node, init, partitions_of

MEMORY_AND_DISK = pytest.mark.parametrize("in_memory", ["true", "false"])


async def delete(node: Services) -> None:
    (result,) = await node.topics.delete([DeleteTopicState(name="t")])
    assert result.error_code == ErrorCode.NONE


@MEMORY_AND_DISK
def test_a_topic_deleted_while_a_produce_waits_at_the_gate(
    in_memory: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka answers 3 as well. The transaction ends as usual, without the topic."""

    async def story(node: Services) -> None:
        async def admit_then_delete(*arguments: Any) -> Any:
            admissions = await admit_produce(*arguments)
            await delete(node)
            return admissions

        monkeypatch.setattr(produce_handler, "admit_produce", admit_then_delete)
        identity = await init(node)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch(identity))])]
        request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1000, topic_data=data)
        answer = await ask(node, request, 12)
        response = answer.responses[0].partition_responses[0]
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await end(node, identity, commit=True)).error_code == ErrorCode.NONE
        assert await node.transactions.wait_until_completed("tx", 10)

    in_a_node(story, tmp_path, tallystick_in_memory=in_memory)


@MEMORY_AND_DISK
def test_requests_with_a_deleted_partition_handle_are_refused(in_memory: str, tmp_path: Any) -> None:
    """By every way into the log, and never as if the disk had failed."""

    async def story(node: Services) -> None:
        identity = await init(node)
        partition = partitions_of(node)[0]
        await delete(node)
        records = batch(identity)
        marker = Marker(identity.producer_id, identity.producer_epoch, True, node.epoch, 2)
        ways = [
            lambda: partition.append(records, transactional_id="tx", verification=False, now_ms=1),
            lambda: partition.append_records(bytes(records), now_ms=1),
            lambda: partition.append_marker(marker, 1),
            lambda: partition.delete_records(-1),
        ]
        for way in ways:
            with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
                way()

    in_a_node(story, tmp_path, tallystick_in_memory=in_memory)


def test_an_orphan_of_a_deleted_topic_is_nobodys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is deleted and made again while orphans are looked for: the new one gets no marker."""

    async def story(node: Services) -> None:
        identity = await init(node)
        partitions_of(node)[0].append(batch(identity), transactional_id="tx", verification=False, now_ms=1)
        waits: list[int] = []

        async def delete_at_the_second_wait() -> None:
            waits.append(1)
            if len(waits) == 2:
                await delete(node)
                await node.topics.auto_create_all(["t"])

        monkeypatch.setattr(node.transactions, "wait_until_loaded", delete_at_the_second_wait)
        assert await reconcile(node) == 0
        assert len(waits) == 2
        assert [partition.end_offset for partition in partitions_of(node)] == [0, 0]

    in_a_node(story, tmp_path)
