"""SCRAM (RFC 5802, RFC 7677): what is kept of a password. What is secret is in no `repr` and in no error."""

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Kafka's bounds of what a credential may ask of its client."""


class ScramMechanism(IntEnum):
    """Numbers as requests and records have them."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def digest(self) -> str:
        """The hash function, as `hashlib` calls it."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password: it can check proofs with it, and not make them."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def credential(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a salted password."""
    stored = hashlib.new(mechanism.digest, client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", mechanism.digest), iterations)
