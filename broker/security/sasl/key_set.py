"""The keys of an issuer of tokens: a JSON Web Key Set (RFC 7517), from a file or an https address.

Rule 1. It is fetched off the loop, one fetch at a time, whoever waits for it; nothing else waits for the issuer's
machine: not the logs that are being opened, nor the end of the process.
Rule 2. Old keys hold until newer ones are there: an issuer that is away lets known keys in. (Kafka's rule, too.)
Rule 3. A token that names a key which is not there has it fetched anew, not more often than `least_ms`: tokens are made
up by whoever likes.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.process.logging import EventLog

T = TypeVar("T")

LEAST_MS = 10_000
FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC"}
"""The type of key of a signature, by how its name begins."""

_log = EventLog("sasl")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One public key. `algorithm` is the one signature that it is for, if the set says so."""

    key_id: str | None
    family: str
    algorithm: str | None
    key: Any


class Far(Protocol):
    """What it needs of the world."""

    def run_far(self, work: Callable[[], T]) -> "asyncio.Future[T]": ...

    def monotonic_ms(self) -> int: ...


class KeySet:
    """See the head of this file. `fetch` may block, and raises `OSError` or `ValueError`."""

    def __init__(self, fetch: Callable[[], bytes], world: Far, *, refresh_ms: int, least_ms: int = LEAST_MS) -> None:
        self._fetch = fetch
        self._world = world
        self._refresh_ms = refresh_ms
        self._least_ms = least_ms
        self._keys: list[SigningKey] = []
        self._tried_ms: int | None = None
        self._fetched_ms: int | None = None
        self._fetching: asyncio.Future[list[SigningKey]] | None = None

    async def fitting(self, algorithm: str, key_id: str | None) -> list[SigningKey]:
        """The keys that may have signed so, the one with the id alone where there is an id."""
        found = self._fitting(algorithm, key_id)
        now_ms = self._world.monotonic_ms()
        fresh = self._fetched_ms is not None and now_ms - self._fetched_ms < self._refresh_ms
        if found and fresh:
            return found
        if self._fetching is None and (self._tried_ms is None or now_ms - self._tried_ms >= self._least_ms):
            self._begin(now_ms)
        if found or self._fetching is None:
            return found
        await asyncio.wait([self._fetching])
        return self._fitting(algorithm, key_id)

    def _fitting(self, algorithm: str, key_id: str | None) -> list[SigningKey]:
        family = FAMILIES[algorithm[:2]]
        return [
            key
            for key in self._keys
            if key.family == family and key.algorithm in (None, algorithm) and key_id in (None, key.key_id)
        ]

    def _begin(self, now_ms: int) -> None:
        self._tried_ms = now_ms
        self._fetching = self._world.run_far(lambda: read_keys(self._fetch()))
        self._fetching.add_done_callback(self._done)

    def _done(self, fetched: "asyncio.Future[list[SigningKey]]") -> None:
        self._fetching = None
        if fetched.cancelled():
            return
        error = fetched.exception()
        if error is None:
            self._keys, self._fetched_ms = fetched.result(), self._world.monotonic_ms()
        elif isinstance(error, OSError | ValueError):
            _log.error("the keys of the issuer of tokens could not be fetched", reason=error, known=len(self._keys))
        else:
            _log.bug("the keys of the issuer of tokens could not be read", error)


def read_keys(text: bytes) -> list[SigningKey]:
    """The public keys of a set that sign; others are passed over. Raises `ValueError`."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    try:
        found = json.loads(text)
    except RecursionError:
        found = None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a JSON Web Key Set")
    keys: list[SigningKey] = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") not in FAMILIES.values():
            continue
        public = {name: value for name, value in entry.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "alg")}
        try:
            key = import_key(public)
        except (JoseError, TypeError, ValueError):
            continue
        keys.append(SigningKey(entry.get("kid"), entry["kty"], entry.get("alg"), key))
    if not keys:
        raise ValueError("a JSON Web Key Set without a public key that signs")
    return keys
