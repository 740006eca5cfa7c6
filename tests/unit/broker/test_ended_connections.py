"""A client that has sent all it wants, and ends the connection in order: what it has sent is done, however much that
is, and answered, though it may not listen any more. With acks=0 there is nothing else that it could wait for. Kafka
does the same (asked: 4.3.1).
"""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from broker.api.catalogue import NO_ANSWER, Deferred
from broker.network.connection import Connection
from tests.harness.certificates import Certificates
from tests.unit.broker.doubles import FETCH, OTHER, PRODUCE, FakeCall, FakeTransport, numbers, request
from tests.unit.broker.test_connection import run, turns
from tests.unit.broker.test_tls_transport import Client, TlsHost
from tests.unit.broker.test_turns import many, send, working_host

COUNT = 200


def end(connection: Connection, transport: FakeTransport) -> None:
    """As the loop does when the socket has nothing more."""
    if not connection.eof_received():
        transport.close()
    if transport.closed:
        connection.connection_lost(None)


async def until_closed(connection: Connection, transport: FakeTransport) -> None:
    while not transport.closed:
        await asyncio.sleep(0)
    connection.connection_lost(None)


def test_what_was_sent_to_be_written_is_written() -> None:
    async def story() -> None:
        host = working_host()
        host.dispatcher.behave = lambda call: NO_ANSWER
        connection, transport = host.connect()
        send(connection, many(COUNT, key=PRODUCE))
        assert len(host.dispatcher.applied) < COUNT
        end(connection, transport)
        assert connection.info.is_lost
        await until_closed(connection, transport)
        assert host.dispatcher.applied == list(range(COUNT))
        assert transport.reading, "who has ended is not asked to go on"
        assert host.requests.used_bytes == 0 and host.lost == [connection]

    run(story())


async def answered_one_by_one(
    connection: Connection, transport: FakeTransport, awaited: "list[asyncio.Future[bytes]]"
) -> None:
    """Its requests are answered when each of these has come, and the last one closes the connection."""
    end(connection, transport)
    for number, one in enumerate(awaited):
        assert not transport.closed
        one.set_result(b"")
        await turns()
        assert numbers(transport) == list(range(number + 1))
    assert transport.closed


def test_whatever_was_sent_is_done_and_answered_in_turn() -> None:
    """`OffsetCommit` behind a `Fetch` that waits; the client may listen still."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        asked = [loop.create_future() for _ in range(4)]
        host = working_host()
        host.dispatcher.behave = lambda call: asked[call.number]
        connection, transport = host.connect()
        send(connection, request(0, key=FETCH) + request(1, key=PRODUCE) + request(2) + request(3))
        await answered_one_by_one(connection, transport, asked)

    run(story())


def test_who_has_nothing_to_wait_for_is_gone_at_once() -> None:
    async def story() -> None:
        host = working_host()
        connection, transport = host.connect()
        send(connection, request(1) + request(2)[:5])
        end(connection, transport)
        assert transport.closed and connection.info.is_lost
        assert host.dispatcher.applied == [1] and host.lost == [connection]
        assert host.requests.used_bytes == 0

    run(story())


@pytest.mark.parametrize("behind", [True, False])
def test_who_only_waits_is_gone_at_once_unless_more_stands_behind(behind: bool) -> None:
    """Nobody hears what comes of a long poll. Kafka waits for its end; but nothing is lost with it."""

    async def story() -> None:
        held: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        host = working_host()
        host.dispatcher.behave = lambda call: held if call.key == FETCH else NO_ANSWER
        connection, transport = host.connect()
        send(connection, request(1, key=FETCH) + (request(2, key=PRODUCE) if behind else b""))
        end(connection, transport)
        assert transport.closed is not behind and held.cancelled() is not behind
        if behind:
            held.set_result(b"")
            await turns()
            assert transport.closed and host.dispatcher.applied == [1, 2]

    run(story())


def test_a_client_that_is_lost_is_waited_for_no_more() -> None:
    """Reset, while what it had sent before its end was worked on."""

    async def story() -> None:
        held: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        host = working_host()
        host.dispatcher.behave = lambda call: held
        connection, transport = host.connect()
        send(connection, request(1) + request(2))
        assert connection.eof_received()
        connection.connection_lost(ConnectionResetError())
        await turns()
        assert held.cancelled() and host.dispatcher.applied == [1] and host.lost == [connection]
        assert transport.written == b""

    run(story())


def test_who_only_sends_no_more_hears_of_what_it_has_written() -> None:
    """`shutdown(SHUT_WR)`; with acks=all."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        synced = [loop.create_future() for _ in range(3)]
        host = working_host()

        def behave(call: FakeCall) -> object:
            return synced[0] if call.number == 0 else Deferred(synced[call.number])

        host.dispatcher.behave = behave
        connection, transport = host.connect()
        send(connection, many(3, key=PRODUCE))
        await answered_one_by_one(connection, transport, synced)

    run(story())


def test_who_is_closed_meanwhile_is_not_served_any_more() -> None:
    async def story() -> None:
        host = working_host()
        connection, _ = host.connect()
        send(connection, many(COUNT, key=PRODUCE))
        connection.close()
        applied = len(host.dispatcher.applied)
        assert not connection.eof_received()
        connection.connection_lost(None)
        await turns()
        assert len(host.dispatcher.applied) == applied

    run(story())


@pytest.mark.parametrize("says", ["goodbye", "goodbye and more", "nothing"])
def test_the_same_over_tls(tmp_path: Path, says: str) -> None:
    async def story() -> None:
        held = asyncio.get_running_loop().create_future()
        host = TlsHost(lambda call: held if call.key == OTHER else NO_ANSWER)
        client = Client(host, Certificates(tmp_path))
        client.shake()
        client.send(request(0) + many(COUNT, key=PRODUCE))
        if says != "nothing":
            with suppress(ssl.SSLWantReadError):
                client.tls.unwrap()
            client._send()
            await turns()
        if says == "goodbye and more":
            client.send_raw(bytes(1 << 20))
            assert client.handshake._incoming.pending == 0, "nobody keeps it"
        assert client.handshake.eof_received()
        assert host.dispatcher.applied == [0] and not client.socket.closed
        held.set_result(b"")
        await until_closed(client.connection, client.socket)
        assert host.dispatcher.applied == [0, *range(COUNT)]

    run(story())


def test_an_answer_that_is_not_taken_yet_is_not_cut_off() -> None:
    async def story() -> None:
        host = working_host()
        host.dispatcher.behave = lambda call: bytes(1 << 20)
        connection, transport = host.connect()
        transport.clogged = True
        send(connection, request(1))
        assert connection.eof_received()
        await turns()
        assert not transport.closed
        transport.drain()
        assert transport.closed and numbers(transport) == [1]

    run(story())
