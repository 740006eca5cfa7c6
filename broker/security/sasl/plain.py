"""PLAIN (RFC 4616): a name and a password, as they are; `[authorization id] NUL name NUL password`."""

import hashlib
import hmac
from collections.abc import Mapping

from broker.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Authenticated, ExchangeFailed, Step

INVALID = "Authentication failed: Invalid username or password"
MOST_COUNTED = 4
"""Of the parts of a message that has more than its three; Kafka stops there, too."""


class PlainExchange:
    """`passwords` by name; compared by their hashes, so that the time tells neither length nor existence."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    async def answer(self, message: bytes) -> Step:
        parts = message.split(b"\0", MOST_COUNTED)[:MOST_COUNTED]
        if len(parts) != 3:
            told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise ExchangeFailed("not a message of PLAIN", told)
        # As Java reads it: what is not UTF-8 is some letter that no password has.
        authorization_id, name, password = (part.decode(errors="replace") for part in parts)
        if not name:
            raise ExchangeFailed("no username", "Authentication failed: username not specified")
        if not password:
            raise ExchangeFailed("no password", "Authentication failed: password not specified")
        known = self._passwords.get(name)
        same = hmac.compare_digest(_hashed(password), _hashed(known or ""))
        if not same or known is None:
            raise ExchangeFailed("wrong username or password", INVALID)
        if authorization_id not in ("", name):
            raise ExchangeFailed("another authorization id", OTHER_AUTHORIZATION_ID)
        return Authenticated(name)


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
