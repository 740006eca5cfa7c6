"""The socket that a program hands to the broker that it starts: a line of JSON each way.

A request is `{"do": NAME, …}`, its answer `{"is": …}`, or `{"refused": SENTENCE}`. When the program is gone, the socket
ends, and the broker with it, in order: no test leaves a broker behind.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from broker.api.noted.answers import JournalOff
from broker.api.services import Services
from broker.config.sources import ConfigError
from broker.control.commands import COMMANDS, Controlled
from broker.control.moved_clock import MovedClock, MovedEnvironment, MovedLoop
from broker.control.several import Refused, Several
from broker.coordination.coordinators import CoordinatorError
from broker.faults.control import Faults
from broker.process.logging import EventLog
from storage.files import Files

_log = EventLog("control")


class Control:
    """See the head of this file. `descriptor` is one end of a pair of sockets; without one, it is controlled in another
    way (`broker.http`)."""

    def __init__(self, descriptor: int | None) -> None:
        try:
            self._socket = None if descriptor is None else socket.socket(fileno=descriptor)
        except OSError as problem:
            raise ConfigError(f"--control-fd {descriptor} is no socket: {problem}") from None
        self._clock = MovedClock()

    def of(
        self, faults: Faults, living: Callable[[], Sequence[Services]], several: Several | None = None
    ) -> Controlled:
        """A broker that may be controlled."""
        return Controlled(faults, self._clock, living, several)

    def environment(self, files: Files | None) -> MovedEnvironment:
        return MovedEnvironment(files, self._clock)

    def new_loop(self) -> MovedLoop:
        return MovedLoop(self._clock)

    async def obey(self, broker: Controlled, stop: asyncio.Event) -> None:
        """Until the other end is closed."""
        if self._socket is None:
            return
        reader, writer = await asyncio.open_connection(sock=self._socket)
        _log.warning("whoever started this broker may make it fail and move its clock")
        try:
            while (line := await _next_line(reader)) != b"":
                writer.write(json.dumps(await _answered(broker, line)).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            stop.set()


async def _next_line(reader: asyncio.StreamReader) -> bytes | None:
    """Empty at the end; None for one that is longer than any request has to be, and is skipped."""
    is_too_long = False
    while True:
        try:
            line = await reader.readuntil()
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError as over:
            await reader.readexactly(over.consumed)
            is_too_long = True
        else:
            return None if is_too_long else line


async def _answered(broker: Controlled, line: bytes | None) -> dict[str, Any]:
    """With the number of the request, if it has one: who gave up waiting for an answer knows it when it comes."""
    if line is None:
        return {"refused": "a request has to be shorter"}
    number: dict[str, Any] = {}
    try:
        request = json.loads(line)
        number = {"number": request.pop("number")} if "number" in request else {}
        return number | await _done(broker, request)
    except (Refused, JournalOff, CoordinatorError, ValueError, TypeError, AttributeError, RecursionError) as problem:
        return number | {"refused": str(problem) or repr(problem)}


async def _done(broker: Controlled, request: dict[str, Any]) -> dict[str, Any]:
    command = COMMANDS.get(request.pop("do", None))
    if command is None:
        return {"refused": f"there is no such command; there are {', '.join(sorted(COMMANDS))}"}
    answer = command(broker, **request)
    return {"is": await _waited_for(answer) if isawaitable(answer) else answer}


async def _waited_for(answer: Awaitable[Any]) -> Any:
    """What a fault gives up is the command alone."""
    doing = asyncio.ensure_future(answer)
    try:
        await asyncio.wait([doing])
    finally:
        doing.cancel()
    if doing.cancelled():
        raise Refused("it was given up: a fault has ended the node that was to do it")
    return doing.result()
