"""What the broker's parts meet in unit tests instead of the world: a transport, a host, a dispatcher, a partition."""

import asyncio
from collections.abc import Callable, Coroutine
from struct import pack, unpack_from
from typing import Any

from broker.api.context import ConnectionInfo, RequestContext
from broker.network.connection import Connection
from broker.network.frame_buffers import FrameBuffers
from broker.network.turns import Turns
from broker.process.eager import Finished, begin
from broker.process.memory_budget import AnswerBudget, MemoryBudget
from broker.process.time_slice import TimeSlice
from protocol.errors import ProtocolError
from storage.log import StorageFailed
from tests.harness.work_clock import WorkClock

PRODUCE, FETCH, OTHER = 0, 1, 7


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `clogged` bytes stay in the buffer until `drain`."""

    def __init__(self, port: int = 4711) -> None:
        super().__init__({"peername": ("10.0.0.1", port)})
        self.written = bytearray()
        self.reading = True
        self.closed = self.ended = False
        self.high = 0
        self.clogged = False
        self.buffered = 0
        self.protocol: Any = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Any) -> None:
        data = b"".join(bytes(part) for part in list_of_data)
        self.written += data
        if self.clogged:
            self.buffered += len(data)
            if self.buffered > self.high and self.protocol is not None:
                self.protocol.pause_writing()

    def drain(self) -> None:
        self.clogged, self.buffered = False, 0
        assert self.protocol is not None
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class FakeEntry:
    name = "Fake"
    response = bytes


class FakeCall:
    """A request that is only a number and a kind; its answer is the same number."""

    entry = FakeEntry
    undecoded = None

    def __init__(self, key: int, number: int, body: bytes) -> None:
        self.key, self.number, self.body = key, number, body
        self.context = RequestContext(ConnectionInfo(1, "PLAINTEXT", "", 0), key, 0, number, None)

    def weight(self, frame_bytes: int) -> int:
        return frame_bytes

    def encode(self, response: bytes) -> list[bytes]:
        return [pack(">ii", 4 + len(response), self.number), response]

    def encode_failure(self) -> list[bytes] | None:
        return self.encode(b"failed")


class FakeDispatcher:
    """Applies what `behave` says; remembers the order in which requests were applied."""

    def __init__(self, behave: Callable[[FakeCall], Any] | None = None) -> None:
        self.applied: list[int] = []
        self.behave = behave or (lambda call: b"")

    def read(self, info: ConnectionInfo, frame: Any) -> FakeCall:
        if len(frame) < 6:
            raise ProtocolError("too short")
        key, number = unpack_from(">hi", frame)
        return FakeCall(key, number, bytes(frame[6:]))

    def run(self, call: FakeCall) -> Any:
        self.applied.append(call.number)
        return self.behave(call)


class FakeHost:
    """A server of one connection."""

    def __init__(
        self,
        behave: Callable[[FakeCall], Any] | None = None,
        *,
        budget_bytes: int = 1 << 30,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.dispatcher: Any = FakeDispatcher(behave)
        self.due: list[Callable[[], None]] = []
        """What the budget of requests asked to be called back for; nobody calls it by itself."""
        self.requests = MemoryBudget(budget_bytes, lambda seconds, call: self.due.append(call))
        self.strangers = MemoryBudget(budget_bytes, lambda seconds, call: self.due.append(call))
        self.answers = AnswerBudget(1 << 30)
        self.answer_bytes = 256 << 10
        self.turns = Turns(clock)
        self.timer: Any = None
        self.receive_buffer = bytearray(4096)
        self.frame_buffers = FrameBuffers()
        self.max_request_bytes = 100 << 20
        self.tick = 0
        self.lost: list[Connection] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.failures: list[StorageFailed] = []

    def connection_made(self, connection: Connection) -> str | None:
        return None

    def connection_lost(self, connection: Connection) -> None:
        self.lost.append(connection)

    def begin(self, work: Coroutine[Any, Any, Any]) -> "Finished | asyncio.Task[Any]":
        return begin(work, self.tasks.append)

    def storage_failed(self, error: StorageFailed) -> None:
        self.failures.append(error)

    def connect(self) -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self, ConnectionInfo(1, "PLAINTEXT", "", 0)), FakeTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport


def request(number: int, *, key: int = OTHER, body: bytes = b"") -> bytes:
    return pack(">ihi", 6 + len(body), key, number) + body


def deliver(connection: Connection, data: bytes, piece: int = 1 << 30) -> None:
    """As a socket does: into the buffer the protocol offers, at most `piece` bytes at a time."""
    while data:
        buffer = connection.get_buffer(-1)
        size = min(len(buffer), piece, len(data))
        buffer[:size] = data[:size]
        del buffer
        connection.buffer_updated(size)
        data = data[size:]


def answers(transport: FakeTransport) -> list[tuple[int, bytes]]:
    """The answers written so far: (number, body)."""
    found, position, data = [], 0, transport.written
    while position < len(data):
        length, number = unpack_from(">ii", data, position)
        found.append((number, data[position + 8 : position + 4 + length]))
        position += 4 + length
    return found


def numbers(transport: FakeTransport) -> list[int]:
    return [number for number, _ in answers(transport)]


class FakeFlush:
    def __init__(self, log: "FakeLog") -> None:
        self.end_offset = log.end_offset
        self.shares_commits = log.shares_commits
        self._log = log

    def run(self) -> None:
        self._log.events.append(f"sync {self._log.name}")
        if self._log.broken:
            raise OSError(5, "the disk is gone")


class FakeLog:
    """A log that only counts, and writes down what is done to it."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name, self.events = name, events
        self.end_offset = self.durable_offset = 0
        self.broken = False
        self.flushing = False
        self.checkpoint_wanted = False
        self.shares_commits = False

    def begin_flush(self, *, closing: bool = False) -> FakeFlush | None:
        if self.broken and self.flushing:
            raise StorageFailed("already broken")
        assert not self.flushing, "two flushes of one log at a time"
        if self.durable_offset == self.end_offset:
            return None
        self.flushing = True
        return FakeFlush(self)

    def finish_flush(self, flush: FakeFlush) -> None:
        self.flushing = self.checkpoint_wanted = False
        self.durable_offset = flush.end_offset


class FakePartition:
    """A partition as group commit sees it."""

    def __init__(self, topic: str, events: list[str], *, durable: bool = True) -> None:
        self.topic = topic
        self.events = events
        self.log: Any = FakeLog(topic, events)
        self.is_durable = durable
        self.discarded = False

    def write(self) -> None:
        self.log.end_offset += 1

    def committed_moved(self) -> None:
        end = self.log.durable_offset if self.is_durable else self.log.end_offset
        self.events.append(f"committed {self.topic} {end}")


class InlineEnvironment:
    """Runs blocking work on the loop, one turn later; `before_each` may write in the middle of a cycle."""

    def __init__(self) -> None:
        self.before_each: Callable[[], None] | None = None
        self._clock = WorkClock()

    def time_slice(self) -> TimeSlice:
        return TimeSlice(self._clock.now)

    def run_beside(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        return self.run_blocking(work)

    def run_blocking(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        async def run() -> Any:
            if self.before_each is not None:
                act, self.before_each = self.before_each, None
                act()
            await asyncio.sleep(0)
            return work()

        return asyncio.ensure_future(run())
