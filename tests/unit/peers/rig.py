"""Nodes that say what a test wants, on a network in memory and in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import TypeVar, cast

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Endpoint
from broker.peers.connections import PeerConnections
from broker.peers.port import Place
from broker.process.environment import Environment
from protocol.framing import LENGTH, read_request_header, response_parts
from protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from protocol.messages.header import RequestHeader
from tests.harness.loop import ProcessLoop, Scheduler, new_process, run_on
from tests.harness.network import Network, NetworkFaults

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
T = TypeVar("T")
Answer = Callable[[RequestHeader, "Heard"], bytes | None]


class Heard(asyncio.Protocol):
    """One connection to a scripted node: each request is answered with what a function makes of it; None: the node
    closes the connection."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[RequestHeader] = []
        self.is_gone = False
        self.transport: asyncio.Transport
        self._answer = answer
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= 4 + (length := int.from_bytes(self._received[:4])):
            header, _ = read_request_header(memoryview(bytes(self._received[4 : 4 + length])))
            del self._received[: 4 + length]
            self.requests.append(header)
            answer = self._answer(header, self)
            if answer is None:
                self.transport.close()
            elif answer:
                self.transport.write(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True


class MonotonicClock:
    """As much of an environment as is wanted here."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic_ms(self) -> int:
        return int(self._scheduler.now * 1000)

    def random_bytes(self, count: int) -> bytes:
        return bytes(range(count))

    def run_beside(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        done.set_result(work())
        return done


class Rig:
    """This node has the id 1; where others are, `addresses` says."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.loop: ProcessLoop = new_process(scheduler, "this node")
        self.network = Network(scheduler, Random(1), NetworkFaults())
        self.loop.network = self.network
        self.addresses: dict[int, Endpoint] = {}
        self.lives: dict[int, int] = {}
        self.connections: list[Heard] = []
        """To scripted nodes, in the order in which they were made."""
        self.peers: PeerConnections

    def places(self) -> dict[int, Place]:
        """As this node is told."""
        return {node_id: Place(address, self.lives.get(node_id, 1)) for node_id, address in self.addresses.items()}

    def place(self, node_id: int, port: int) -> None:
        """Where a node is said to be."""
        self.addresses[node_id] = Endpoint("PLAINTEXT", "10.0.0.1", port)

    def start(self, node_id: int, answer: Answer, *, port: int = 9092) -> None:
        """A node at its place, answering."""
        self.place(node_id, port)

        def factory() -> Heard:
            self.connections.append(Heard(answer))
            return self.connections[-1]

        self.network.listen(new_process(self.scheduler, f"node {node_id}"), factory, port)

    async def beat(self, node_id: int = 2, version: int = 4) -> int:
        """Ask something; the number that is answered."""
        return (await self.peers.ask(node_id, HEARTBEAT, version, HeartbeatResponse)).error_code

    def asking(self, count: int = 1) -> "list[asyncio.Task[int]]":
        """So many who ask, at once."""
        return [self.loop.create_task(self.beat()) for _ in range(count)]


def play(story: Callable[[Rig], Awaitable[None]], settings: Mapping[str, str] | None = None) -> None:
    """Run a story; connections are closed in the end, and nothing must be left."""
    scheduler = Scheduler()
    rig = Rig(scheduler)

    async def run() -> None:
        environment = cast(Environment, MonotonicClock(scheduler))
        rig.peers = PeerConnections(rig.places, BrokerConfig(settings), environment)
        await story(rig)
        await rig.peers.close()
        assert not [end for end in rig.network.ends if end.loop is rig.loop]
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    run_on(rig.loop, run())
    assert not scheduler.failures, scheduler.failures
    assert not scheduler.timers_of(rig.loop), scheduler.timers_of(rig.loop)


def reply(header: RequestHeader, number: int = 0, *, correlation_id: int | None = None) -> bytes:
    """A heartbeat's answer."""
    return written(header, HeartbeatResponse(error_code=number), correlation_id=correlation_id)


def written(header: RequestHeader, answer: object, *, correlation_id: int | None = None) -> bytes:
    """Any answer."""
    chosen = header.correlation_id if correlation_id is None else correlation_id
    return b"".join(response_parts(header.request_api_key, header.request_api_version, chosen, answer))


def announced(length: int) -> bytes:
    """The length of an answer, and none of it."""
    return LENGTH.pack(length)
