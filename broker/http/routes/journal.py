"""What the journal knows: which transactions are open and whose, what happened to one id, and advice for clients."""

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.api.noted import answers
from broker.api.noted.answers import JournalOff
from broker.http.operation import Operation, Problem, Schema
from broker.http.seen_broker import SeenBroker

_TIME = {"type": "integer", "description": "milliseconds since 1970"}
_MANY = {"type": "array", "items": {"type": "object"}}
_HEAD = {"transactionalId": {"type": "string"}, "now": _TIME, "began": _TIME, "known": {"type": "boolean"}}
TIMELINE: Schema = {
    "type": "object",
    "required": ["transactionalId", "now", "began", "known", "dropped", "clients", "events"],
    "properties": {**_HEAD, "dropped": {"type": "integer"}, "clients": _MANY, "events": _MANY},
}
FENCES: Schema = {
    "type": "object",
    "required": ["transactionalId", "now", "began", "known", "clients", "raised", "refused"],
    "properties": {**_HEAD, "clients": _MANY, "raised": _MANY, "refused": _MANY},
}
OPEN: Schema = {
    "type": "object",
    "required": ["now", "began", "more", "transactions"],
    "properties": {"now": _TIME, "began": _TIME, "more": {"type": "integer"}, "transactions": _MANY},
}
LINT: Schema = {
    "type": "object",
    "required": ["now", "began", "clients", "findings"],
    "properties": {"now": _TIME, "began": _TIME, "clients": {"type": "integer"}, "findings": _MANY},
}


async def _told(broker: SeenBroker, work: Callable[[], Coroutine[Any, Any, dict[str, Any]]]) -> Response:
    try:
        return JSONResponse(await broker.on_loop(work))
    except JournalOff as off:
        raise Problem(409, str(off)) from None


async def timeline(broker: SeenBroker, request: Request) -> Response:
    """Of one id; with `?at=` milliseconds the transaction that was under way then."""
    at, wanted = request.query_params.get("at"), request.path_params["transactional_id"]
    if at is not None and not (at.isascii() and at.isdigit() and len(at) < 18):
        raise Problem(400, "at is a time in milliseconds since 1970")

    async def look() -> dict[str, Any]:
        return answers.timeline(broker.services, wanted, at_ms=None if at is None else int(at))

    return await _told(broker, look)


async def fences(broker: SeenBroker, request: Request) -> Response:
    """Who raised the epoch of one id, and who was turned away."""

    async def look() -> dict[str, Any]:
        return answers.fences(broker.services, request.path_params["transactional_id"])

    return await _told(broker, look)


async def open_ones(broker: SeenBroker, request: Request) -> Response:
    """The oldest first, with the client that holds each."""
    return await _told(broker, lambda: answers.open_transactions(broker.services))


async def lint(broker: SeenBroker, request: Request) -> Response:
    """What clients had better do otherwise."""
    return await _told(broker, lambda: answers.lint(broker.services))


_OF_ONE = "/v1/transactions/{transactional_id}"
ROUTES = (
    Operation("GET", "/v1/transactions/open", open_ones, "Open transactions and who holds them", OPEN, refusals=(409,)),
    Operation(
        "GET", f"{_OF_ONE}/timeline", timeline, "What happened to a transactional id", TIMELINE, refusals=(400, 409)
    ),
    Operation("GET", f"{_OF_ONE}/fences", fences, "Who raised its epoch, who was fenced", FENCES, refusals=(409,)),
    Operation("GET", "/v1/lint", lint, "What clients had better do otherwise", LINT, refusals=(409,)),
)
