"""What holds for every answer, whatever page it is of.

Rule 1. A request names a host that this console answers for: a page of somebody else's, whose name was made to mean
        this machine, is refused (DNS rebinding).
Rule 2. Somebody else's page may lead here by a link, and in no other way (Fetch Metadata): no picture of it, no frame
        and no form makes the brokers work.
Rule 3. Nothing is loaded from elsewhere, nothing written into a page is run, and no other page frames this one.
Rule 4. Pages are not kept: not by the browser, not by what lies between.
"""

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.console.options import Options, is_address

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
KEPT_FOR_S = 3600
LONGEST_TARGET = 16 << 10
"""Of an address, with its query, in bytes: no name in it is longer than what Kafka's protocol can say."""
STATIC = "/static/"
_ELSEWHERE = frozenset({"cross-site", "same-site"})
"""Of the same site, and not of the same origin, is whatever else this machine serves, on another port."""


class Guard:
    """See the head of this file."""

    def __init__(self, served: ASGIApp, options: Options) -> None:
        self._served = served
        self._names = {name.lower() for name in options.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._served(scope, receive, send)
            return
        is_static = scope["path"].startswith(STATIC)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(message, is_static=is_static)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._served)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            return PlainTextResponse("This console does not answer for this host (--allowed-host).\n", 421)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_TARGET:
            return PlainTextResponse("The address is too long.\n", 414)
        if headers.get("sec-fetch-site") in _ELSEWHERE and not _is_link(scope["method"], headers):
            return PlainTextResponse("This was asked by a page that is not of this console.\n", 403)
        return None

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        return is_address(name) or name.lower() in self._names


def _is_link(method: str, headers: Headers) -> bool:
    """Whether a person followed one, as far as a browser tells."""
    return (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _add(message: MutableMapping[str, Any], *, is_static: bool) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
    headers["Cache-Control"] = f"max-age={KEPT_FOR_S}" if is_static else "no-store"
