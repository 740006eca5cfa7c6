"""Moments of the data folder, for `tallystick backup`, which copies them on the broker's machine.

What is answered names a folder of links, and no data: whoever may not read the data folder learns nothing. Refused
where other machines reach this side and no token guards it.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.http.address import http_address
from broker.http.operation import Operation, Problem, Schema, read_object
from broker.http.seen_broker import SeenBroker
from broker.upkeep.pinned_moments import NotNow, PinnedMoment, PinnedMoments

PATIENCE_S = 20.0

MADE: Schema = {
    "type": "object",
    "required": ["id", "folder", "state", "reason"],
    "properties": {
        "id": {"type": "string"},
        "folder": {"type": "string", "description": "on the broker's machine; to be held by a lock on the file `lock`"},
        "state": {"type": "string", "enum": ["linking", "ready", "failed"]},
        "reason": {"type": "string", "description": "why it has failed"},
    },
}
RELEASED: Schema = {"type": "object", "required": ["released"], "properties": {"released": {"type": "boolean"}}}


def _pins(broker: SeenBroker) -> PinnedMoments:
    address = http_address(broker.node.config)
    if address.token is None and not address.is_local:
        raise Problem(403, "backups need a token where other machines reach this side (tallystick.http.token.file)")
    if broker.node.failure is not None:
        raise Problem(409, f"storage failed: {broker.node.failure}")
    if broker.services.pins is None:
        where = f"in {broker.node.config.place}" if broker.node.config.store else "in memory"
        raise Problem(409, f"the broker keeps everything {where}: there are no files to back up")
    return broker.services.pins


def _said(pins: PinnedMoments, one: PinnedMoment) -> Response:
    said = {"id": one.id, "folder": pins.folder(one.id), "state": one.state.value, "reason": one.reason}
    return JSONResponse(said)


async def begin(broker: SeenBroker, request: Request) -> Response:
    """A moment of now. Its files are linked when its state says so."""
    if await read_object(request):
        raise Problem(400, "nothing can be said of it")
    pins = _pins(broker)

    async def do() -> PinnedMoment | str:
        try:
            return await pins.begin()
        except NotNow as problem:
            return str(problem)
        except OSError as error:
            return f"the files cannot be linked: {error}"

    made = await broker.on_loop(do, PATIENCE_S)
    if isinstance(made, str):
        raise Problem(503, made)
    return _said(pins, made)


async def see(broker: SeenBroker, request: Request) -> Response:
    """How far one is."""
    pins, wanted = _pins(broker), request.path_params["id"]

    async def look() -> PinnedMoment | None:
        return pins.find(wanted)

    found = await broker.on_loop(look)
    if found is None:
        raise Problem(404, "there is no such moment")
    return _said(pins, found)


async def release(broker: SeenBroker, request: Request) -> Response:
    """It was copied, or is not wanted."""
    pins, wanted = _pins(broker), request.path_params["id"]

    async def do() -> bool:
        return await pins.release(wanted)

    said: dict[str, Any] = {"released": await broker.on_loop(do, PATIENCE_S)}
    return JSONResponse(said)


_ONE = "/v1/backups/{id}"
ROUTES = (
    Operation(
        "POST",
        "/v1/backups",
        begin,
        "Pin the data folder as it is now, for tallystick backup",
        MADE,
        refusals=(400, 403, 409, 413, 415, 503),
    ),
    Operation("GET", _ONE, see, "How far such a moment is", MADE, refusals=(403, 404, 409, 503)),
    Operation("DELETE", _ONE, release, "Let go of it", RELEASED, refusals=(403, 409, 503)),
)
