"""A connection: frames cut however they arrive, order kept, memory bounded, nobody's work cancelled."""

import asyncio
from collections.abc import Coroutine
from struct import pack
from typing import Any

import pytest

from broker.api.catalogue import NO_ANSWER, CloseConnection, Deferred
from broker.network.connection import QUEUED_REQUESTS
from broker.network.frame_reader import FIRST_PIECE_BYTES
from storage.log import StorageFailed
from tests.unit.broker.doubles import PRODUCE, FakeCall, FakeHost, answers, deliver, numbers, request


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("piece", [1, 3, 5, 4096, 1 << 30])
def test_requests_are_cut_out_however_they_arrive(piece: int) -> None:
    async def story() -> None:
        host = FakeHost(lambda call: call.body)
        connection, transport = host.connect()
        bodies = [b"", b"x", b"y" * 4090, b"z" * 10_000, b""]
        deliver(connection, b"".join(request(n, body=body) for n, body in enumerate(bodies)), piece)
        assert answers(transport) == list(enumerate(bodies))
        assert host.requests.used_bytes == 0

    run(story())


def test_a_large_request_grows_its_buffer_only_as_it_arrives() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: pack(">i", len(call.body)))
        connection, transport = host.connect()
        body = bytes(range(256)) * (5 * FIRST_PIECE_BYTES // 256)
        frame = request(9, body=body)
        deliver(connection, frame[:100])
        assert len(connection.get_buffer(-1)) <= FIRST_PIECE_BYTES
        deliver(connection, frame[100:], 100_000)
        assert answers(transport) == [(9, pack(">i", len(body)))]

    run(story())


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 2**31 - 1, (100 << 20) + 1])
def test_an_impossible_length_closes_the_connection_and_nothing_else(length: int) -> None:
    async def story() -> None:
        host = FakeHost()
        connection, transport = host.connect()
        deliver(connection, request(1) + pack(">i", length) + request(2))
        assert transport.closed
        assert 2 not in host.dispatcher.applied
        connection.connection_lost(None)
        assert host.requests.used_bytes == 0

    run(story())


def test_an_unreadable_request_disconnects_after_earlier_responses() -> None:
    async def story() -> None:
        host = FakeHost()
        connection, transport = host.connect()
        deliver(connection, request(1) + pack(">i", 2) + b"??" + request(3))
        assert numbers(transport) == [1]
        assert transport.closed
        assert host.dispatcher.applied == [1]

    run(story())


def test_answers_leave_in_request_order_while_produces_overlap() -> None:
    """I46."""

    async def story() -> None:
        waits: dict[int, asyncio.Future[bytes]] = {}

        def behave(call: FakeCall) -> Any:
            waits[call.number] = asyncio.get_running_loop().create_future()
            return Deferred(waits[call.number])

        host = FakeHost(behave)
        connection, transport = host.connect()
        deliver(connection, b"".join(request(n, key=PRODUCE) for n in range(4)))
        assert host.dispatcher.applied == [0, 1, 2, 3]
        for number in (2, 1, 3):
            waits[number].set_result(b"")
            await turns()
            assert numbers(transport) == []
        waits[0].set_result(b"")
        await turns()
        assert numbers(transport) == [0, 1, 2, 3]

    run(story())


def test_nothing_but_a_produce_overlaps_a_produce() -> None:
    """I46: a request that follows a Produce sees it answered first."""

    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        host = FakeHost(lambda call: Deferred(wait) if call.key == PRODUCE else b"")
        connection, transport = host.connect()
        deliver(connection, request(1, key=PRODUCE) + request(2) + request(3, key=PRODUCE))
        assert host.dispatcher.applied == [1]
        wait.set_result(b"")
        await turns()
        assert numbers(transport) == [1, 2, 3]

    run(story())


