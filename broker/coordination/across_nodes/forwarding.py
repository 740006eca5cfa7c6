"""Changes of the metadata that this node was asked for, and another one decides: they are asked of the controller.

A node that takes over as the controller is waited for a moment; where that is this node, who asked does it here. What
was answered is known here when the answer goes out: whoever asks this node next finds what it was told.

What the controller does not let this node ask for is answered NOT_CONTROLLER: the client may have it, and goes to the
controller with it, or comes again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.coordination.across_nodes.denials import Denials, denied_parts
from broker.coordination.across_nodes.nodes import SharedNodes
from broker.coordination.coordinators import CoordinatorError
from broker.peers.port import Peers, PeerUnreachable
from broker.process.environment import Environment
from coordinator.cluster.leaders import NOBODY
from protocol.errors import ErrorCode
from protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

R = TypeVar("R")

LEAST_PATIENCE_MS = 15_000
UNTIL_REPLACED_MS = 6_000
"""How long a change waits for a controller: so much longer than one that died is taken for alive."""
NOT_LET = "The controller does not let the node that was asked change this."
PAUSE_S = 0.1
TIMEOUT_MS = 30_000
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 7, 6, 3
"""Versions that nodes speak among each other."""


class Controller:
    """The controller as seen by a node that is not it."""

    def __init__(
        self, nodes: SharedNodes, peers: Peers, environment: Environment, *, silent_ms: Callable[[], int]
    ) -> None:
        """After `silent_ms` who was not heard is taken for dead."""
        self._silent_ms = silent_ms
        self._nodes = nodes
        self._peers = peers
        self._environment = environment
        self._denials: dict[type, Denials] = {}

    async def ask(
        self, request: object, version: int, response: type[R], refused: Callable[[R], bool] = lambda _: False
    ) -> R | None:
        """What the controller answers; asked again where it is none any more (`refused`). None where this node controls
        by now. Raises `CoordinatorError`."""
        patience_ms = max(LEAST_PATIENCE_MS, self._silent_ms() + UNTIL_REPLACED_MS)
        deadline_ms = self._environment.monotonic_ms() + patience_ms
        while True:
            controller_id = self._nodes.controller_id
            if controller_id == self._nodes.node_id:
                return None
            if controller_id != NOBODY:
                try:
                    answer = await self._peers.ask(controller_id, request, version, response)
                except PeerUnreachable:
                    pass
                else:
                    if not refused(answer):
                        self._take_out_denials(controller_id, type(request), answer)
                        await self._nodes.caught_up()
                        return answer
            if self._environment.monotonic_ms() >= deadline_ms:
                raise CoordinatorError(ErrorCode.NOT_CONTROLLER)
            await asyncio.sleep(PAUSE_S)

    def _take_out_denials(self, controller_id: int, kind: type, answer: object) -> None:
        denied = denied_parts(answer)
        denials = self._denials.setdefault(kind, Denials(kind.__name__.removesuffix("Request")))
        denials.answered(controller_id, *(part.error_code for part in denied))
        for part in denied:
            part.error_code = ErrorCode.NOT_CONTROLLER
            if hasattr(part, "error_message"):
                part.error_message = NOT_LET

    async def create(
        self, topics: Sequence[CreatableTopic], *, validate_only: bool
    ) -> list[CreatableTopicResult] | None:
        """See `TopicDirectory.create`."""
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)
        answer = await self.ask(request, CREATE_TOPICS, CreateTopicsResponse, lambda one: _is_refused(one.topics))
        return None if answer is None else answer.topics

    async def delete(self, topics: Sequence[DeleteTopicState]) -> list[DeletableTopicResult] | None:
        """See `TopicDirectory.delete`."""
        request = DeleteTopicsRequest(topics=list(topics), topic_names=[], timeout_ms=TIMEOUT_MS)
        answer = await self.ask(request, DELETE_TOPICS, DeleteTopicsResponse, lambda one: _is_refused(one.responses))
        return None if answer is None else answer.responses

    async def grow(
        self, topics: Sequence[CreatePartitionsTopic], *, validate_only: bool
    ) -> list[CreatePartitionsTopicResult] | None:
        """See `TopicDirectory.grow`."""
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only)
        answer = await self.ask(
            request, CREATE_PARTITIONS, CreatePartitionsResponse, lambda one: _is_refused(one.results)
        )
        return None if answer is None else answer.results


def _is_refused(
    results: Sequence[CreatableTopicResult] | Sequence[DeletableTopicResult] | Sequence[CreatePartitionsTopicResult],
) -> bool:
    """Whether who was asked is not the controller (any more): then nothing of it was done."""
    return bool(results) and all(one.error_code == ErrorCode.NOT_CONTROLLER for one in results)
