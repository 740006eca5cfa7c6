"""Handlers with fault points: `request.<Api>` before one runs, `answer.<Api>` when its answer is ready.

A request that is dropped was never handled. An answer that is dropped is one of a request that took effect. Either way
the connection ends, for a client can tell answers apart by their order only.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from broker.api.catalogue import CloseConnection, Deferred, Entry
from broker.api.context import RequestContext
from broker.api.dispatch import empty_response
from broker.faults.points import ANSWER, REQUEST, Action

if TYPE_CHECKING:
    from broker.api.services import Services
    from broker.faults.control import Fault, Faults


def around(faults: "Faults", entry: Entry) -> Entry:
    """The entry with a handler that passes both points."""
    return replace(entry, handler=_FaultyHandler(faults, entry))


class _FaultyHandler:
    def __init__(self, faults: "Faults", entry: Entry) -> None:
        self.__doc__ = entry.handler.__doc__
        self._faults = faults
        self._entry = entry

    def __call__(self, services: "Services", context: RequestContext, request: Any) -> Any:
        struck = self._faults.reach(REQUEST + self._entry.name, waits=True)
        if struck is None:
            return self._answered(self._entry.handler(services, context, request))
        if struck.action is Action.DELAY:
            return self._late(struck.delay_ms, services, context, request)
        response = None
        if struck.action is Action.FAIL:
            response = empty_response(self._entry.response, struck.code)
        if response is None:  # dropped, or a message that has no one place for an error
            raise CloseConnection(f"a fault at {struck.point.name}")
        return response

    async def _late(self, delay_ms: int, services: "Services", context: RequestContext, request: Any) -> Any:
        await asyncio.sleep(delay_ms / 1000)
        result = self._answered(self._entry.handler(services, context, request))
        return await result if isawaitable(result) else result

    def _answered(self, result: Any) -> Any:
        if isinstance(result, Deferred):
            return Deferred(self._wait_and_pass(result.answer))
        if isawaitable(result):
            return self._wait_and_pass(result)
        struck = self._faults.reach(ANSWER + self._entry.name, waits=True)
        return result if struck is None else self._strike(struck, result)

    async def _wait_and_pass(self, awaitable: Awaitable[Any]) -> Any:
        result = self._answered(await awaitable)
        return await result if isawaitable(result) else result

    def _strike(self, struck: "Fault", result: Any) -> Any:
        if struck.action is Action.DELAY:
            return _sent_late(struck.delay_ms, result)
        raise CloseConnection(f"a fault at {struck.point.name}")


async def _sent_late(delay_ms: int, result: Any) -> Any:
    await asyncio.sleep(delay_ms / 1000)
    return result
