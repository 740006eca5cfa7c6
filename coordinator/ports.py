"""What coordinators need from outside. Implemented by `broker`, and by simulated things in tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.machine import Marker, ProducerStamp, Record
from protocol.errors import ErrorCode
from protocol.schema import Buffer


class AppendRefused(Exception):
    """The log did not take a batch: fenced producer or coordinator (47, 52), too large (10), stale ownership (16).

    Nothing was written.
    """

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class ShardLog(Protocol):
    """The log behind one shard: one partition of an internal topic, led by this node."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def durable_offset(self) -> int:
        """Everything below is committed: the high watermark."""

    def append(self, records: Sequence[Record], *, stamp: ProducerStamp | None, now_ms: int) -> int:
        """Append one batch; returns its base offset. Raises `AppendRefused`. Does not wait."""

    def append_built(self, batch: bytes, *, now_ms: int) -> int:
        """Append a whole batch; returns its base offset. Raises `AppendRefused`. Does not wait."""

    def append_marker(self, marker: Marker, *, now_ms: int) -> int:
        """Append one control batch; returns its offset. Raises `AppendRefused`. Does not wait."""

    def read(self, offset: int, max_bytes: int) -> list[Buffer] | None:
        """Whole batches from `offset` on, for loading; empty at the end. None: they are not here yet, and the owner of
        the shard knows what to wait for before it goes on."""

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time `durable_offset` has moved."""


class MarkerWriter(Protocol):
    """Writes markers to the leaders of partitions, wherever they are."""

    def write(
        self, topic: str, partition: int, topic_id: bytes | None, marker: Marker, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append `marker` and call `done` once, when it is durable or refused. A call may finish at once.

        UNKNOWN_TOPIC_ID means that the topic is gone from the metadata log: there is nobody left to tell.
        Anything that time cures (a partition still loading) is waited for or answered with a retriable code.
        """


class ProducerIds(Protocol):
    """The source of fresh producer ids, each handed out once in the life of a cluster."""

    def take(self) -> int | None:
        """The next id, or None while a new block is being made durable (answer 14 and the client comes back)."""


class Timer(Protocol):
    """Calls back later. In one node all timers share the event loop; in a simulation, virtual time."""

    def at(self, wall_ms: int, callback: Callable[[], None]) -> "Cancel": ...


class Turns(Protocol):
    """A stretch of time on the loop, for work that lets others have a turn when it has taken long enough."""

    def spent(self) -> bool: ...

    def call_in_turn(self, callback: Callable[[], None]) -> None:
        """Go on in `callback` when the others have had their turn; a new stretch begins then."""


class Cancel(Protocol):
    """A timer that is running."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall-clock time."""

    def now_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """A partition by name. Where a name may be re-used, its topic id travels beside it."""

    topic: str
    partition: int
