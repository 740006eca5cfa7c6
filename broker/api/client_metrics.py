"""Metrics of clients (KIP-714): which are wanted of whom, who may push when, and what was pushed last.

A client asks what is wanted of it, once in an interval, and pushes it, once in an interval. It is known by an id that
it is given when it first asks, as long as its connection lasts. The rules of time are those of a running Kafka 4.3.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import crc32c

from broker.api.context import ConnectionInfo, RequestContext
from broker.api.linear_pattern import BadPattern, Pattern
from broker.api.otlp import LONGEST_TEXT, BadMetrics, Decode, Point, prometheus_lines
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.time_slice import TimeSlice
from coordinator.cluster.client_metrics import USUAL_INTERVAL_MS, Subscription, subscription_of
from coordinator.cluster.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.records import compression
from protocol.records.batch import CorruptRecords

MOST_INSTANCES = 16_384
"""As in Kafka; those that were silent for longest are forgotten first."""
MOST_POINTS_KEPT = 100_000
"""Of all clients together: some thirty megabytes."""
ACCEPTED_CODECS = (compression.ZSTD, compression.LZ4, compression.GZIP, compression.SNAPPY)
EVERYTHING = "*"
FILE = "client-metrics.prom"
"""In the data folder: the last values of all clients, in Prometheus's text format."""
WRITTEN_AFTER_S = 5.0
LONG_AGO = -(1 << 62)

_log = EventLog("client_metrics")


