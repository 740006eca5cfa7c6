"""A client that says who it is: PLAIN and SCRAM over SaslHandshake 1 and SaslAuthenticate."""

import base64
import hmac
import os
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Protocol

from protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from protocol.sasl.scram import (
    MIN_ITERATIONS,
    SALT_DRAWN_BYTES,
    SCRAM_BY_LABEL,
    MalformedScram,
    ScramMechanism,
    client_final,
    client_final_without_proof,
    client_first,
    client_proof,
    conversation_of,
    credential,
    read_server_first,
    salted_password,
    server_final,
    server_signature,
    written_salt,
)
from tallystick.client.errors import NotAuthenticated, check

MOST_ITERATIONS = 1 << 20
"""A server that asks for more is not given them, and a person who does hears from the server that these are too many:
they are computed here."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client is, and how it proves that."""

    mechanism: str
    name: str
    password: str = field(repr=False)


def salt_and_salted(mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
    """A fresh salt, and the password salted with it: what AlterUserScramCredentials takes."""
    salt = written_salt(os.urandom(SALT_DRAWN_BYTES))
    return salt, salted_password(mechanism, password, salt, min(max(1, iterations), MOST_ITERATIONS))


class Asks(Protocol):
    """A connection, as far as it is needed here."""

    def ask(self, request: object, version: int | None = None) -> Awaitable[object]:
        """The answer to a request."""


async def authenticate(connection: Asks, who: Credentials) -> None:
    """Raises `KafkaError`, or `NotAuthenticated` where the server does not know the password itself."""
    shaken = await connection.ask(SaslHandshakeRequest(mechanism=who.mechanism), 1)
    assert isinstance(shaken, SaslHandshakeResponse)
    check(shaken.error_code, f"the broker knows {', '.join(shaken.mechanisms) or 'no mechanism'}")
    if who.mechanism == "PLAIN":
        await _say(connection, b"\0".join((b"", who.name.encode(), who.password.encode())))
    elif (mechanism := SCRAM_BY_LABEL.get(who.mechanism)) is not None:
        await _scram(connection, mechanism, who)
    else:
        raise NotAuthenticated(f"this client does not speak {who.mechanism}")


async def _scram(connection: Asks, mechanism: ScramMechanism, who: Credentials) -> None:
    drawn = base64.b64encode(os.urandom(18)).decode("ascii")
    bare = client_first(who.name, drawn)
    challenge = await _say(connection, b"n,," + bare)
    try:
        nonce, salt, iterations = read_server_first(challenge)
    except MalformedScram as problem:
        raise NotAuthenticated(f"the broker does not speak {who.mechanism}: {problem}") from None
    if not nonce.startswith(drawn) or not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise NotAuthenticated("the broker's challenge is not to be trusted")
    salted = salted_password(mechanism, who.password, salt, iterations)
    without_proof = client_final_without_proof(nonce)
    conversation = conversation_of(bare, challenge, without_proof)
    answer = await _say(connection, client_final(without_proof, client_proof(mechanism, salted, conversation)))
    kept = credential(mechanism, salted, salt, iterations)
    if not hmac.compare_digest(answer, server_final(server_signature(mechanism, kept, conversation))):
        raise NotAuthenticated("the broker does not know the password itself")


async def _say(connection: Asks, message: bytes) -> bytes:
    answer = await connection.ask(SaslAuthenticateRequest(auth_bytes=message))
    assert isinstance(answer, SaslAuthenticateResponse)
    check(answer.error_code, answer.error_message)
    return answer.auth_bytes
