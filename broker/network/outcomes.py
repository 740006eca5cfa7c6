"""What a request that had to wait came to: a response, encoded, or why its connection ends.

Kept apart from `connection`, which says when requests are applied and answered; here is what their end is taken for.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, cast

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.api.context import ConnectionInfo
from broker.api.dispatch import Call, Decoded, Dispatcher, Encoded
from broker.network.pending_answer import PendingAnswer
from broker.process.eager import Finished
from broker.process.logging import EventLog
from protocol.compile_encoder import LargeMessage
from protocol.errors import ProtocolError
from protocol.schema import Buffer
from storage.log import StorageFailed

_log = EventLog("connection")


class Begins(Protocol):
    """Who runs the work of requests."""

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        """Begin work; if it has to wait, in a task that outlives the connection."""


class Answering(Protocol):
    """The connection that is owed an answer."""

    info: ConnectionInfo

    def refuse(self, reason: str) -> None:
        """Close it, and say why."""

    def end(self, call: Call, last: CloseConnection) -> None:
        """Close it as its handler wishes."""

    def storage_failed(self, error: StorageFailed) -> None:
        """A disk refused a write: the process is to end."""

    def close(self) -> None:
        """When its client has its answers."""


def as_future(host: Begins, awaitable: Awaitable[Any]) -> "asyncio.Future[Any]":
    """Work that was begun, as something that can be waited for."""
    if isinstance(awaitable, asyncio.Future):
        return awaitable
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    try:
        begun = host.begin(cast(Coroutine[Any, Any, Any], awaitable))
    except Exception as error:  # noqa: BLE001  `result_of` sorts them
        done.set_exception(error)
        return done
    if not isinstance(begun, Finished):
        return begun
    done.set_result(begun.value)
    return done


def result_of(connection: Answering, dispatcher: Dispatcher, answer: PendingAnswer, done: "asyncio.Future[Any]") -> Any:
    """What a wait brought; encodes it into `answer` where it is a response."""
    answer.parts = []
    try:
        kind = type(result := done.result())  # asking whether it is an instance costs more
        if kind is Encoded:
            answer.parts = result.parts
        elif kind is Deferred or kind is Decoded:
            answer.parts = None
        elif result is not NO_ANSWER:
            try:
                answer.parts = answer.call.encode(result)
            except LargeMessage:
                answer.parts, result = None, Deferred(dispatcher.encode(answer.call, result))
    except ProtocolError as error:
        connection.refuse(str(error))
    except CloseConnection as last:
        connection.end(answer.call, last)
    except asyncio.CancelledError:
        connection.refuse("the broker is stopping")
    except StorageFailed as failure:
        connection.storage_failed(failure)
    except Exception as bug:  # noqa: BLE001  a bug in one handler is not to end the others
        answer.parts = failed(connection, answer.call, bug)
    else:
        return result
    return None


def failed(connection: Answering, call: Call, error: Exception) -> list[Buffer]:
    """A bug of ours: one traceback in the log; the client gets UNKNOWN_SERVER_ERROR, or is disconnected."""
    _log.bug("request failed", error, **connection.info.told, api=call.entry.name)
    parts = call.encode_failure()
    if parts is None:
        connection.close()
    return parts or []
