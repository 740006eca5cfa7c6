"""Who may ask: with the token where there is one; without, nobody that a page in a browser could send.

Rule 1. Where there is a token, every request carries it (`Authorization: Bearer …`), but for those of open operations.
Rule 2. Without a token on this machine alone, the Host is to be an address or `localhost`: a page whose name was made
to lead here (DNS rebinding) comes with its own. A request that names another site as its origin is refused, whatever it
wants.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from broker.http.address import HttpAddress
from broker.http.operation import Operation

Handler = Callable[[Request], Awaitable[Response]]


def guarded(address: HttpAddress, operation: Operation, handler: Handler) -> Handler:
    """A handler that answers whom it may."""

    async def handle(request: Request) -> Response:
        refusal = _refusal(address, operation, request)
        return await handler(request) if refusal is None else refusal

    return handle


def _refusal(address: HttpAddress, operation: Operation, request: Request) -> Response | None:
    if address.token is None:
        host = request.headers.get("host", "")
        if address.is_local and host and not _is_address(host):
            return _refused(403, "the Host of a request is to be an address, or localhost")
        if _of_other_site(request):
            return _refused(403, "a page of another site may not ask")
        return None
    if operation.is_open or _has_token(request, address.token):
        return None
    return JSONResponse(
        {"error": "a request carries the token: Authorization: Bearer TOKEN"}, 401, {"WWW-Authenticate": "Bearer"}
    )


def _refused(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _has_token(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.encode())


def _of_other_site(request: Request) -> bool:
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        return True
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_address(host: str) -> bool:
    name, _, port = host.rpartition(":")
    if not (name and port.isdecimal()):
        name = host
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
