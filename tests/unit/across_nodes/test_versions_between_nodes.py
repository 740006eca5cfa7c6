"""In which versions nodes ask each other: in those that are written down. The newest that one knows another may not
know yet, while nodes are replaced one after the other (KAFKA-16992, KAFKA-20322)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api import forwarded
from broker.api.api_families import load_handlers
from broker.api.forwarded import SETTINGS, altered_by_controller
from broker.coordination.across_nodes.forwarding import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from broker.coordination.across_nodes.peer_ends import LIST_OFFSETS
from broker.coordination.across_nodes.peer_gate import ADD_PARTITIONS_TO_TXN
from broker.coordination.across_nodes.peer_markers import WRITE_TXN_MARKERS
from broker.coordination.across_nodes.share_state_requests import DELETE, INITIALIZE, READ, SUMMARIZE, WRITE
from broker.peers.connections import GREETING, GREETING_VERSION
from protocol.messages.configs import (
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from protocol.messages.offsets import ListOffsetsRequest
from protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from protocol.messages.transactions import AddPartitionsToTxnRequest, WriteTxnMarkersRequest
from protocol.schema import schema_of

SPOKEN: dict[type, int] = {
    type(GREETING): GREETING_VERSION,
    WriteTxnMarkersRequest: WRITE_TXN_MARKERS,
    AddPartitionsToTxnRequest: ADD_PARTITIONS_TO_TXN,
    CreateTopicsRequest: CREATE_TOPICS,
    DeleteTopicsRequest: DELETE_TOPICS,
    CreatePartitionsRequest: CREATE_PARTITIONS,
    ListOffsetsRequest: LIST_OFFSETS,
    **SETTINGS,
    **{kind.request: kind.version for kind in (INITIALIZE, READ, WRITE, DELETE, SUMMARIZE)},
}
NO_ID_BELOW = {WriteTxnMarkersRequest: 1, AddPartitionsToTxnRequest: 4}
"""They name topics with their ids, in tags of ours, which these versions have not."""


@pytest.mark.parametrize("request_type", SPOKEN, ids=lambda one: one.__name__)
def test_what_nodes_ask_is_answered_in_that_version(request_type: type) -> None:
    version, schema = SPOKEN[request_type], schema_of(request_type)
    assert version in load_handlers()[schema.api_key].versions
    assert version >= NO_ID_BELOW.get(request_type, 0)


def test_settings_are_changed_in_a_version_that_the_controller_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though this node may know newer ones."""
    monkeypatch.setattr(forwarded, "schema_of", lambda kind: SimpleNamespace(versions=range(9)))
    spoken: list[int] = []
    answered = IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
        error_message=None, resource_type=2, resource_name="t"
    )

    async def ask(request: object, version: int, *_: object) -> IncrementalAlterConfigsResponse:
        spoken.append(version)
        return IncrementalAlterConfigsResponse(responses=[answered])

    controller, resource = SimpleNamespace(ask=ask), SimpleNamespace()
    for kind in (IncrementalAlterConfigsRequest, AlterConfigsRequest):
        request: Any = kind(resources=[], validate_only=False)
        asking: Any = altered_by_controller(controller, request, [], [resource], IncrementalAlterConfigsResponse)  # type: ignore[arg-type]
        (result,) = asyncio.run(asking)
        assert result.resource is resource
    assert spoken == [1, 2]
