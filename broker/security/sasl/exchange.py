"""What an exchange of a SASL mechanism is to its connection, whatever the mechanism.

Rule. What a client is told of a failure does not depend on whether the user exists: all credentials that are wrong are
wrong in the same words, in the same step, at the same price.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client is to send one more message."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end: who it is, the last message to the client, and until when that is so (wall-clock ms; None: for good)."""

    name: str
    message: bytes = b""
    until_ms: int | None = None


Step = Challenge | Authenticated


class ExchangeFailed(Exception):
    """The client is not let in. `told` is for the client (None: the sentence that tells nothing), `reason` for our log,
    a few fixed words that hold nothing of what it sent."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told


class Exchange(Protocol):
    """One try of one client."""

    async def answer(self, message: bytes) -> Step:
        """The answer to a message of the client. Raises `ExchangeFailed`. Waits only where keys are to be fetched."""


OTHER_AUTHORIZATION_ID = "Authentication failed: Client requested an authorization id that is different from username"
