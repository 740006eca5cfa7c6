"""Markers that a coordinator in another node has decided, while one in this node does not know yet that it was
replaced: it has the transaction for open, or for fenced."""

from typing import Any

import pytest

from broker.api.handlers import transaction_markers as handler
from broker.api.services import Services
from protocol.errors import ErrorCode
from protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.transactions.node_rig import ask, in_a_node, init, partitions_of, produce


def test_what_another_coordinator_has_decided_is_written_as_it_is(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I04: the other takes a refusal for "it has arrived before", and completes: a transaction would hang."""

    async def story(node: Services) -> None:
        identity = await init(node)
        for index in (0, 1):
            assert await produce(node, identity, index=index) is ErrorCode.NONE
        monkeypatch.setattr(handler, "comes_as_a_node", lambda services, context: True)
        fenced_epoch = identity.producer_epoch + 1
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=fenced_epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=7,
        )
        answer = await ask(node, WriteTxnMarkersRequest(markers=[marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
        first, second = partitions_of(node)
        assert (first.end_offset, first.last_stable_offset) == (2, 2), "the transaction is over there"
        assert first.derived.producers.epoch(identity.producer_id) == fenced_epoch
        assert (second.end_offset, second.last_stable_offset) == (1, 0), "and nowhere else: nobody has asked for that"

    in_a_node(story, tmp_path)
