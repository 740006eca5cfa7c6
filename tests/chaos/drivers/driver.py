"""What a chaos worker wants of a client, whichever it is.

All of it waits until it is done. What goes wrong is a `Failed`, which says what may be done next: repeat the call,
abort the transaction, or throw the client away.
"""

import importlib
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

    def send(self, place: Place, value: bytes) -> None: ...

    def sent(self) -> list[int | None]:
        """Offsets of everything sent since the last call, in order; None for what failed."""

    def send_offsets(self, group: str, place: Place, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """At once, whatever is under way."""


class Reader(Protocol):
    """A consumer with read_committed, from the start of some partitions."""

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        """(place, offset, value) of what came."""

    def close(self) -> None: ...


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


def make_reader(client: str, bootstrap: str, places: list[Place]) -> Reader:
    made: Reader = importlib.import_module(MODULES[client]).Reading(bootstrap, places)
    return made
