"""Control: what the program that started a broker for its tests may do to it, for programs in any language.

The same as `tallystick.Broker(control=True)` can do, with the words of docs/faults.md, and what nobody can do from
outside without the broker's pid. Refused where the broker was not started for it.
"""

import asyncio
import os
import signal
import threading
from inspect import isawaitable
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.control.commands import COMMANDS, Controlled
from broker.control.several import Refused
from broker.coordination.coordinators import CoordinatorError
from broker.http.operation import Operation, Problem, Schema, read_object
from broker.http.seen_broker import SeenBroker

PATIENCE_S = 60.0
LONGEST_FREEZE_MS = 3_600_000
FREEZE_MS = 60_000

_STRINGS = {"type": "array", "items": {"type": "string"}}
_MILLISECONDS = {"type": "integer", "minimum": 0}


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


ARMED = _object(("armed",), armed=_STRINGS)
FAULT = _object(
    ("point", "action"),
    point={"type": "string", "examples": ["marker.before"]},
    action={"type": "string", "examples": ["crash", "freeze", "drop", "delay:50", "fail:ENOSPC"]},
    topic={"type": "string", "minLength": 1},
    partition={"type": "integer", "minimum": 0},
    at={"type": "integer", "minimum": 1, "default": 1},
    times={"type": ["integer", "null"], "minimum": 1, "default": 1},
)
HITS = _object(("hits",), hits={"type": "object", "additionalProperties": {"type": "integer"}})
AHEAD = _object(("ahead_ms",), ahead_ms=_MILLISECONDS)
ADVANCE = _object(("milliseconds",), milliseconds=_MILLISECONDS)
LEFT = _object(("left",), left=_STRINGS)
FREEZE = _object(milliseconds={**_MILLISECONDS, "maximum": LONGEST_FREEZE_MS, "default": FREEZE_MS})
DONE = _object(("done",), done={"type": "boolean"})


async def see_faults(broker: SeenBroker, request: Request) -> Response:
    """What is armed."""
    controlled = _controlled(broker)

    async def look() -> list[str]:
        return [fault.point.name for fault in controlled.faults.armed]

    return JSONResponse({"armed": await broker.on_loop(look)})


async def arm(broker: SeenBroker, request: Request) -> Response:
    """Arm one fault, beside those that are armed."""
    said = await _said(broker, request, FAULT)
    place = said.get("topic", "")
    if "partition" in said:
        if "topic" not in said:
            raise Problem(400, "a partition of which topic?")
        place = f"{place}:{said['partition']}"
    times = said.get("times", 1)
    passes = f"@{said.get('at', 1)}x{'*' if times is None else times}"
    text = f"{said['point']}{f'[{place}]' if place else ''}={said['action']}{passes}"
    return JSONResponse({"armed": await _done(broker, "arm", text=text)})


async def disarm(broker: SeenBroker, request: Request) -> Response:
    """Nothing strikes any more."""
    await _done(broker, "disarm")
    return JSONResponse({"armed": []})


async def hits(broker: SeenBroker, request: Request) -> Response:
    """How often each point was passed."""
    return JSONResponse({"hits": await _done(broker, "hits")})


async def advance(broker: SeenBroker, request: Request) -> Response:
    """Move the clock."""
    said = await _said(broker, request, ADVANCE)
    return JSONResponse({"ahead_ms": await _done(broker, "advance", milliseconds=said["milliseconds"])})


async def wipe(broker: SeenBroker, request: Request) -> Response:
    """As for the next test."""
    return JSONResponse({"left": await _done(broker, "wipe")})


class Freezing:
    """The loop of a broker, held: nothing is answered, no socket is closed, no time-out of the broker comes. The HTTP
    thread goes on, or nobody could thaw it."""

    def __init__(self) -> None:
        self._thaw = threading.Event()
        self._is_frozen = False

    async def freeze(self, broker: SeenBroker, request: Request) -> Response:
        """Returns when it stands still."""
        said = await _said(broker, request, FREEZE)
        if self._is_frozen:
            raise Problem(409, "it is frozen already")
        here = asyncio.get_running_loop()
        stands: asyncio.Future[None] = here.create_future()
        self._thaw.clear()
        self._is_frozen = True

        def hold() -> None:
            here.call_soon_threadsafe(stands.set_result, None)
            self._thaw.wait(said.get("milliseconds", FREEZE_MS) / 1000)
            self._is_frozen = False

        broker.call_on_loop(hold)
        await stands
        return JSONResponse({"done": True})

    async def thaw(self, broker: SeenBroker, request: Request) -> Response:
        """Returns when it goes on."""
        _controlled(broker)
        was_frozen = self._is_frozen
        self._thaw.set()

        async def nothing() -> None:
            return None

        await broker.on_loop(nothing, PATIENCE_S)
        return JSONResponse({"done": was_frozen})


