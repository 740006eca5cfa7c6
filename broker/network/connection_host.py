"""What a connection needs of its server."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from broker.api.dispatch import Dispatcher
from broker.network.frame_buffers import FrameBuffers
from broker.network.turns import Turns
from broker.process.eager import Finished
from broker.process.memory_budget import AnswerBudget, MemoryBudget
from storage.log import StorageFailed

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from broker.network.request_timer import RequestTimer


class ConnectionHost(Protocol):
    """`broker.network.server`, and what stands in for it."""

    dispatcher: Dispatcher
    requests: MemoryBudget
    strangers: MemoryBudget
    """Of requests of those who are not authenticated yet."""
    answers: AnswerBudget
    turns: Turns
    answer_bytes: int
    """How much a client may leave untaken before its next request waits."""
    receive_buffer: bytearray
    frame_buffers: FrameBuffers
    max_request_bytes: int
    timer: "RequestTimer | None"
    """Where it wants requests that come now, in a broker that is watched."""
    tick: int
    """Coarse time: the number of the last sweep for idle connections."""

    def connection_made(self, connection: "Connection") -> str | None:
        """Take it in; a reason to refuse it, else None. Empty: refused, and not to be logged once more."""

    def connection_lost(self, connection: "Connection") -> None: ...

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        """Begin work; if it has to wait, in a task that belongs to the broker and outlives the connection."""

    def storage_failed(self, error: StorageFailed) -> None:
        """A disk refused a write: the process is to end."""
