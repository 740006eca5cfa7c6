"""Much at once: connections take turns, and what is not taken or not finished weighs on its own client."""

import asyncio
from struct import pack

from broker.network.connection import Connection
from tests.harness.work_clock import WorkClock
from tests.unit.broker.doubles import PRODUCE, FakeCall, FakeHost, FakeTransport, deliver, numbers, request
from tests.unit.broker.test_connection import run, turns

MANY = 2000


def many(count: int = MANY, key: int = 7) -> bytes:
    return b"".join(request(number, key=key) for number in range(count))


def send(connection: Connection, data: bytes) -> None:
    """As much as the broker reads: a client that wants more sends the rest later."""
    buffer = connection.get_buffer(-1)
    assert len(data) <= len(buffer)
    buffer[: len(data)] = data
    del buffer
    connection.buffer_updated(len(data))


def working_host(**fields: int) -> FakeHost:
    host = FakeHost(clock=WorkClock().now, **fields)
    host.receive_buffer = bytearray(256 << 10)
    return host


def test_a_busy_client_does_not_monopolise_the_loop() -> None:
    async def story() -> None:
        host = working_host()
        greedy, theirs = host.connect()
        send(greedy, many())
        assert len(host.dispatcher.applied) < 50
        assert numbers(theirs) == host.dispatcher.applied, "answers leave as they come"
        honest, ours = host.connect()
        send(honest, request(-1))
        for _ in range(5):
            await asyncio.sleep(0)
        assert numbers(ours) == [-1]
        assert len(host.dispatcher.applied) < 200
        while len(numbers(theirs)) < MANY:
            await asyncio.sleep(0)
        assert numbers(theirs) == list(range(MANY)), "I46"
        assert host.requests.used_bytes == 0 and theirs.reading

    run(story())


def test_busy_clients_share_a_turn_of_the_loop() -> None:
    async def story() -> None:
        host = working_host()
        connected = [host.connect() for _ in range(100)]
        for connection, _ in connected:
            send(connection, many(100))
        assert len(host.dispatcher.applied) < 100, "together they have one turn, not a hundred"
        before = 0
        while len(host.dispatcher.applied) < 100 * 100:
            await asyncio.sleep(0)
            assert len(host.dispatcher.applied) - before < 100
            before = len(host.dispatcher.applied)
        assert all(numbers(transport) == list(range(100)) for _, transport in connected)

    run(story())


def test_a_waiting_request_is_not_overtaken_by_later_ones() -> None:
    async def story() -> None:
        host = working_host()
        connection, transport = host.connect()
        send(connection, many(100))
        send(connection, b"".join(request(number) for number in range(100, 200)))
        while len(numbers(transport)) < 200:
            await asyncio.sleep(0)
        assert numbers(transport) == list(range(200))

    run(story())


def test_a_client_that_disconnects_while_queued_is_not_served() -> None:
    async def story() -> None:
        host = working_host()
        connection, _ = host.connect()
        send(connection, many())
        applied = len(host.dispatcher.applied)
        connection.connection_lost(None)
        await turns()
        assert len(host.dispatcher.applied) == applied
        assert host.requests.used_bytes == 0

    run(story())


def test_clients_that_read_no_responses_are_not_served() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: b"a" * 18_000)
        host.receive_buffer = bytearray(256 << 10)
        connection, transport = host.connect()
        transport.clogged = True
        send(connection, many())
        await turns()
        assert len(transport.written) < host.answer_bytes + (64 << 10) + 20_000
        assert host.answers.held_bytes == len(transport.written)
        assert not transport.reading
        transport.drain()
        assert numbers(transport) == list(range(MANY))

    run(story())


def test_answers_of_produces_that_wait_for_the_first_are_bounded() -> None:
    async def story() -> None:
        host = FakeHost()
        first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        from broker.api.catalogue import Deferred

        def behave(call: FakeCall) -> object:
            return Deferred(first) if call.number == 0 else b"r" * 18_000

        host.dispatcher.behave = behave
        connection, transport = host.connect()
        deliver(connection, many(200, key=PRODUCE))
        assert len(host.dispatcher.applied) * 18_000 < host.answer_bytes + 40_000
        first.set_result(b"")
        await turns()
        assert numbers(transport) == list(range(200))

    run(story())


def test_a_full_budget_closes_the_longest_unread_connection() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: b"a" * 10_000)
        host.answer_bytes = 4000
        host.answers.limit_bytes = 100_000
        connected: list[tuple[Connection, FakeTransport]] = [host.connect() for _ in range(20)]
        for connection, transport in connected:
            transport.clogged = True
            deliver(connection, request(1))
            assert host.answers.held_bytes <= host.answers.limit_bytes
        assert [transport.closed for _, transport in connected] == [True] * 11 + [False] * 9
        slow = connected[11][1]
        slow.buffered -= 1
        connected[11][0].count_unsent()
        connection, transport = host.connect()
        transport.clogged = True
        deliver(connection, request(1))
        assert not slow.closed, "it took something"
        assert connected[12][1].closed

    run(story())


def test_small_answers_that_nobody_takes_are_counted_once_a_second() -> None:
    async def story() -> None:
        host = FakeHost(lambda call: b"a" * 1000)
        connection, transport = host.connect()
        transport.clogged = True
        deliver(connection, request(1))
        connection.count_unsent()
        assert host.answers.held_bytes == len(transport.written)
        transport.buffered = 0
        connection.count_unsent()
        assert host.answers.held_bytes == 0

    run(story())


def test_half_sent_frames_make_nobody_wait() -> None:
    async def story() -> None:
        host = FakeHost(budget_bytes=100_000)
        silent = [host.connect() for _ in range(4)]
        for connection, _ in silent:
            deliver(connection, pack(">i", 1_000_000) + bytes(40_000), 4096)
        assert host.requests.exhausted
        for _ in range(3):
            honest, transport = host.connect()
            body = b"b" * 12_000
            for start in range(0, 12_010, 4000):
                deliver(honest, request(1, body=body)[start : start + 4000])
                assert transport.reading
            assert numbers(transport) == [1]
        assert sum(connection.stalls for connection, _ in silent) < len(silent), "who is not read does not stall"

    run(story())


def test_requests_never_take_more_than_twice_the_budget() -> None:
    async def story() -> None:
        host = FakeHost(budget_bytes=100_000)
        connected = [host.connect() for _ in range(500)]
        for _ in range(3):
            for connection, transport in connected:
                if transport.reading and not transport.closed:
                    deliver(connection, pack(">i", 1_000_000)[: 0 if connection.stalls else 4] + bytes(2000))
                assert host.requests.used_bytes <= 200_000
        assert any(transport.closed for _, transport in connected)
        for connection, _ in connected:
            connection.connection_lost(None)
        assert host.requests.used_bytes == 0

    run(story())


def test_small_requests_in_a_queue_count_what_they_cost() -> None:
    async def story() -> None:
        host = working_host()
        connection, _ = host.connect()
        send(connection, many())
        assert host.requests.used_bytes > 50 * len(connection._reader.frames)

    run(story())