async def kill(broker: SeenBroker, request: Request) -> Response:
    """What a crash does, when the answer has left."""
    return _signalled(broker, signal.SIGKILL)


async def stop(broker: SeenBroker, request: Request) -> Response:
    """An orderly end."""
    return _signalled(broker, signal.SIGTERM)


def _signalled(broker: SeenBroker, which: signal.Signals) -> Response:
    _controlled(broker)
    return JSONResponse({"done": True}, background=BackgroundTask(os.kill, os.getpid(), which))


def _controlled(broker: SeenBroker) -> Controlled:
    if broker.controlled is None:
        raise Problem(403, "this broker was not started to be controlled over HTTP (--http-control)")
    return broker.controlled


async def _done(broker: SeenBroker, name: str, **fields: object) -> Any:
    """What a command of `broker.control` returns; once begun, it is not given up."""
    controlled = _controlled(broker)

    async def do() -> Any:
        answer = COMMANDS[name](controlled, **fields)
        return await answer if isawaitable(answer) else answer

    try:
        return await broker.on_loop(do, PATIENCE_S)
    except (Refused, CoordinatorError, ValueError) as problem:
        raise Problem(400, str(problem)) from None


async def _said(broker: SeenBroker, request: Request, schema: Schema) -> dict[str, Any]:
    """The fields of a request, which are those of its schema. Raises `Problem`."""
    _controlled(broker)
    said = await read_object(request)
    known = schema["properties"]
    if unknown := sorted(said.keys() - known.keys()):
        raise Problem(400, f"there is no field {unknown[0]!r}; there are {', '.join(known)}")
    if missing := [name for name in schema["required"] if name not in said]:
        raise Problem(400, f"the field {missing[0]!r} is missing")
    for name, value in said.items():
        if isinstance(value, float) and value.is_integer():
            said[name] = value = int(value)  # JSON has one kind of numbers: 5.0 is an integer of JSON Schema.
        if not _fits(value, known[name]):
            raise Problem(400, f"the field {name!r} cannot be {value!r:.100}")
    return said


def _fits(value: object, schema: Schema) -> bool:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if isinstance(value, str):
        return "string" in kinds and len(value) >= schema.get("minLength", 0)
    if value is None:
        return "null" in kinds
    if not isinstance(value, int) or isinstance(value, bool) or "integer" not in kinds:
        return False
    return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


def controlling() -> list[Operation]:
    """All of them; what is frozen is remembered here."""
    freezing, path = Freezing(), "/v1/control"
    beyond = (400, 403, 413, 415, 503)
    return [
        Operation("GET", f"{path}/faults", see_faults, "The fault points that are armed", ARMED, refusals=(403, 503)),
        Operation("POST", f"{path}/faults", arm, "Arm a fault point", ARMED, takes=FAULT, refusals=beyond),
        Operation("DELETE", f"{path}/faults", disarm, "Disarm all of them", ARMED, refusals=(403, 503)),
        Operation("GET", f"{path}/faults/hits", hits, "How often each was passed", HITS, refusals=(403, 503)),
        Operation("POST", f"{path}/clock", advance, "Move the clock forward", AHEAD, takes=ADVANCE, refusals=beyond),
        Operation(
            "POST",
            f"{path}/wipe",
            wipe,
            "End transactions, delete topics and groups",
            LEFT,
            refusals=(400, 403, 503),
        ),
        Operation(
            "POST", f"{path}/freeze", freezing.freeze, "Let it stand still", DONE, takes=FREEZE, refusals=(*beyond, 409)
        ),
        Operation("POST", f"{path}/thaw", freezing.thaw, "Let it go on", DONE, refusals=(403, 503)),
        Operation("POST", f"{path}/kill", kill, "End it at once, as kill -9 does", DONE, refusals=(403,)),
        Operation("POST", f"{path}/stop", stop, "End it in order", DONE, refusals=(403,)),
    ]
