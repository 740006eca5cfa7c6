"""The document that says what may be asked: OpenAPI 3.1, made of the operations themselves."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.http.operation import JSON, Operation, Schema
from broker.http.seen_broker import SeenBroker

PATH = "/v1/openapi.json"
ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
STATUSES = {
    200: "done",
    400: "a request that cannot be",
    401: "the token is missing or wrong",
    403: "not for whoever asks",
    404: "there is no such thing",
    409: "not as the broker is now",
    413: "a request that is too large",
    415: "a body that is no JSON",
    503: "the broker does not answer, or is not ready",
}


def describing(operations: Sequence[Operation]) -> Operation:
    """The operation that answers with the document; it is in there itself."""

    async def answer(broker: SeenBroker, request: Request) -> Response:
        return JSONResponse(document([*operations, own]))

    own = Operation("GET", PATH, answer, "This document", {"type": "object"})
    return own


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """All of them as OpenAPI has it."""
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tallystick", "version": "1", "description": "The HTTP side of a broker."},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(one: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": one.summary,
        "responses": {"200": _response(200, one.media_type, one.returns)}
        | {str(status): _refusal(one, status) for status in sorted({*one.refusals, *(() if one.is_open else (401,))})},
        "security": [] if one.is_open else [{}, {"token": []}],
    }
    if names := [part[1:-1] for part in one.path.split("/") if part.startswith("{")]:
        found["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if one.takes is not None:
        found["requestBody"] = {"required": bool(one.takes["required"]), "content": {JSON: {"schema": one.takes}}}
    return found


def _refusal(one: Operation, status: int) -> dict[str, Any]:
    own = one.is_open and status == 503  # health says the same things whatever its status
    return _response(status, JSON, one.returns if own else {"$ref": "#/components/schemas/Error"})


def _response(status: int, media_type: str, schema: Schema) -> dict[str, Any]:
    content = {media_type: {"schema": schema or {"type": "string"}}}
    return {"description": STATUSES[status], "content": content}
