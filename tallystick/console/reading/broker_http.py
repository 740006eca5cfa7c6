"""What a Tallystick broker tells over HTTP beside Kafka's protocol: timelines of transactions, and faults.

Rule. The broker knows nobody here but this console. What it tells is shown to those alone whom Kafka's protocol has
told of the same thing, or has said that they may change the cluster.
"""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tallystick.console.options import is_loopback

_WAITED_S = 5.0
_MOST_BYTES = 8 << 20
_NO_SUCH = frozenset({403, 404, 405})
"""A broker that does not keep a journal, or was not started to be controlled."""


class HttpFailed(Exception):
    """The broker cannot be asked, or refuses; says why."""


class BrokerHttp:
    """The HTTP side of one broker."""

    def __init__(self, url: str, token_file: str | None) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"{url!r} is no address of a broker's HTTP side: it begins with http:// or https://")
        self._url = url.rstrip("/")
        # What is on this machine is not asked through a proxy: it would be told the token, and mean another machine.
        near = is_loopback(urlsplit(url).hostname or "")
        self._opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if near else []))
        self._token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else None

    async def timeline(self, transactional_id: str) -> Any:
        """None where the broker keeps none. Raises `HttpFailed`."""
        return await self._ask("GET", f"/v1/transactions/{quote(transactional_id, safe='')}/timeline")

    async def armed(self) -> list[str] | None:
        """The fault points that are armed; None where the broker is not to be controlled. Raises `HttpFailed`."""
        said = await self._ask("GET", "/v1/control/faults")
        return None if said is None else [str(one) for one in said["armed"]]

    async def hits(self) -> dict[str, int]:
        """How often each fault point was passed. Raises `HttpFailed`."""
        said = await self._ask("GET", "/v1/control/faults/hits")
        return {} if said is None else {str(name): int(times) for name, times in said["hits"].items()}

    async def arm(self, fault: dict[str, object]) -> None:
        """Raises `HttpFailed`, with the broker's words where it refuses."""
        await self._ask("POST", "/v1/control/faults", fault)

    async def disarm(self) -> None:
        """All of them. Raises `HttpFailed`."""
        await self._ask("DELETE", "/v1/control/faults")

    async def _ask(self, method: str, path: str, said: dict[str, object] | None = None) -> Any:
        return await asyncio.to_thread(self._ask_now, method, path, said)

    def _ask_now(self, method: str, path: str, said: dict[str, object] | None) -> Any:
        headers = {"Content-Type": "application/json"} if said is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        body = None if said is None else json.dumps(said).encode()
        request = urllib.request.Request(self._url + path, body, headers, method=method)  # noqa: S310 - http or https
        try:
            with self._opener.open(request, timeout=_WAITED_S) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except urllib.error.HTTPError as refusal:
            if refusal.code in _NO_SUCH and method == "GET":
                return None
            raise HttpFailed(_words(refusal)) from None
        except (OSError, ValueError) as problem:
            raise HttpFailed(f"{self._url} does not answer: {problem}") from None


def _words(refusal: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(refusal.read(_MOST_BYTES))["error"])
    except (OSError, ValueError, LookupError, TypeError):
        return str(refusal)
