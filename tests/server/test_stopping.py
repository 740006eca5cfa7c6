"""Idle connections are closed; a broker stops at the first signal, or at once at the second."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from broker.api.context import ConnectionInfo
from broker.config.broker_config import BrokerConfig
from broker.disk.local_files import LocalFiles
from broker.network.connection import Connection
from broker.network.listeners import SocketSettings, bind_all
from broker.network.server import Server
from broker.node import Node
from broker.process.environment import RealEnvironment
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from protocol.messages.metadata import ApiVersionsRequest
from protocol.messages.produce import ProduceRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tests.harness.framing import request_frame
from tests.server.test_many_and_slow import fetch
from tests.server.wire import Wire, make_topic, produce, still_serves
from tests.unit.broker.doubles import FakeTransport, deliver

FOREVER_S = 3600.0
SMALL = bytes(build_batch([NewRecord(key=None, value=b"x", timestamp_ms=1)]))
LARGE = bytes(build_batch([NewRecord(key=None, value=bytes(900_000), timestamp_ms=1)]))


def test_idle_connections_are_closed() -> None:
    with Broker(in_memory=True, config={"connections.max.idle.ms": 500}) as broker:
        make_topic(broker, "quiet")
        with Wire(broker) as silent, Wire(broker) as waiting, Wire(broker) as talking:
            waiting.send(request_frame(fetch("quiet", 0, max_wait_ms=30_000), 11, 1))
            while not _has_ended(silent):
                talking.ask(ApiVersionsRequest(), 0)
            talking.ask(ApiVersionsRequest(), 0)
            talking.ask(produce("quiet", SMALL), 9)
            assert b"x" in waiting.frame()
        still_serves(broker)


def _has_ended(wire: Wire) -> bool:
    wire.socket.settimeout(0.05)
    try:
        return wire.socket.recv(1) == b""
    except TimeoutError:
        return False


class Serving:
    """Node and server in this process, with a topic whose content does not fit into anybody's socket."""

    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(str(folder))
        self.environment = RealEnvironment(self.files)
        config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"})
        self.node = Node(config, self.environment, on_failure=lambda _: None)
        self.listening = bind_all(config.listeners, SocketSettings(10))

    async def start(self) -> tuple[str, int]:
        self.services = await self.node.start()
        self.server = Server(self.services, self.node.catalogue, self.listening, self.node)
        (endpoint,) = await self.server.start()
        return "127.0.0.1", endpoint.port

    async def stop(self) -> None:
        await self.node.stop()
        self.environment.close()
        self.files.close()


async def _client(address: tuple[str, int]) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, address)
    return client


async def _ask_and_wait(client: socket.socket, request: object, version: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, request_frame(request, version, 1))
    size = int.from_bytes(await loop.sock_recv(client, 4), "big")
    while size > 0:
        size -= len(await loop.sock_recv(client, size))


def test_the_second_signal_waits_for_nobody(tmp_path: Path) -> None:
    """A reader that never takes its answer is waited for; somebody in a hurry says so, and it is over."""

    async def story() -> None:
        serving = Serving(tmp_path)
        address = await serving.start()
        writer, reader = await _client(address), await _client(address)
        await serving.node.services.topics.auto_create_all(["large"])
        for _ in range(20):
            await _ask_and_wait(writer, _produce(), 9)
        await asyncio.get_running_loop().sock_sendall(reader, request_frame(_fetch_all(), 11, 1))
        assert await asyncio.get_running_loop().sock_recv(reader, 4)
        hurry = asyncio.Event()
        stopping = asyncio.create_task(serving.server.stop(FOREVER_S, hurry))
        while serving.server.connection_count and not _refuses(address):
            await asyncio.sleep(0)
        assert not stopping.done(), "the first signal waits for the reader"
        hurry.set()
        await stopping
        assert serving.server.connection_count == 0
        await serving.stop()
        writer.close()
        reader.close()

    uvloop.run(story())


def test_a_connection_that_arrives_while_the_broker_stops_is_refused(tmp_path: Path) -> None:
    """It was accepted before the port was closed. What it wrote would be in no flush and in no checkpoint."""

    async def story() -> None:
        serving = Serving(tmp_path)
        await serving.start()
        await serving.node.services.topics.auto_create_all(["late"])
        partition = serving.node.services.topics.partition("late", 0)
        serving.server.stop_accepting()
        connection, transport = Connection(serving.server, ConnectionInfo(1, "PLAINTEXT", "", 0)), FakeTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        deliver(connection, request_frame(produce("late", SMALL), 9, 1))
        assert transport.closed and not transport.written
        assert partition is not None and partition.log.end_offset == 0
        connection.connection_lost(None)
        await serving.server.stop()
        await serving.stop()

    uvloop.run(story())


def test_a_waiting_join_does_not_hold_up_a_stop() -> None:
    """It waits for the members' rebalance timeout; whoever stops a broker does not."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(in_memory=True, config=settings) as broker, Wire(broker) as first, Wire(broker) as second:
        find = FindCoordinatorRequest(key="patient")
        assert first.ask(find, 1).error_code == 0  # type: ignore[attr-defined]
        member_id = first.ask(_join(""), 2).member_id  # type: ignore[attr-defined]
        second.send(request_frame(_join(""), 2, 7))
        while (
            first.ask(HeartbeatRequest(group_id="patient", generation_id=1, member_id=member_id), 1).error_code
            == ErrorCode.NONE
        ):  # type: ignore[attr-defined]
            pass  # until the second one is known, and waits for the first to join again
        os.kill(broker.pid, signal.SIGTERM)
        assert second.answer(JoinGroupRequest, 2).error_code == ErrorCode.NOT_COORDINATOR  # type: ignore[attr-defined]


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_a_signal_before_the_server_can_take_it_is_not_lost(tmp_path: Path) -> None:
    """Sent as soon as the process is the server's: it imports, opens its folder, and then ends in order."""
    command = [sys.executable, "-m", "tallystick", "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        arguments = Path(f"/proc/{process.pid}/cmdline")
        while b"\0-P\0" not in arguments.read_bytes():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "stopped" in process.stderr.read()


def _join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="patient",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _refuses(address: tuple[str, int]) -> bool:
    with socket.socket() as late:
        return late.connect_ex(address) != 0


def _produce() -> ProduceRequest:
    return produce("large", LARGE)


def _fetch_all() -> object:
    request = fetch("large", 0, max_wait_ms=0)
    request.topics[0].partitions[0].partition_max_bytes = 50 << 20
    return request
