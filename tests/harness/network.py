"""A network in memory between `asyncio` protocols: it delays, splits, cuts and loses, by seed.

What is written arrives in order, in pieces, later. A connection may be cut behind any byte of either direction, so that
a request arrives without its answer, half a request arrives, or half an answer; each end is notified some time later.
When a process dies its peers are notified as late, and what it had sent before may still arrive.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from protocol.schema import Buffer
from tests.harness.loop import ProcessLoop, Scheduler


@dataclass(slots=True)
class NetworkFaults:
    """What the network does, besides delivering."""

    delay_s: float = 0.001
    slow: float = 0.0
    """How often a piece takes fifty times as long."""
    split: float = 0.0
    """How often what was written arrives in two or three pieces."""
    joined: float = 0.0
    """How often it waits for what is written next, so that several writes arrive as one piece."""
    cut: float = 0.0
    """How many connections are going to be cut, after some hundreds or thousands of bytes."""


class Network:
    """All connections of a run."""

    def __init__(self, scheduler: Scheduler, random: Random, faults: NetworkFaults) -> None:
        self.scheduler = scheduler
        self.random = random
        self.faults = faults
        self.hits: dict[str, int] = {}
        self._listeners: dict[int, tuple[ProcessLoop, Callable[[], asyncio.BaseProtocol]]] = {}
        self._ends: dict[End, None] = {}
        self._connections = 0
        self.severed: dict[tuple[str, str], float] = {}
        """Until when nothing gets from one machine to another, by their names; what is sent meanwhile arrives then."""

    def open_at(self, sender: ProcessLoop, receiver: ProcessLoop) -> float:
        """When something gets through from one to the other, at the earliest."""
        return self.severed.get((sender.machine, receiver.machine), 0.0) if self.severed else 0.0

    def count(self, what: str) -> None:
        self.hits[what] = self.hits.get(what, 0) + 1

    def delay(self) -> float:
        faults, random = self.faults, self.random
        longest = faults.delay_s * (50 if faults.slow and random.random() < faults.slow else 1)
        return longest * (0.1 + 0.9 * random.random())

    def listen(self, loop: ProcessLoop, factory: Callable[[], asyncio.BaseProtocol], port: int) -> "Listener":
        self._listeners[port] = (loop, factory)
        return Listener(self, port, factory)

    def stop_listening(self, port: int, factory: object) -> None:
        if port in self._listeners and self._listeners[port][1] is factory:
            del self._listeners[port]

    async def connect(self, loop: ProcessLoop, factory: Callable[[], Any], port: int) -> tuple["End", Any]:
        await asyncio.sleep(self.delay())
        found = self._listeners.get(port)
        if found is None or not found[0].alive:
            raise ConnectionRefusedError(f"nobody listens on port {port}")
        opens_at = max(self.open_at(loop, found[0]), self.open_at(found[0], loop))
        if opens_at > self.scheduler.now:
            await asyncio.sleep(opens_at - self.scheduler.now)
            return await self.connect(loop, factory, port)
        self._connections += 1
        here, there = End(self, loop, ("client", self._connections)), End(self, found[0], ("10.0.0.1", 9092))
        here.peer, there.peer = there, here
        self._ends[here] = self._ends[there] = None
        if self.faults.cut and self.random.random() < self.faults.cut:
            budget = int(2 ** (6 + 9 * self.random.random()))
            self.random.choice((here, there)).cut_after_bytes = budget
        protocol = factory()
        here.protocol = protocol
        protocol.connection_made(here)
        there.loop.call_later(self.delay(), there.begin, found[1])
        return here, protocol

    def process_died(self, loop: ProcessLoop) -> None:
        """The peers of a process that died are notified after a while."""
        for port in [port for port, (owner, _) in self._listeners.items() if owner is loop]:
            del self._listeners[port]
        for end in [end for end in self._ends if end.loop is loop]:
            end.peer.lose_soon(ConnectionResetError("the peer died"))
            self.forget(end)

    @property
    def ends(self) -> "tuple[End, ...]":
        """Both ends of every connection that is open."""
        return tuple(self._ends)

    def forget(self, end: "End") -> None:
        self._ends.pop(end, None)

    def cut_one(self) -> None:
        """Cut some connection now."""
        ends = [end for end in self._ends if not end.is_closing()]
        if ends:
            self.random.choice(ends).cut()


class Listener:
    """What `create_server` returns."""

    def __init__(self, network: Network, port: int, factory: object) -> None:
        self._network = network
        self._port = port
        self._factory = factory

    def close(self) -> None:
        self._network.stop_listening(self._port, self._factory)

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""


class End(asyncio.Transport):
    """One end of a connection: the transport of the protocol at that end."""

    def __init__(self, network: Network, loop: ProcessLoop, peer_name: tuple[str, int]) -> None:
        super().__init__({"peername": peer_name})
        self.network = network
        self.loop = loop
        self.protocol: Any = None
        self.is_server = peer_name[0] != "client"
        self.peer: End
        self.cut_after_bytes: int | None = None
        self._arrivals: deque[bytes] = deque()
        self._joined: list[bytes] = []
        """What was written and arrives as one piece."""
        self._last_arrival = 0.0
        self._unread_bytes = 0
        self._high = 64 << 10
        self._paused_writing = False
        self._reading = True
        self._closing = False
        self._lost = False
        self._end_of_stream: BaseException | str | None = ""

    def begin(self, factory: Callable[[], Any]) -> None:
        """The connection has reached the server, unless it is gone by then."""
        if self._lost:
            return
        self.protocol = factory()
        self.protocol.connection_made(self)
        self._deliver()

    # -- sending ---------------------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        data = bytes(data)
        if self._closing or not data:
            return
        if self.cut_after_bytes is not None:
            if len(data) > self.cut_after_bytes:
                self._send(data[: self.cut_after_bytes])
                self.cut()
                return
            self.cut_after_bytes -= len(data)
        self._send(data)
        if not self._paused_writing and self.peer._unread_bytes > self._high:
            self._paused_writing = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _send(self, data: bytes) -> None:
        network, peer = self.network, self.peer
        if not peer.loop.alive or not data:
            return
        if network.faults.joined and self._joins(data):
            return
        pieces = [data]
        sent_at = self._sent_at()
        if network.faults.split and network.random.random() < network.faults.split and len(data) > 1:
            at = network.random.randrange(1, len(data))
            pieces = [data[:at], data[at:]]
            network.count("network.split")
        for piece in pieces:
            peer._unread_bytes += len(piece)
            self._last_arrival = max(self._last_arrival, sent_at + network.delay())
            peer.loop.call_at(self._last_arrival, peer._arrived, piece)

    def _sent_at(self) -> float:
        """What stands still sends when it wakes, and nothing gets over a line that is severed."""
        network = self.network
        return max(network.scheduler.now, self.loop.wakes_at_s, network.open_at(self.loop, self.peer.loop))

    def _joins(self, data: bytes) -> bool:
        """Whether it arrives with what is on the way, or with what will be written in this turn."""
        network, peer = self.network, self.peer
        if self._joined:
            self._joined.append(data)
        elif network.random.random() < network.faults.joined:
            self._joined.append(data)
            self._last_arrival = max(self._last_arrival, self._sent_at() + network.delay())
            peer.loop.call_at(self._last_arrival, self._joined_arrived)
        else:
            return False
        peer._unread_bytes += len(data)
        return True

    def _joined_arrived(self) -> None:
        data, self._joined = b"".join(self._joined), []
        self.network.count("network.joined")
        self.peer._arrived(data)

    @property
    def all_arrived_at(self) -> float:
        """When what was sent so far has reached the peer, unless the line is cut before."""
        return self._last_arrival

    def cut(self) -> None:
        """The line is cut: nothing more gets through either way, and both ends find out later."""
        self.network.count("network.cut")
        client, server = (self.peer, self) if self.is_server else (self, self.peer)
        client._closing = server._closing = True
        reason = ConnectionResetError("the line was cut")
        # The server learns of it last. Were a request of TV0 still on its way when the client sends it again, it would
        # be the hole that its protocol is known to have (KAFKA-17754).
        lost_at = max(client._last_arrival, server._last_arrival, self.network.scheduler.now) + self.network.delay()
        client.lose_at(lost_at, reason)
        server.lose_at(lost_at + self.network.delay(), reason)

    # -- receiving -------------------------------------------------------------------------------------------

    def _arrived(self, data: bytes) -> None:
        if self._lost:
            return
        self._arrivals.append(data)
        self._deliver()

    def _deliver(self) -> None:
        protocol = self.protocol
        while self._arrivals and self._reading and not self._lost and protocol is not None:
            data = self._arrivals.popleft()
            self._unread_bytes -= len(data)
            if isinstance(protocol, asyncio.BufferedProtocol):
                while data and not self._lost:
                    with memoryview(protocol.get_buffer(len(data))) as buffer:
                        taken = min(len(buffer), len(data))
                        buffer[:taken] = data[:taken]
                    protocol.buffer_updated(taken)
                    data = data[taken:]
            else:
                protocol.data_received(data)
            self._drained()
        if not self._arrivals and self._end_of_stream != "" and not self._lost and protocol is not None:
            self._end()

    def _drained(self) -> None:
        writer = self.peer
        if writer._paused_writing and self._unread_bytes <= writer._high // 4 and not writer._lost:
            writer._paused_writing = False
            writer.loop.call_soon(writer.protocol.resume_writing)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading

    # -- ending ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.loop.call_soon(self._lose_now, None)
        network = self.network
        opens_at = network.open_at(self.loop, self.peer.loop)
        self.peer.lose_at(max(self._last_arrival, network.scheduler.now + network.delay(), opens_at), None)

    def abort(self) -> None:
        self.close()

    def lose_soon(self, reason: BaseException | None) -> None:
        network = self.network
        opens_at = network.open_at(self.peer.loop, self.loop)
        self.lose_at(max(network.scheduler.now + 2 * network.delay(), opens_at), reason)

    def lose_at(self, when: float, reason: BaseException | None) -> None:
        self.loop.call_at(when, self._end_arrived, reason)

    def _end_arrived(self, reason: BaseException | None) -> None:
        if self._lost:
            return
        self._end_of_stream = reason
        if reason is not None or not self._arrivals:
            self._end()

    def _end(self) -> None:
        """Of what comes. Where the peer has ended in order, a server may have more to do before it closes its side."""
        protocol = None if self._end_of_stream is not None or self._closing else self.protocol
        if self.is_server and protocol is not None and protocol.eof_received():
            self._reading = False
            self.network.count("network.half-open")
            return
        self._lose()

    def _lose_now(self, reason: BaseException | None) -> None:
        self._end_of_stream = reason
        self._lose()

    def _lose(self) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self.network.forget(self)
        if self.protocol is not None:
            reason = self._end_of_stream
            self.protocol.connection_lost(reason if isinstance(reason, BaseException) else None)

    def is_closing(self) -> bool:
        return self._closing

    # -- what else a transport has ---------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else 64 << 10

    def get_write_buffer_size(self) -> int:
        return self.peer._unread_bytes
