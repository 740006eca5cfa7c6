"""A client that has sent all it wants, and ends the connection in order: with acks=0 it waits for nothing else, so what
it has sent to be written is written, however much stands before it. Kafka does the same (asked: 4.3.1)."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from broker.api.catalogue import NO_ANSWER, Deferred
from broker.network.connection import Connection
from tests.harness.certificates import Certificates
from tests.unit.broker.doubles import OTHER, PRODUCE, FakeCall, FakeTransport, numbers, request
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


def test_what_stands_before_a_write_is_done_too_and_nothing_behind_the_last_one_is_waited_for() -> None:
    async def story() -> None:
        asked = asyncio.get_running_loop().create_future()
        host = working_host()
        host.dispatcher.behave = lambda call: asked if call.key == OTHER else NO_ANSWER
        connection, transport = host.connect()
        send(connection, request(1) + request(2, key=PRODUCE) + request(3) + request(4))
        end(connection, transport)
        assert not transport.closed
        asked.set_result(b"")
        asked = asyncio.get_running_loop().create_future()
        await turns()
        assert transport.closed
        assert host.dispatcher.applied[:2] == [1, 2]

    run(story())


@pytest.mark.parametrize("waiting", [True, False], ids=["one that is worked on", "those that wait for their turn"])
def test_nobody_works_for_who_has_sent_nothing_to_be_written(waiting: bool) -> None:
    async def story() -> None:
        host = working_host()
        held: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if waiting:
            host.dispatcher.behave = lambda call: held
        connection, transport = host.connect()
        send(connection, many(COUNT, key=OTHER))
        applied = len(host.dispatcher.applied)
        end(connection, transport)
        assert transport.closed
        assert held.cancelled() or not waiting
        await turns()
        assert len(host.dispatcher.applied) == applied

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
        end(connection, transport)
        for number, one in enumerate(synced):
            assert not transport.closed
            one.set_result(b"")
            await turns()
            assert numbers(transport) == list(range(number + 1))
        assert transport.closed

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
