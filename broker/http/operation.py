"""One route: method, path, who may ask, what it takes and gives. The OpenAPI document is made of these, too.

An answer is written by an async function of the HTTP thread, which is given the broker and the request. It raises
`Problem` for what is to be refused; whatever else it raises is a bug of ours.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from broker.http.seen_broker import SeenBroker, Unanswered

MOST_BODY_BYTES = 1 << 20
"""Of a request."""
JSON = "application/json"

Schema = Mapping[str, Any]
"""JSON Schema, as OpenAPI 3.1 takes it."""
Answer = Callable[[SeenBroker, Request], Awaitable[Response]]


class Problem(Exception):
    """A request that is refused: a status of HTTP and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status

    def response(self) -> Response:
        return JSONResponse({"error": str(self)}, self.status)


@dataclass(frozen=True, slots=True)
class Operation:
    """See the head of this file."""

    method: str
    path: str
    answer: Answer
    summary: str
    returns: Schema = field(default_factory=dict)
    """What the body of a 200 is, where it is JSON."""
    media_type: str = JSON
    takes: Schema | None = None
    """What the body of a request is."""
    refusals: tuple[int, ...] = ()
    """Statuses beside 200 that it may answer."""
    is_open: bool = False
    """Whether it is answered without the token, where one is needed."""


async def answered(operation: Operation, broker: SeenBroker, request: Request) -> Response:
    """The response, also where the broker's loop does not answer or the request is refused."""
    try:
        return await operation.answer(broker, request)
    except Problem as problem:
        return problem.response()
    except Unanswered as problem:
        return Problem(503, str(problem)).response()


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request; an empty body is an empty object. Raises `Problem` (400, 413, 415)."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BODY_BYTES:
                raise Problem(413, f"a request has {MOST_BODY_BYTES} bytes at most")
    except ClientDisconnect:
        raise Problem(400, "the body ends too early") from None
    if not body:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        # A page of another site cannot send this type without asking first.
        raise Problem(415, f"the Content-Type of a request is to be {JSON}")
    try:
        read = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, f"the body is no JSON: {problem}") from None
    if not isinstance(read, dict):
        raise Problem(400, "the body is to be a JSON object")
    return read
