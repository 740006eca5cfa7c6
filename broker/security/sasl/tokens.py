"""Tokens of OAUTHBEARER (JWT): whose they are, until when, and whether that is to be believed.

Signed ones are checked against the keys of their issuer (`key_set`). Unsecured ones (RFC 7515, A.5) say whatever their
sender likes; they are believed only where the settings ask for that by name.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from broker.security.sasl.key_set import KeySet, SigningKey

SIGNATURES = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"))
"""Asymmetric ones alone: a public key is never the secret of an HMAC. Never `none`."""
KEYS_TRIED = 8
"""Of those that fit a token without a key id."""
LATEST_S = 1e12
"""No time that a token names lies beyond."""


class TokenRefused(Exception):
    """A token that is not believed; the text holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Token:
    """Whom it names, and when it ends (wall-clock ms)."""

    name: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to say. `audiences` empty, `issuer` None: whatever it likes."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: frozenset[str] = frozenset()
    """All of them."""
    skew_ms: int = 30_000
    """How far clocks may be apart."""
    needs_issue_time: bool = True


class Tokens(Protocol):
    """Who decides about tokens."""

    async def check(self, token: str) -> Token:
        """Raises `TokenRefused`. Waits where keys have to be fetched first."""


class UnsecuredTokens:
    """Without a signature. For development."""

    def __init__(self, rules: TokenRules, wall_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._wall_ms = wall_ms

    async def check(self, token: str) -> Token:
        header, claims, signature = _parts(token)
        if _object(header).get("alg") != "none" or signature:
            raise TokenRefused("a signed token where only unsecured ones are looked at")
        return accepted(_object(claims), self._rules, self._wall_ms())


class SignedTokens:
    """Signed by one of the keys of a set."""

    def __init__(self, keys: KeySet, rules: TokenRules, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms

    async def check(self, token: str) -> Token:
        header = _object(_parts(token)[0])
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in SIGNATURES or not isinstance(key_id, str | None):
            raise TokenRefused("a token that is not signed as it should be")
        fitting = await self._keys.fitting(algorithm, key_id)
        if not fitting:
            raise TokenRefused("signed with a key that is not known")
        return accepted(_verified(token, algorithm, fitting[:KEYS_TRIED]), self._rules, self._wall_ms())


def _verified(token: str, algorithm: str, keys: list[SigningKey]) -> Mapping[str, Any]:
    """The claims, if one of the keys has signed them. Times and names are looked at in `accepted`."""
    from joserfc import jws
    from joserfc.errors import JoseError

    for key in keys:
        try:
            return _object(jws.deserialize_compact(token, key.key, algorithms=[algorithm]).payload)
        except (JoseError, TypeError, ValueError, RecursionError):
            continue
    raise TokenRefused("a signature that does not hold")


def accepted(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Token:
    """What the claims come to. Raises `TokenRefused`."""
    ends_ms = _time(claims, "exp")
    begins_ms, issued_ms = _time(claims, "nbf"), _time(claims, "iat")
    if ends_ms is None:
        raise TokenRefused("a token without an end")
    if now_ms >= ends_ms + rules.skew_ms:
        raise TokenRefused("a token that has ended")
    if begins_ms is not None and now_ms < begins_ms - rules.skew_ms:
        raise TokenRefused("a token that has not begun")
    if issued_ms is None and rules.needs_issue_time:
        raise TokenRefused("a token that does not say when it was issued")
    if issued_ms is not None and issued_ms > ends_ms:
        raise TokenRefused("a token that ends before it was issued")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("a token of another issuer")
    if rules.audiences and not rules.audiences & _words(claims.get("aud")):
        raise TokenRefused("a token for another audience")
    if not rules.scopes <= _words(claims.get(rules.scope_claim), split=True):
        raise TokenRefused("a token without the scope")
    name = claims.get(rules.subject_claim)
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused("a token that names nobody")
    return Token(name, ends_ms)


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """In milliseconds; None where it is not there. Raises `TokenRefused` for what is no time."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LATEST_S:
        raise TokenRefused(f"a token whose {name} is no time")
    return int(value * 1000)


def _words(value: object, *, split: bool = False) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split() if split else (value,))
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()


def _parts(token: str) -> tuple[bytes, bytes, bytes]:
    written = token.split(".", 3)
    if len(written) != 3:
        raise TokenRefused("not a token of three parts")
    try:
        header, claims, signature = (
            base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True) for part in written
        )
    except (binascii.Error, ValueError):
        raise TokenRefused("a token that is not base64") from None
    return header, claims, signature


def _object(part: bytes) -> Mapping[str, Any]:
    try:
        read = json.loads(part)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise TokenRefused("a token that is not made of JSON objects")
    return read
