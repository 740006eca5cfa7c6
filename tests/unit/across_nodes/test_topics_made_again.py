"""Markers from node to node name topics with their ids (I17): nodes hear of a topic that was deleted and made again at
different times, and of two that have the same name each knows one."""

from typing import Any

import pytest

from broker.api.handlers import transaction_markers as handler
from broker.api.services import Services
from coordinator.transactions.states import TransactionState
from protocol.errors import ErrorCode
from protocol.messages.topics import DeleteTopicState
from protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.across_nodes.three_nodes import Behind, ThreeNodes, until, with_three_nodes
from tests.unit.transactions.node_rig import ask, end, in_a_node, init, partitions_of, produce


def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What leaders answer, or will, to each marker that another node asks for."""
    told: list[object] = []
    write = handler._write

    def noted(*given: Any) -> object:
        told.append(write(*given))
        return told[-1]

    monkeypatch.setattr(handler, "_write", noted)
    return told


def test_a_topic_made_again_gets_no_marker_from_a_coordinator_that_has_not_heard_of_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = answers(monkeypatch)

    async def story(nodes: ThreeNodes) -> None:
        leader, (coordinator, _) = nodes.controller, nodes.others()
        await nodes.coordinate_transactions_at(coordinator)
        await nodes.make_topic("t", leader)
        await nodes.known_at(coordinator, "t")
        coordinates, leads = nodes.by_id[coordinator], nodes.by_id[leader]
        identity = await init(coordinates)
        assert await produce(leads, identity) is ErrorCode.NONE
        behind = Behind(monkeypatch, coordinator)
        await nodes.delete_topic("t")
        await nodes.make_topic("t", leader)
        (made_again,) = partitions_of(leads)
        assert (await end(coordinates, identity, commit=True)).error_code == ErrorCode.NONE
        await until(lambda: bool(told))
        assert told[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        transaction = coordinates.transactions.transaction_of("tx")
        assert transaction is not None
        assert transaction.state is TransactionState.PREPARE_COMMIT, "it may be the leader that has not heard"
        behind.let_go()
        assert await coordinates.transactions.wait_until_completed("tx", 30)
        assert made_again.end_offset == 0

    with_three_nodes(story, tmp_path)


def test_a_leader_that_has_not_heard_of_the_topic_writes_the_marker_when_it_has(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes its word for it that there is no such topic."""
    told = answers(monkeypatch)

    async def story(nodes: ThreeNodes) -> None:
        coordinator, (leader, _) = nodes.controller, nodes.others()
        await nodes.coordinate_transactions_at(coordinator)
        await nodes.make_topic("t", leader)
        coordinates, leads = nodes.by_id[coordinator], nodes.by_id[leader]
        (before,) = partitions_of(leads)
        behind = Behind(monkeypatch, leader)
        await nodes.delete_topic("t")
        await nodes.create_topic("t", leader)
        identity = await init(coordinates)
        assert await add(coordinates, identity) == ErrorCode.NONE
        assert (await end(coordinates, identity, commit=True, version=4)).error_code == ErrorCode.NONE
        await until(lambda: bool(told))
        assert told[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert before.end_offset == 0
        behind.let_go()
        assert await coordinates.transactions.wait_until_completed("tx", 30)
        (after,) = partitions_of(leads)
        assert after is not before
        assert after.end_offset == 1

    with_three_nodes(story, tmp_path)


async def add(node: Services, identity: Any) -> int:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    answer = await ask(node, request, 3)
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


@pytest.mark.parametrize("names", ["the topic that was", "the topic that is", "no id"])
def test_what_a_leader_answers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """Who sends no id, as other brokers and operators' tools do, means whatever has the name."""
    monkeypatch.setattr(handler, "comes_as_a_node", lambda services, context: True)

    async def story(node: Services) -> None:
        topic = node.topics.by_name("t")
        assert topic is not None
        await node.topics.delete([DeleteTopicState(name="t", topic_id=bytes(16))])
        await node.topics.auto_create_all(["t"])
        made_again = node.topics.by_name("t")
        assert made_again is not None
        ids = {"the topic that was": topic.topic_id, "the topic that is": made_again.topic_id, "no id": bytes(16)}
        wanted = WritableTxnMarkerTopic(name="t", partition_indexes=[0], topic_id=ids[names])
        marker = WritableTxnMarker(
            producer_id=77, producer_epoch=0, transaction_result=True, topics=[wanted], coordinator_epoch=7
        )
        answer = await ask(node, WriteTxnMarkersRequest(markers=[marker]), 2)
        is_written = names != "the topic that was"
        expected = ErrorCode.NONE if is_written else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.markers[0].topics[0].partitions[0].error_code == expected
        assert partitions_of(node)[0].end_offset == is_written

    in_a_node(story, tmp_path)