def test_a_waiting_request_blocks_only_its_own_connection() -> None:
    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        host = FakeHost(lambda call: wait if call.number == 1 else b"")
        slow, slow_transport = host.connect()
        quick, quick_transport = host.connect()
        deliver(slow, request(1) + request(2))
        deliver(quick, request(3))
        assert numbers(quick_transport) == [3]
        assert numbers(slow_transport) == []
        wait.set_result(b"done")
        await turns()
        assert answers(slow_transport) == [(1, b"done"), (2, b"")]
        assert host.requests.used_bytes == 0

    run(story())


def test_a_request_without_answer_is_not_answered() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: NO_ANSWER if call.number == 1 else b"")
        connection, transport = host.connect()
        deliver(connection, request(1) + request(2))
        assert numbers(transport) == [2]

    run(story())


def test_a_handler_may_ask_for_the_connection_to_be_closed() -> None:
    async def story() -> None:
        def behave(call: FakeCall) -> Any:
            raise CloseConnection("acks=0 and an error")

        connection, transport = FakeHost(behave).connect()
        deliver(connection, request(1))
        assert transport.closed and not transport.written

    run(story())


@pytest.mark.parametrize("late", [False, True])
def test_a_bug_in_a_handler_keeps_the_connection(late: bool) -> None:
    async def story() -> None:
        async def broken() -> bytes:
            raise ZeroDivisionError

        def behave(call: FakeCall) -> Any:
            if call.number != 1:
                return b"fine"
            if late:
                return broken()
            raise ZeroDivisionError

        connection, transport = FakeHost(behave).connect()
        deliver(connection, request(1) + request(2))
        await turns()
        assert answers(transport) == [(1, b"failed"), (2, b"fine")]

    run(story())


def test_a_disconnect_cancels_the_wait_but_not_the_work() -> None:
    """I45."""

    async def story() -> None:
        parked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        done: list[str] = []

        async def work() -> bytes:
            await turns(3)
            done.append("done")
            return b""

        host = FakeHost(lambda call: parked if call.number == 1 else work())
        for number in (1, 2):
            connection, transport = host.connect()
            deliver(connection, request(number))
            connection.connection_lost(None)
            assert not transport.written
        assert parked.cancelled()
        await asyncio.gather(*host.tasks)
        assert done == ["done"]
        assert host.requests.used_bytes == 0

    run(story())


def test_a_slow_reader_is_paused_and_resumes() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: b"a" * 300_000)
        connection, transport = host.connect()
        transport.clogged = True
        deliver(connection, request(1) + request(2))
        assert numbers(transport) == [1]
        assert not transport.reading
        assert host.answers.held_bytes > 300_000
        transport.drain()
        assert numbers(transport) == [1, 2]
        assert transport.reading
        assert host.answers.held_bytes == 0

    run(story())


def test_a_slow_reader_that_disconnects_releases_its_budget() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: b"a" * 300_000)
        connection, transport = host.connect()
        transport.clogged = True
        deliver(connection, request(1))
        assert host.answers.held_bytes > 300_000
        connection.connection_lost(None)
        assert host.answers.held_bytes == 0

    run(story())


def test_a_client_is_not_read_beyond_its_queue() -> None:
    async def story() -> None:
        wait: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        host = FakeHost(lambda call: wait if call.number == 0 else b"")
        connection, transport = host.connect()
        for number in range(QUEUED_REQUESTS + 1):
            assert transport.reading
            deliver(connection, request(number))
        assert not transport.reading
        wait.set_result(b"")
        await turns()
        assert transport.reading
        assert numbers(transport) == list(range(QUEUED_REQUESTS + 1))
        assert host.requests.used_bytes == 0

    run(story())


def test_short_memory_admits_one_large_request_at_a_time() -> None:
    async def story() -> None:
        host = FakeHost(budget_bytes=10_000)
        connections = [host.connect() for _ in range(3)]
        whole = request(1, body=b"b" * 20_000)
        for connection, _ in connections:
            deliver(connection, whole[:8_000], 4_000)
        assert [transport.reading for _, transport in connections] == [True, True, False]
        deliver(connections[1][0], whole[8_000:])
        assert numbers(connections[1][1]) == [1]
        assert [transport.reading for _, transport in connections] == [True, True, True]
        connections[0][0].connection_lost(None)
        deliver(connections[2][0], whole[8_000:])
        assert numbers(connections[2][1]) == [1]
        assert host.requests.used_bytes == 0

    run(story())


