"""Many, slow and vanishing clients: memory stays bounded and nobody waits for anybody else."""

import os
import resource
import socket
import time
from contextlib import suppress
from struct import unpack_from

import pytest

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.groups import FindCoordinatorRequest, JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import ApiVersionsRequest
from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tests.harness.framing import request_frame
from tests.server.wire import SECONDS, Wire, make_topic, produce, still_serves

IDLE = 1000


def memory_bytes(broker: Broker) -> int:
    with open(f"/proc/{broker.pid}/statm", encoding="ascii") as source:
        return int(source.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets(broker: Broker) -> int:
    """How many the server has open."""
    count = 0
    for name in os.listdir(f"/proc/{broker.pid}/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{broker.pid}/fd/{name}").startswith("socket:")
    return count


def fetch(topic: str, offset: int, *, max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        max_bytes=50 << 20,
    )


def fill(broker: Broker, topic: str, batches: int) -> None:
    make_topic(broker, topic)
    records = bytes(build_batch([NewRecord(key=None, value=os.urandom(1000), timestamp_ms=1) for _ in range(500)]))
    with Wire(broker) as wire:
        for _ in range(batches):
            answer = wire.ask(produce(topic, records), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]


def test_a_thousand_idle_connections_cost_little(broker: Broker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 200:
        pytest.skip("too few file descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
    before = memory_bytes(broker)
    wires = [Wire(broker) for _ in range(IDLE)]
    try:
        for wire in wires:
            wire.send(request_frame(ApiVersionsRequest(), 0, 5))
        for wire in wires:
            assert unpack_from(">i", wire.frame())[0] == 5
        assert memory_bytes(broker) - before < IDLE * 20_000
        still_serves(broker)
    finally:
        for wire in wires:
            wire.socket.close()


def test_slow_readers_hold_one_answer_each_and_disturb_nobody(broker: Broker) -> None:
    fill(broker, "slow", 20)
    before = memory_bytes(broker)
    slow = [Wire(broker, receive_buffer=4096) for _ in range(10)]
    try:
        for wire in slow:
            wire.send(request_frame(fetch("slow", 0, max_wait_ms=0), 4, 1) * 50)
        with Wire(broker) as quick:
            for _ in range(20):
                answer = quick.ask(fetch("slow", 0, max_wait_ms=0), 4)
                assert len(answer.responses[0].partitions[0].records) > 500_000  # type: ignore[attr-defined]
        assert memory_bytes(broker) - before < 60 << 20
        for wire in slow[:2]:
            for _ in range(3):
                assert len(wire.frame()) > 500_000
    finally:
        for wire in slow:
            wire.socket.close()
    still_serves(broker)


def test_large_requests_that_never_end_hold_only_what_was_sent(broker: Broker) -> None:
    before = memory_bytes(broker)
    wires = [Wire(broker) for _ in range(100)]
    try:
        for wire in wires:
            wire.send((4 << 20).to_bytes(4, "big") + bytes(10_000))
        still_serves(broker)
        assert memory_bytes(broker) - before < 60 << 20
    finally:
        for wire in wires:
            wire.socket.close()


def test_a_client_gone_in_a_long_poll_leaves_nothing_behind(broker: Broker) -> None:
    make_topic(broker, "left")
    still_serves(broker)
    before = sockets(broker)
    wires = [Wire(broker) for _ in range(50)]
    for wire in wires:
        wire.send(
            request_frame(ApiVersionsRequest(), 0, 1) + request_frame(fetch("left", 0, max_wait_ms=600_000), 4, 2)
        )
    for wire in wires:
        wire.frame()
    assert sockets(broker) >= 50
    for wire in wires:
        wire.socket.close()
    until = time.monotonic() + SECONDS
    while sockets(broker) > before and time.monotonic() < until:
        still_serves(broker)
    assert sockets(broker) <= before


def test_a_disconnect_during_join_does_not_block_the_group(broker: Broker) -> None:
    def join(session_ms: int) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id="left-alone",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

    with Wire(broker) as wire:
        assert wire.ask(FindCoordinatorRequest(key="left-alone"), 1).error_code == 0  # type: ignore[attr-defined]
        assert wire.ask(join(300), 2).error_code == 0  # type: ignore[attr-defined]
    with Wire(broker) as wire:
        wire.send(request_frame(join(300), 2, 1))
    with Wire(broker) as wire:
        assert wire.ask(join(300), 2).error_code == 0  # type: ignore[attr-defined]


def test_pipelined_requests_are_answered_in_order(broker: Broker) -> None:
    """I46, over TCP, in pieces that fit no frame."""
    make_topic(broker, "ordered")
    records = bytes(build_batch([NewRecord(key=None, value=b"v", timestamp_ms=1)]))
    requests = []
    for number in range(300):
        wanted = produce("ordered", records) if number % 3 else ApiVersionsRequest()
        requests.append(request_frame(wanted, 9 if number % 3 else 0, number))
    data = b"".join(requests)
    with Wire(broker) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), 777):
            wire.send(data[start : start + 777])
        assert [unpack_from(">i", wire.frame())[0] for _ in range(300)] == list(range(300))
