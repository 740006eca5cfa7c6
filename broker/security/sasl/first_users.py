"""The users that a cluster begins with, written as `kafka-storage format --add-scram` takes them:

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name=bob,iterations=8192,salt="BASE64",saltedpassword="BASE64"]

How they are read: `protocol.sasl.written_users`.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.config.sources import ConfigError
from coordinator.cluster.scram import FirstUser
from protocol.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_DRAWN_BYTES,
    ScramMechanism,
    credential,
    salted_password,
    written_salt,
)
from protocol.sasl.written_users import BadUser, read_users

KEY = "tallystick.add.scram"
FIELDS = frozenset(("name", "password", "iterations", "salt", "saltedpassword"))


@dataclass(frozen=True, slots=True)
class WantedUser:
    """One entry. Either the password or what is salted of it is there."""

    mechanism: ScramMechanism
    name: str
    iterations: int
    salt: bytes | None = field(repr=False)
    password: str | None = field(repr=False)
    salted: bytes | None = field(repr=False)

    def made(self, random_bytes: Callable[[int], bytes]) -> FirstUser:
        """What is kept of it; some milliseconds."""
        salt = written_salt(random_bytes(SALT_DRAWN_BYTES)) if self.salt is None else self.salt
        salted = self.salted
        if salted is None:
            assert self.password is not None
            salted = salted_password(self.mechanism, self.password, salt, self.iterations)
        return FirstUser(self.name, self.mechanism, credential(self.mechanism, salted, salt, self.iterations))


def read_first_users(text: str) -> list[WantedUser]:
    """Raises `ConfigError`."""
    try:
        written = read_users(text)
    except BadUser as problem:
        raise ConfigError(f"{KEY}: {problem}.") from None
    wanted = [_user(mechanism, said, number) for number, (mechanism, said) in enumerate(written, 1)]
    named = [(one.mechanism, one.name) for one in wanted]
    if len(set(named)) < len(named):
        raise ConfigError(f"{KEY}: a user is in it twice.")
    return wanted


def _user(mechanism: ScramMechanism, said: dict[str, str], number: int) -> WantedUser:
    iterations = said.get("iterations", str(MIN_ITERATIONS))
    problem = ""
    if said.keys() - FIELDS:
        problem = f"may say nothing but {', '.join(sorted(FIELDS))}"
    elif not said.get("name"):
        problem = "needs a name"
    elif ("password" in said) == ("saltedpassword" in said) or not (said.get("password") or said.get("saltedpassword")):
        problem = "needs either a password or a saltedpassword"
    elif "saltedpassword" in said and "salt" not in said:
        problem = "needs the salt of its saltedpassword"
    elif not (iterations.isascii() and iterations.isdecimal() and MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS):
        problem = f"needs iterations between {MIN_ITERATIONS} and {MAX_ITERATIONS}"
    if problem:
        raise ConfigError(f"{KEY}: user {number} {problem}.")
    return WantedUser(
        mechanism,
        said["name"],
        int(iterations),
        _decoded(said.get("salt"), number),
        said.get("password"),
        _decoded(said.get("saltedpassword"), number),
    )


def _decoded(text: str | None, number: int) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{KEY}: salt and saltedpassword of user {number} are base64.") from None
