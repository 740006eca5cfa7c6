"""Batches of an idempotent producer that come again while their log is being opened, one behind the other."""

from pathlib import Path

import pytest

import broker.coordination.opening_logs
from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.cluster.cluster_rig import handle
from tests.unit.cluster.test_opening_logs import Gate, batch, filled, gate, started

__all__ = ["gate"]


async def produced(node: Services, sequence: int) -> tuple[int, int]:
    """What becomes of one batch: its error and its offset."""
    data = [PartitionProduceData(index=0, records=memoryview(batch(sequence)))]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    answer = await handle(node, request, 9)
    (found,) = (await answer.answer if hasattr(answer, "answer") else answer).responses[0].partition_responses
    return found.error_code, found.base_offset


def test_what_was_written_before_has_its_offset_behind_an_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    """The first of two requests is refused, for the log is not open, and the one behind it is taken. librdkafka then
    takes the first for written, and knows no offset of it; who asks again is told it, of each of the last five."""
    filled(tmp_path, batches=5)
    gate.is_shut = True

    async def story(node: Services) -> None:
        await gate.wait_until_met()
        monkeypatch.setattr(broker.coordination.opening_logs, "MOMENT_S", 0.0)
        assert await produced(node, 4) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        gate.is_open.set()
        await node.topics.wait_until_open()
        for sequence in range(5):
            assert await produced(node, sequence) == (ErrorCode.NONE, sequence)
        assert await produced(node, 5) == (ErrorCode.NONE, 5)
        assert await produced(node, 4) == (ErrorCode.NONE, 4)
        assert await produced(node, 0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "no producer has six under way"

    started(tmp_path, story)
