"""A client that says who it is: PLAIN, SCRAM and OAUTHBEARER over SaslHandshake 1 and SaslAuthenticate.

The conversation is a generator of requests that is sent their responses: connections of asyncio and blocking ones hold
the same.
"""

import os
from collections.abc import Awaitable, Generator
from typing import Any, Protocol

from protocol.errors import ErrorCode
from protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from protocol.sasl.scram import (
    SALT_DRAWN_BYTES,
    SCRAM_BY_LABEL,
    MalformedScram,
    ScramMechanism,
    salted_password,
    written_salt,
)
from protocol.sasl.scram_client import NONCE_BYTES, ScramClient
from tallystick.client.errors import KafkaError, NotAuthenticated, check
from tallystick.client.security import Credentials

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_BY_LABEL, OAUTHBEARER)
"""What is spoken here."""
MOST_ITERATIONS = 1 << 20
"""A server that asks for more is not given them, and a person who does hears from the server that these are too many:
they are computed here."""
_ENDED = b"\x01"
"""What a client of OAUTHBEARER answers to a refusal (RFC 7628, 3.2.3)."""

Conversation = Generator[object, Any, int]
"""Requests out, their responses in; in the end for how many ms the session lasts, 0 without an end."""


class Asks(Protocol):
    """A connection, as far as it is needed here."""

    def ask(self, request: object, version: int | None = None) -> Awaitable[object]:
        """The answer to a request."""


def salt_and_salted(mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
    """A fresh salt, and the password salted with it: what AlterUserScramCredentials takes."""
    salt = written_salt(os.urandom(SALT_DRAWN_BYTES))
    return salt, salted_password(mechanism, password, salt, min(max(1, iterations), MOST_ITERATIONS))


def version_of(request: object) -> int | None:
    """In which version a request of a conversation is sent; None for the highest that both sides know."""
    return 1 if isinstance(request, SaslHandshakeRequest) else None


async def authenticate(connection: Asks, who: Credentials, token: str | None = None) -> int:
    """Hold the conversation. Raises `KafkaError`, or `NotAuthenticated` where the server does not know the password
    itself. Returns for how many ms the session lasts, 0 without an end.
    """
    talk, answer = conversation(who, token), None
    while True:
        try:
            request = talk.send(answer)
        except StopIteration as end:
            return int(end.value)
        answer = await connection.ask(request, version_of(request))


def conversation(who: Credentials, token: str | None = None) -> Conversation:
    """What is said and heard; `token` is that of OAUTHBEARER. Raises what `authenticate` raises."""
    if who.mechanism not in MECHANISMS:
        raise NotAuthenticated(f"this client does not speak {who.mechanism}, but {', '.join(MECHANISMS)}")
    shaken = yield SaslHandshakeRequest(mechanism=who.mechanism)
    assert isinstance(shaken, SaslHandshakeResponse)
    if shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise KafkaError(shaken.error_code, "the listener does not take SASL")
    check(shaken.error_code, f"{who.mechanism} is not among what the listener takes: {_listed(shaken.mechanisms)}")
    if (mechanism := SCRAM_BY_LABEL.get(who.mechanism)) is not None:
        return (yield from _scram(mechanism, who))
    if who.mechanism == OAUTHBEARER:
        assert token is not None, "a token was got"
        return (yield from _bearer(token, who))
    return (yield from _say(b"\0".join((b"", who.name.encode(), who.password.encode())))).session_lifetime_ms


def _scram(mechanism: ScramMechanism, who: Credentials) -> Conversation:
    exchange = ScramClient(
        mechanism,
        who.name,
        who.password,
        os.urandom(NONCE_BYTES),
        by_token=who.by_token,
        most_iterations=MOST_ITERATIONS,
    )
    challenge = (yield from _say(exchange.first)).auth_bytes
    try:
        final = exchange.final(challenge)
    except MalformedScram as problem:
        raise NotAuthenticated(f"the broker does not speak {who.mechanism}: {problem}") from None
    answer = yield from _say(final)
    if not exchange.believes(answer.auth_bytes):
        raise NotAuthenticated("the broker does not know the password itself")
    return answer.session_lifetime_ms


def _bearer(token: str, who: Credentials) -> Conversation:
    pairs = [("auth", f"Bearer {token}"), *who.extensions]
    written = "".join(f"{name}={value}\x01" for name, value in pairs)
    answer = yield from _say(f"n,,\x01{written}\x01".encode())
    if answer.auth_bytes:
        yield from _say(_ENDED)
        raise NotAuthenticated(f"the broker refuses the token: {answer.auth_bytes.decode(errors='replace')}")
    return answer.session_lifetime_ms


def _say(message: bytes) -> Generator[object, Any, SaslAuthenticateResponse]:
    answer = yield SaslAuthenticateRequest(auth_bytes=message)
    assert isinstance(answer, SaslAuthenticateResponse)
    check(answer.error_code, answer.error_message)
    return answer


def _listed(mechanisms: list[str]) -> str:
    return ", ".join(mechanisms) or "nothing"
