"""SCRAM (RFC 5802, RFC 7677): what is kept of a password, the messages of an exchange, proofs and signatures.

    client first  n,,n=alice,r=NONCE              server first  r=NONCE+MORE,s=SALT,i=4096
    client final  c=biws,r=NONCE+MORE,p=PROOF     server final  v=SIGNATURE

Rule 1. As Kafka, names and passwords are UTF-8 as they are given, without SASLprep; there is no channel binding.
Rule 2. What is secret is in no `repr` and in no error.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Kafka's bounds of what a credential may ask of its client."""
SALT_BITS = 130
SALT_DRAWN_BYTES = 17
"""What `written_salt` wants to be given."""
DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
TOKEN_AUTHENTICATED = "tokenauth"  # noqa: S105  the name of an attribute
"""The extension of a client that authenticates with a delegation token (KIP-48)."""


class ScramMechanism(IntEnum):
    """Numbers as requests and records have them."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def label(self) -> str:
        """The name of the mechanism in SASL."""
        return "SCRAM-SHA-256" if self is ScramMechanism.SHA_256 else "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """The hash function, as `hashlib` calls it."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


SCRAM_BY_LABEL = {one.label: one for one in ScramMechanism}


class MalformedScram(Exception):
    """A message that is none of SCRAM's; the text holds nothing of it."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password: it can check proofs with it, and not make them."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of a password; some milliseconds for thousands of iterations."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def written_salt(drawn: bytes) -> bytes:
    """A salt of random bytes, as Kafka's tools write theirs: a number of 130 bits to base 36. Anybody may ask for
    anybody's salt, so that a salt of another kind would say who made it."""
    number, digits = int.from_bytes(drawn[:SALT_DRAWN_BYTES]) >> (8 * SALT_DRAWN_BYTES - SALT_BITS), bytearray()
    while number or not digits:
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return bytes(reversed(digits))


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def credential(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a salted password."""
    stored = hashlib.new(mechanism.digest, client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored, hmac.digest(salted, b"Server Key", mechanism.digest), iterations)


def client_proof(mechanism: ScramMechanism, salted: bytes, conversation: bytes) -> bytes:
    """What shows that a client knows the password, in this conversation alone."""
    key = client_key(mechanism, salted)
    stored = hashlib.new(mechanism.digest, key).digest()
    return _exclusive_or(key, hmac.digest(stored, conversation, mechanism.digest))


def proof_holds(mechanism: ScramMechanism, kept: ScramCredential, conversation: bytes, proof: bytes) -> bool:
    """Whether a client that sent this proof knows the password. Takes the same time for each proof of a length."""
    signature = hmac.digest(kept.stored_key, conversation, mechanism.digest)
    if len(proof) != len(signature):
        return False
    key = _exclusive_or(proof, signature)
    return hmac.compare_digest(hashlib.new(mechanism.digest, key).digest(), kept.stored_key)


def server_signature(mechanism: ScramMechanism, kept: ScramCredential, conversation: bytes) -> bytes:
    """What shows that a server keeps something of the password."""
    return hmac.digest(kept.server_key, conversation, mechanism.digest)


def _exclusive_or(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


def conversation_of(client_first_bare: bytes, server_first: bytes, client_final_without_proof: bytes) -> bytes:
    """RFC 5802's AuthMessage."""
    return b",".join((client_first_bare, server_first, client_final_without_proof))


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """`header` is what stands before the bare message: the flag of channel binding, and for whom a client would act."""

    header: bytes
    bare: bytes
    authorization_id: str
    name: str
    nonce: str
    extensions: dict[str, str]


def read_client_first(message: bytes) -> ClientFirst:
    """Raises `MalformedScram`, for one that asks for channel binding, too."""
    flag, authorization, *attributes = _attributes(message, at_least=4)
    # "y": the client could bind to a channel, and thinks that the server cannot. It is right.
    if flag not in ("n", "y"):
        raise MalformedScram("the client asks for channel binding")
    if authorization and not authorization.startswith("a="):
        raise MalformedScram("something else where an authorization id should stand")
    header = f"{flag},{authorization},".encode()
    if attributes[0].startswith("m="):
        raise MalformedScram("a mandatory extension that is not known")
    return ClientFirst(
        header,
        message[len(header) :],
        _name(authorization[2:]) if authorization else "",
        _name(_valued(attributes[0], "n")),
        _valued(attributes[1], "r"),
        dict(_extension(one) for one in attributes[2:]),
    )


def client_first(name: str, nonce: str, *, by_token: bool = False) -> bytes:
    """The bare message; `n,,` goes before it. `by_token`: the name is a delegation token's id (KIP-48)."""
    extension = ",tokenauth=true" if by_token else ""
    return f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}".encode()


def server_first(nonce: str, salt: bytes, iterations: int) -> bytes:
    return f"r={nonce},s={_base64(salt)},i={iterations}".encode()


def read_server_first(message: bytes) -> tuple[str, bytes, int]:
    """(nonce, salt, iterations). Raises `MalformedScram`."""
    nonce, salt, iterations, *_ = _attributes(message, at_least=3)
    number = _valued(iterations, "i")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise MalformedScram("the iterations are no number")
    return _valued(nonce, "r"), _bytes_of(_valued(salt, "s")), int(number)


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """`without_proof` is all of the message but the proof."""

    header: bytes
    nonce: str
    proof: bytes = field(repr=False)
    without_proof: bytes


def read_client_final(message: bytes) -> ClientFinal:
    """Raises `MalformedScram`."""
    channel, nonce, *more = _attributes(message, at_least=3)
    proof = _valued(more[-1], "p")
    return ClientFinal(
        _bytes_of(_valued(channel, "c")),
        _valued(nonce, "r"),
        _bytes_of(proof),
        message[: -len(f",p={proof}".encode())],
    )


def client_final_without_proof(nonce: str) -> bytes:
    return f"c={_base64(b'n,,')},r={nonce}".encode()


def client_final(without_proof: bytes, proof: bytes) -> bytes:
    return without_proof + b",p=" + _base64(proof).encode()


def server_final(signature: bytes) -> bytes:
    return f"v={_base64(signature)}".encode()


def _attributes(message: bytes, *, at_least: int) -> list[str]:
    try:
        found = message.decode().split(",")
    except UnicodeDecodeError:
        raise MalformedScram("the message is not UTF-8") from None
    if len(found) < at_least or b"\0" in message:
        raise MalformedScram("the message is not whole")
    return found


def _valued(attribute: str, letter: str) -> str:
    name, equals, value = attribute.partition("=")
    if name != letter or not equals or not value:
        raise MalformedScram(f"something else where {letter}= should stand")
    return value


def _extension(attribute: str) -> tuple[str, str]:
    name, equals, value = attribute.partition("=")
    if not (name.isascii() and name.isalpha() and equals and value):
        raise MalformedScram("an extension that is none")
    return name, value


def _name(written: str) -> str:
    """A name in which `=2C` stands for a comma and `=3D` for an equals sign."""
    rest = written.replace("=2C", "").replace("=3D", "")
    if "=" in rest or not written:
        raise MalformedScram("a name that is none")
    return written.replace("=2C", ",").replace("=3D", "=")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedScram("something that is not base64") from None
