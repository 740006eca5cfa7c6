"""What may have happened to a transactional id, in the order in which it did. Times are the broker's, in milliseconds.

Each event says itself as JSON can (`as_json`); a client is written as its number in the list that goes with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from broker.journal.peers import Peer

Json: TypeAlias = dict[str, Any]
Number: TypeAlias = Callable[[Peer], int]
"""The number of a client in the list of an answer."""

EVENT_BYTES = 500
"""What an event weighs, with its share of a peer; texts and places beside it count by themselves."""
PLACE_BYTES = 120
MOST_PLACES = 64
"""Partitions that one event names; further ones are counted."""

Place: TypeAlias = tuple[str, int]


@dataclass(slots=True, eq=False)
class Asked:
    """A request, and its answer when there is one."""

    at_ms: int
    number: int
    peer: Peer
    api: str
    version: int
    says: Json
    answered_ms: int | None = None
    error: str = ""
    gave: Json = field(default_factory=dict)
    weight: int = EVENT_BYTES

    def as_json(self, number: Number) -> Json:
        return {
            "is": "request",
            "at": self.at_ms,
            "number": self.number,
            "client": number(self.peer),
            "api": self.api,
            "version": self.version,
            "says": self.says,
            "answeredAt": self.answered_ms,
            "error": self.error or None,
            "gives": self.gave,
        }


@dataclass(slots=True, eq=False)
class Changed:
    """A record of the coordinator: the state and the identity that hold from here on."""

    at_ms: int
    state: str
    producer_id: int
    epoch: int
    partitions: int
    timeout_ms: int
    because: str
    by: Asked | None
    weight: int = EVENT_BYTES

    def as_json(self, number: Number) -> Json:
        return {
            "is": "state",
            "at": self.at_ms,
            "state": self.state,
            "producerId": self.producer_id,
            "epoch": self.epoch,
            "partitions": self.partitions,
            "timeoutMs": self.timeout_ms,
            "because": self.because,
            "request": None if self.by is None else self.by.number,
        }


@dataclass(slots=True, eq=False)
class Wrote:
    """Batches of one producer into one partition, with nothing but others of them in between."""

    at_ms: int
    until_ms: int
    peer: Peer
    version: int
    place: Place | None
    """None for partitions beyond the first `MOST_PLACES`."""
    base_offset: int
    last_offset: int
    producer_id: int
    epoch: int
    error: str
    batches: int = 1
    records: int = 0
    bytes: int = 0
    weight: int = EVENT_BYTES

    def as_json(self, number: Number) -> Json:
        return {
            "is": "records",
            "at": self.at_ms,
            "until": self.until_ms,
            "client": number(self.peer),
            "version": self.version,
            "topic": None if self.place is None else self.place[0],
            "partition": None if self.place is None else self.place[1],
            "baseOffset": self.base_offset,
            "lastOffset": self.last_offset,
            "producerId": self.producer_id,
            "epoch": self.epoch,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "error": self.error,
        }


@dataclass(slots=True, eq=False)
class Marked:
    """Markers that were written, or refused, one after the other."""

    at_ms: int
    until_ms: int
    commit: bool
    producer_id: int
    epoch: int
    by_operator: bool
    error: str
    places: list[tuple[str, int, int]] = field(default_factory=list)
    """(topic, partition, offset); -1 where the offset is a coordinator's affair."""
    count: int = 0
    weight: int = EVENT_BYTES

    def as_json(self, number: Number) -> Json:
        return {
            "is": "markers",
            "at": self.at_ms,
            "until": self.until_ms,
            "commit": self.commit,
            "producerId": self.producer_id,
            "epoch": self.epoch,
            "byOperator": self.by_operator,
            "error": self.error,
            "places": [list(place) for place in self.places],
            "count": self.count,
        }


Event: TypeAlias = Asked | Changed | Wrote | Marked
