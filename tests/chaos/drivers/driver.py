"""What a chaos worker wants of a client, whichever it is.

All of it waits until it is done. What goes wrong is a `Failed`, which says what may be done next: repeat the call,
abort the transaction, or throw the client away.
"""

import importlib
from collections.abc import Mapping
from typing import Protocol

Place = tuple[str, int]
RETRIABLE, ABORTABLE, FATAL = "retriable", "abortable", "fatal"


class Failed(Exception):
    """The client said no."""

    def __init__(self, kind: str, reason: object) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind


class Driver(Protocol):
    """A producer. One without a transactional id has no transactions, and is idempotent."""

    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, place: Place, value: bytes, key: bytes) -> None: ...

    def sent(self) -> list[int | None]:
        """Offsets of everything sent since the last call, in order; None for what failed, below 0 where the broker did
        not say."""

    def send_offsets(self, group: str, offsets: Mapping[Place, int], member: "Member | None") -> None:
        """The next offsets to read, with what the client knows of its membership (KIP-447), if it is a member."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """At once, whatever is under way."""


class Reader(Protocol):
    """A consumer with read_committed, from the start of some partitions."""

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        """(place, offset, value) of what came."""

    def close(self) -> None: ...


class Member(Protocol):
    """A consumer with read_committed in a group, which goes on where the group's committed offsets are.

    One that cannot tell its membership to a producer (aiokafka) has its partitions assigned by hand instead.
    """

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        """As with a reader. Nothing that came before a rebalance is returned after it."""

    def assigned(self) -> dict[Place, int | None] | None:
        """If partitions were assigned anew since the last call: which, and from where on if that is known."""

    def rewind(self, offsets: Mapping[Place, int]) -> None:
        """Read from there again."""

    def close(self) -> None: ...


SESSION_MS = 6000
"""Of a member: the least that Apache Kafka takes."""
MOST_RECORDS = 200
"""In one poll of a member."""
MODULES = {
    "librdkafka": "tests.chaos.drivers.librdkafka",
    "kafka-python": "tests.chaos.drivers.kafka_python",
    "aiokafka": "tests.chaos.drivers.asynchronous",
    "java": "tests.chaos.drivers.java",
}
TRANSACTION_VERSION = {"librdkafka": 0, "kafka-python": 0, "aiokafka": 0, "java": 2}


def make_driver(client: str, bootstrap: str, transactional_id: str | None, timeout_ms: int) -> Driver:
    made: Driver = importlib.import_module(MODULES[client]).Producing(bootstrap, transactional_id, timeout_ms)
    return made


def make_member(client: str, bootstrap: str, group: str, places: list[Place]) -> Member:
    """`places`: all partitions of one topic."""
    made: Member = importlib.import_module(MODULES[client]).Joined(bootstrap, group, places)
    return made


def make_reader(client: str, bootstrap: str, places: list[Place]) -> Reader:
    made: Reader = importlib.import_module(MODULES[client]).Reading(bootstrap, places)
    return made
