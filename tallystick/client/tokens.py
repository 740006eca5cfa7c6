"""Tokens of OAUTHBEARER: from a token endpoint, from a file, or unsecured ones for a first try.

As in Kafka (KIP-768): the endpoint is asked for client credentials (RFC 6749, 4.4), and a token that has come is used
until four fifths of its life are over.
"""

import base64
import json
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from tallystick.client.errors import NotAuthenticated

_USED_OF_ITS_LIFE = 0.8
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileToken:
    """A file that somebody keeps fresh."""

    path: str

    def token(self) -> str:
        try:
            with open(self.path, encoding="ascii") as source:
                found = source.read(_MOST_BYTES).strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise NotAuthenticated(f"the file of the token cannot be read: {problem}") from None
        return _checked(found, self.path)


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token that nobody has signed (RFC 7515, A.5), as Kafka's clients make them by default: for development."""

    claims: tuple[tuple[str, str | float], ...]
    lasts_s: float

    def token(self) -> str:
        now = time.time()
        parts = ({"alg": "none"}, {**dict(self.claims), "iat": now, "exp": now + self.lasts_s})
        return ".".join(_base64(json.dumps(part).encode()) for part in parts) + "."


@dataclass(slots=True)
class EndpointToken:
    """Tokens of a token endpoint, one for all connections of the process."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    urlencoded: bool = False
    """Whether id and secret are encoded as RFC 6749 has it; most endpoints do not want that."""
    timeout_s: float = 10.0
    _known: str = field(default="", repr=False)
    _until_s: float = 0.0
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self) -> str:
        with self._asking:
            if time.monotonic() >= self._until_s:
                began_s = time.monotonic()
                self._known, lasts_s = self._asked()
                self._until_s = began_s + _USED_OF_ITS_LIFE * lasts_s
            return self._known

    def _asked(self) -> tuple[str, float]:
        """A token, and for how many seconds it is good."""
        who = [quote(one, safe="") if self.urlencoded else one for one in (self.client_id, self.secret)]
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(':'.join(who).encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request(self.url, urlencode(form).encode(), headers)  # noqa: S310  http or https, seen to by settings
        try:
            # The system's proxies and authorities hold, as for everything that Python asks for.
            with build_opener(HTTPSHandler(), _NoRedirects()).open(request, timeout=self.timeout_s) as answer:
                return self._read(answer.read(_MOST_BYTES))
        except HTTPError as refused:
            with refused:
                words = refused.read(300).decode(errors="replace")
            if refused.code >= 500 or refused.code == 429:
                raise OSError(f"{self.url} answers {refused.code}: {words}") from None
            raise NotAuthenticated(f"{self.url} gives no token: {refused.code} {words}") from None
        except HTTPException as broken:
            raise OSError(f"{self.url} answers what is no HTTP: {broken}") from None
        except OSError as away:
            raise OSError(f"the token endpoint {self.url} is not reached: {getattr(away, 'reason', away)}") from None

    def _read(self, body: bytes) -> tuple[str, float]:
        try:
            answer = json.loads(body)
            token, lasts_s = str(answer["access_token"]), answer.get("expires_in")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotAuthenticated(f"{self.url} answers without an access_token") from None
        claims = _claims(_checked(token, self.url))
        if isinstance(claims.get("exp"), int | float):
            return token, claims["exp"] - time.time()
        return token, float(lasts_s) if isinstance(lasts_s, int | float) else 0.0


class _NoRedirects(HTTPRedirectHandler):
    """The secret is for the endpoint that was named."""

    def redirect_request(self, *_given: Any) -> None:
        return None


def _checked(token: str, source: str) -> str:
    if not token or any(not 0x21 <= ord(letter) <= 0x7E for letter in token):
        raise NotAuthenticated(f"what {source} holds is not a token")
    return token


def _claims(token: str) -> dict[str, Any]:
    """What is written in a token, unless only its issuer can read it."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