@dataclass(slots=True)
class Instance:
    """One client, as it was when it first asked or since subscriptions changed."""

    connection: ConnectionInfo
    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    changes: int
    """Of subscriptions, that are in this."""
    last_get_ms: int = LONG_AGO
    last_push_ms: int = LONG_AGO
    ended: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def may_get(self, now_ms: int) -> bool:
        """Whether it may ask what is wanted: also at once where it was told that it does not know."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            return False
        self.last_error = ErrorCode.NONE
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether it may push: also at once after it has asked."""
        allowed = self.last_get_ms > self.last_push_ms or now_ms - self.last_push_ms >= self.interval_ms
        if allowed:
            self.last_push_ms = now_ms
        return allowed

    def is_over(self, now_ms: int) -> bool:
        """It said that it ends, or its connection has."""
        return self.connection.is_lost or (self.ended and now_ms - self.last_push_ms >= self.interval_ms)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The last that a client pushed."""

    labels: tuple[tuple[str, str], ...]
    points: list[Point] = field(repr=False)


@dataclass(slots=True)
class _Wanted:
    """A subscription with its patterns, ready to be matched."""

    said: Subscription
    patterns: dict[str, Pattern]


class ClientMetrics:
    """See the head of this file. `own` runs work that outlives a request; `decode` is None where metrics are not
    received."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        environment: Environment,
        *,
        own: Callable[[Coroutine[Any, Any, Any]], Any],
        decode: Decode | None = None,
        in_memory: bool = True,
    ) -> None:
        self._image = image
        self._environment = environment
        self._own = own
        self._decode = decode
        self._in_memory = in_memory
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        self._latest: OrderedDict[bytes, Pushed] = OrderedDict()
        self._points = 0
        self._wanted: list[_Wanted] = []
        self._changes = -1
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def fresh_id(self) -> bytes:
        """A random UUID that nobody has."""
        drawn = bytearray(self._environment.random_bytes(16))
        drawn[6], drawn[8] = drawn[6] & 0x0F | 0x40, drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    async def instance(self, instance_id: bytes, context: RequestContext) -> Instance:
        """The client of this id, with what is wanted of it now."""
        now_ms, image = self._environment.monotonic_ms(), self._image()
        known = self._instances.get(instance_id)
        if known is not None and known.changes == image.client_metrics_changes and not known.is_over(now_ms):
            self._instances.move_to_end(instance_id)
            return known
        changes = image.client_metrics_changes
        subscription_id, interval_ms, metrics = await self._wanted_of(instance_id, context)
        made = Instance(context.connection, subscription_id, interval_ms, metrics, changes)
        self._instances[instance_id] = made
        self._instances.move_to_end(instance_id)
        while len(self._instances) > MOST_INSTANCES:
            self._instances.popitem(last=False)
        return made

    async def _wanted_of(self, instance_id: bytes, context: RequestContext) -> tuple[int, int, tuple[str, ...]]:
        """The id of what is wanted of a client, how often, and what."""
        time_slice = self._environment.time_slice()
        told = dict(labels_of(instance_id, context))
        wanted = await self._ready_subscriptions(time_slice)
        matching = [one.said for one in wanted if await _is_meant(one, told, time_slice)]
        interval_ms = min((one.interval_ms for one in matching), default=USUAL_INTERVAL_MS)
        metrics = tuple(dict.fromkeys(name for one in matching for name in one.metrics))
        metrics = (EVERYTHING,) if EVERYTHING in metrics else metrics
        checksum = crc32c.crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ _hash_of(instance_id)
        return checksum - (1 << 32) if checksum >> 31 else checksum, interval_ms, metrics

    async def _ready_subscriptions(self, time_slice: TimeSlice) -> list[_Wanted]:
        """All there are, by name; made ready once for each change of them."""
        image = self._image()
        if image.client_metrics_changes != self._changes:
            changes, wanted = image.client_metrics_changes, list[_Wanted]()
            for name in sorted(image.client_metrics):
                wanted.append(_ready(image.client_metrics.get(name, {})))
                await time_slice.give_way()
            self._wanted, self._changes = wanted, changes
        return self._wanted

    async def take(self, instance_id: bytes, context: RequestContext, codec: int, data: bytes, limit: int) -> ErrorCode:
        """Take what a client pushes: INVALID_RECORD where it cannot be read, or comes to more than `limit` bytes."""
        decode = self._decode
        if decode is None or not data:
            return ErrorCode.NONE

        def read() -> list[Point]:
            return decode(compression.decompress(codec, data, limit))

        try:
            points = await self._environment.run_beside(read)
        except (BadMetrics, CorruptRecords) as problem:
            _log.info("metrics of a client cannot be read", **context.connection.told, problem=problem)
            return ErrorCode.INVALID_RECORD
        labels = tuple((name, value[:LONGEST_TEXT]) for name, value in labels_of(instance_id, context))
        self._keep(instance_id, Pushed(labels, points))
        return ErrorCode.NONE

    def _keep(self, instance_id: bytes, pushed: Pushed) -> None:
        before = self._latest.pop(instance_id, None)
        self._points += len(pushed.points) - (0 if before is None else len(before.points))
        self._latest[instance_id] = pushed
        while len(self._latest) > 1 and (self._points > MOST_POINTS_KEPT or len(self._latest) > MOST_INSTANCES):
            self._points -= len(self._latest.popitem(last=False)[1].points)
        _log.debug("metrics of a client", points=len(pushed.points), **dict(pushed.labels))
        if self._timer is None and not self._in_memory and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(WRITTEN_AFTER_S, self._begin_to_write)

    def latest(self) -> dict[bytes, Pushed]:
        """The last of each client, those first that were silent for longest."""
        return dict(self._latest)

    def _begin_to_write(self) -> None:
        self._timer = None
        self._own(self._write())

    async def _write(self) -> None:
        pushed = list(self.latest().values())

        def write() -> None:
            lines = (line for one in pushed for line in prometheus_lines(one.points, one.labels))
            self._environment.files.write_whole(FILE, "".join(lines).encode())

        try:
            await self._environment.run_blocking(write)
        except OSError as error:
            _log.warning("metrics of clients could not be written", error=error)

    def close(self) -> None:
        """Write no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()


def labels_of(instance_id: bytes, context: RequestContext) -> tuple[tuple[str, str], ...]:
    """What is known of a client, by the names that subscriptions match; an id as Kafka writes it."""
    connection = context.connection
    return (
        ("client_instance_id", urlsafe_b64encode(instance_id).decode().rstrip("=")),
        ("client_id", context.client_id or ""),
        ("client_software_name", connection.software_name),
        ("client_software_version", connection.software_version),
        ("client_source_address", connection.peer_host),
        ("client_source_port", str(connection.peer_port)),
    )


async def _is_meant(wanted: _Wanted, told: Mapping[str, str], time_slice: TimeSlice) -> bool:
    for attribute, pattern in wanted.patterns.items():
        if not await _matches(pattern, told[attribute], time_slice):
            return False
    return True


async def _matches(pattern: Pattern, text: str, time_slice: TimeSlice) -> bool:
    steps = pattern.matching(text)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            return bool(finished.value)
        except BadPattern:  # too much work
            return False
        await time_slice.give_way()


def _ready(configs: Mapping[str, str]) -> _Wanted:
    said = subscription_of(configs)
    return _Wanted(said, {attribute: Pattern(text) for attribute, text in said.patterns.items()})


def _hash_of(instance_id: bytes) -> int:
    """Java's hash code of a UUID."""
    halves = int.from_bytes(instance_id[:8]) ^ int.from_bytes(instance_id[8:])
    return (halves >> 32 ^ halves) & 0xFFFF_FFFF