def test_half_sent_requests_do_not_hold_up_a_whole_one() -> None:
    """Each of them may have the overdraft for a tenth of a second, and makes nothing of it."""

    async def story() -> None:
        host = FakeHost(budget_bytes=10_000)
        half = request(1, body=b"b" * 80_000)
        silent = [host.connect() for _ in range(4)]
        for connection, _ in silent:
            deliver(connection, half[:4_000])
        honest, transport = host.connect()
        whole = request(2, body=b"b" * 8_000)
        deliver(honest, whole[:3_000])
        assert not transport.reading
        for _ in silent:
            if not transport.reading:
                host.due.pop()()
        assert transport.reading
        deliver(honest, whole[3_000:])
        assert numbers(transport) == [2]
        assert not any(transport.closed for _, transport in silent)

    run(story())


def test_a_client_that_is_not_read_is_not_closed_for_its_silence() -> None:
    """It waits for the memory that silent clients hold: one of those goes."""

    async def story() -> None:
        host = FakeHost(budget_bytes=10_000)
        whole = request(1, body=b"b" * 80_000)
        silent, honest, greedy = host.connect(), host.connect(), host.connect()
        deliver(silent[0], whole[:10_100])
        deliver(honest[0], whole[:3_000])
        deliver(honest[0], whole[3_000:6_000])
        assert [transport.reading for _, transport in (silent, honest)] == [True, False]
        deliver(silent[0], whole[10_100:10_200])
        deliver(greedy[0], whole[:4_000])
        assert [transport.closed for _, transport in (silent, honest, greedy)] == [True, False, False]

    run(story())


def test_a_client_that_sends_on_keeps_the_overdraft() -> None:
    async def story() -> None:
        host = FakeHost(budget_bytes=100_000)
        whole = request(1, body=b"b" * 900_000)
        busy, waiting = host.connect(), host.connect()
        deliver(busy[0], whole[:101_000])
        deliver(waiting[0], whole[:60_000])
        assert [transport.reading for _, transport in (busy, waiting)] == [True, False]
        for at in (101_000, 118_000):
            deliver(busy[0], whole[at : at + 17_000])
            host.due.pop()()
            assert [transport.reading for _, transport in (busy, waiting)] == [True, False]
        host.due.pop()()
        assert waiting[1].reading

    run(story())


def test_idle_connections_hold_no_buffers() -> None:
    async def story() -> None:
        host = FakeHost()
        connections = [host.connect()[0] for _ in range(3)]
        assert len({id(connection.get_buffer(-1).obj) for connection in connections}) == 1

    run(story())


@pytest.mark.parametrize("late", [False, True])
def test_a_disk_failure_reaches_the_host_and_fails_the_request(late: bool) -> None:
    async def story() -> None:
        async def broken() -> bytes:
            raise StorageFailed("no space left")

        def behave(call: FakeCall) -> Any:
            if late:
                return broken()
            raise StorageFailed("no space left")

        host = FakeHost(behave)
        connection, transport = host.connect()
        deliver(connection, request(1))
        await turns()
        assert len(host.failures) == 1 and transport.closed and not transport.written

    run(story())


def test_a_buffer_in_use_is_not_reused() -> None:
    async def story() -> None:
        kept: list[memoryview] = []
        host = FakeHost()
        read = host.dispatcher.read
        host.dispatcher.read = lambda info, frame: (kept.append(memoryview(frame)[6:]), read(info, frame))[1]
        connection, transport = host.connect()
        bodies = [bytes([n]) * 200_000 for n in range(4)]
        for number, body in enumerate(bodies):
            deliver(connection, request(number, body=body), 50_000)
        assert [bytes(view) for view in kept] == bodies
        assert numbers(transport) == [0, 1, 2, 3]

    run(story())
