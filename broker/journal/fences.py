"""Who raised the epoch of a transactional id, and who was turned away because of it. Both outlive the timeline of a
busy id: they are few, and what they tell of is asked for later."""

from dataclasses import dataclass
from typing import Any

from broker.journal.events import Asked, Number
from broker.journal.peers import Peer

MOST_OF_EACH = 20
FENCE_BYTES = 400

TURNED_AWAY = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})
"""What a producer is answered whose identity is not that of its transactional id, or not any more."""


@dataclass(slots=True, eq=False)
class Raised:
    """The identity was another one before."""

    at_ms: int
    before: tuple[int, int] | None
    """Producer id and epoch; None where the journal does not know."""
    after: tuple[int, int]
    because: str
    own: bool
    """Whether the producer did so itself, with the end of a transaction: each has an epoch of its own (KIP-890)."""
    by: Asked | None
    times: int = 1

    def as_json(self, number: Number) -> dict[str, Any]:
        return {
            "at": self.at_ms,
            "from": None if self.before is None else list(self.before),
            "to": list(self.after),
            "because": self.because,
            "own": self.own,
            "times": self.times,
            "api": None if self.by is None else self.by.api,
            "request": None if self.by is None else self.by.number,
            "client": None if self.by is None else number(self.by.peer),
        }


@dataclass(slots=True, eq=False)
class Refused:
    """Requests that were turned away, one after the other."""

    at_ms: int
    until_ms: int
    peer: Peer
    api: str
    error: str
    claimed: tuple[int, int]
    times: int = 1

    def as_json(self, number: Number) -> dict[str, Any]:
        return {
            "at": self.at_ms,
            "until": self.until_ms,
            "client": number(self.peer),
            "api": self.api,
            "error": self.error,
            "claimed": list(self.claimed),
            "times": self.times,
        }


class Fences:
    """Those of one transactional id; the latest of each."""

    __slots__ = ("identity", "raised", "refused")

    def __init__(self) -> None:
        self.identity: tuple[int, int] | None = None
        # Of most ids there is next to nothing: an empty list takes a tenth of what an empty deque does.
        self.raised: list[Raised] = []
        self.refused: list[Refused] = []

    def take(self, at_ms: int, identity: tuple[int, int], because: str, by: Asked | None, *, own: bool) -> int:
        """An identity that the coordinator wrote down; by how much this grew."""
        before, self.identity = self.identity, identity
        if before == identity:
            return 0
        size, last = len(self.raised), self.raised[-1] if self.raised else None
        if own and last is not None and last.own:
            last.at_ms, last.after, last.by, last.times = at_ms, identity, by, last.times + 1
        else:
            self.raised.append(Raised(at_ms, before, identity, because, own, by))
            del self.raised[:-MOST_OF_EACH]
        return (len(self.raised) - size) * FENCE_BYTES

    def turn_away(self, at_ms: int, peer: Peer, api: str, error: str, claimed: tuple[int, int]) -> int:
        """A request that was answered with one of `TURNED_AWAY`; by how much this grew."""
        last = self.refused[-1] if self.refused else None
        if last is not None and (last.peer, last.api, last.error, last.claimed) == (peer, api, error, claimed):
            last.until_ms, last.times = at_ms, last.times + 1
            return 0
        size = len(self.refused)
        self.refused.append(Refused(at_ms, at_ms, peer, api, error, claimed))
        del self.refused[:-MOST_OF_EACH]
        return (len(self.refused) - size) * FENCE_BYTES
