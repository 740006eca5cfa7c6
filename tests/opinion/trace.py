"""What clients sent and were answered, in the order in which it happened to them.

Rule 1. `sent` and `received` are counted, not measured: what was received before something was sent took place before.
Rule 2. A request that is not answered may take place at any time after it was sent, more than once, or never.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from tests.harness.retriable import PASSES_BY_ITSELF

NEVER = 1 << 62
PASSING = PASSES_BY_ITSELF | {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.UNSUPPORTED_VERSION}
"""Errors on which there is no opinion; after one of them the request may have taken place all the same."""


@dataclass(slots=True, eq=False)
class Exchange:
    """One request and, perhaps, its response."""

    connection: str
    """Requests of one connection take place in their order."""
    request: Any
    version: int
    sent: int
    sent_s: float
    response: Any = None
    received: int = NEVER
    received_s: float = float("inf")
    api: str = ""

    def __post_init__(self) -> None:
        self.api = type(self.request).__name__.removesuffix("Request")


@dataclass(slots=True)
class Trace:
    """All exchanges of a run. `now` gives seconds; only differences count."""

    now: Callable[[], float] = lambda: 0.0
    exchanges: list[Exchange] = field(default_factory=list)
    ticks: int = 0

    def send(self, connection: str, request: Any, version: int) -> Exchange:
        self.ticks += 1
        made = Exchange(connection, request, version, self.ticks, self.now())
        self.exchanges.append(made)
        return made

    def receive(self, exchange: Exchange, response: Any) -> None:
        self.ticks += 1
        exchange.response, exchange.received, exchange.received_s = response, self.ticks, self.now()

    def of(self, *apis: str) -> Iterator[Exchange]:
        """The exchanges of these APIs, in the order in which they were sent."""
        return (exchange for exchange in self.exchanges if exchange.api in apis)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What may have happened to the broker that no request shows."""

    restarts: bool = False
    """It may have ended and come back: what was not acknowledged may be gone."""
    forgets_producers: bool = False
    """Producers expire within the run."""
    forgets_ids: bool = False
    """Transactional ids expire within the run."""
    forgets_offsets: bool = False
    """Offsets expire within the run."""
    forgets_groups: bool = False
    """Groups that nobody needs are given up within the run, and begin again with their first generation."""
    deletes_old_records: bool = False
    """Records are older than topics keep them."""
    damages_records: bool = False
    """The disk returns what was never written: the broker sends it, and a consumer finds the checksum wrong."""
    transactions_time_out: bool = False
    """Its clock is not that of the trace: a transaction may time out at any moment."""
    level: int | None = None
    """The cluster's `transaction.version`; None where it changes."""
    longest_timeout_ms: int = 900_000
    """Of a transaction."""
    offsets_partitions: int = 50
    """Of `__consumer_offsets`."""
    reads_behind: bool = False
    """Who reads for the leader may show less of the log than there is, and a high watermark that is behind."""
    settled: bool = False
    """The trace goes on until no transaction is open."""


@dataclass(frozen=True, slots=True)
class Aged:
    """In the place of a request: somebody gave an idle transactional id another epoch, by other means."""

    transactional_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Objection:
    """A response that the model does not allow."""

    rule: str
    exchange: Exchange
    text: str

    def __str__(self) -> str:
        one = self.exchange
        return f"{self.rule}: {one.api} v{one.version} of {one.connection} (sent {one.sent}): {self.text}"
