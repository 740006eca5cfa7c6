"""SCRAM-SHA-256 and SCRAM-SHA-512 from the server's side.

A user that does not exist gets a salt, too, the same each time and like those of Kafka's tools and ours, and fails
where a wrong password does. Kafka says it in the first step. (Salts of made-up users change with a start of the broker,
and their iterations are the least there may be: who has more, or a salt of another tool, can be told from them.)
"""

import base64
import hashlib
import hmac
from collections.abc import Callable

from broker.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Authenticated, Challenge, ExchangeFailed, Step
from protocol.sasl.scram import (
    MIN_ITERATIONS,
    TOKEN_AUTHENTICATED,
    ClientFirst,
    MalformedScram,
    ScramCredential,
    ScramMechanism,
    conversation_of,
    proof_holds,
    read_client_final,
    read_client_first,
    server_final,
    server_first,
    server_signature,
    written_salt,
)

NONCE_BYTES = 18

CredentialOf = Callable[[ScramMechanism, str], ScramCredential | None]
"""What is kept of a user's password, if there is such a user."""


class MadeUpCredentials:
    """Of users that do not exist; nobody knows their passwords."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        drawn = hmac.digest(self._secret, f"{mechanism.label} {name}".encode(), "sha512")
        key = hashlib.new(mechanism.digest, drawn + self._secret).digest()
        return ScramCredential(written_salt(drawn), key, key, MIN_ITERATIONS)


class ScramExchange:
    """`nonce` is fresh randomness, `NONCE_BYTES` of it."""

    def __init__(
        self, mechanism: ScramMechanism, credential_of: CredentialOf, made_up: MadeUpCredentials, nonce: bytes
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._made_up = made_up
        self._nonce = base64.b64encode(nonce).decode("ascii")
        self._first: ClientFirst | None = None
        self._answered = b""
        self._exists = False
        self._kept: ScramCredential

    async def answer(self, message: bytes) -> Step:
        try:
            return self._begin(message) if self._first is None else self._finish(self._first, message)
        except MalformedScram as problem:
            raise ExchangeFailed(f"not a message of SCRAM: {problem}") from None

    def _begin(self, message: bytes) -> Challenge:
        first = read_client_first(message)
        if first.extensions.get(TOKEN_AUTHENTICATED, "").lower() == "true":
            raise ExchangeFailed("a delegation token; there are none")
        if first.authorization_id not in ("", first.name):
            raise ExchangeFailed("another authorization id", OTHER_AUTHORIZATION_ID)
        made_up = self._made_up.of(self._mechanism, first.name)
        known = self._credential_of(self._mechanism, first.name)
        self._exists = known is not None
        self._kept = known or made_up
        self._first = first
        self._nonce = first.nonce + self._nonce
        self._answered = server_first(self._nonce, self._kept.salt, self._kept.iterations)
        return Challenge(self._answered)

    def _finish(self, first: ClientFirst, message: bytes) -> Authenticated:
        final = read_client_final(message)
        if final.header != first.header or not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise ExchangeFailed("a message of another exchange")
        conversation = conversation_of(first.bare, self._answered, final.without_proof)
        holds = proof_holds(self._mechanism, self._kept, conversation, final.proof)
        if not holds or not self._exists:
            raise ExchangeFailed("wrong username or password")
        return Authenticated(first.name, server_final(server_signature(self._mechanism, self._kept, conversation)))
