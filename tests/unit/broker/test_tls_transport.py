"""TLS beneath a connection: bounded in what it holds, in order, and ended as it should be."""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.api.context import ConnectionInfo
from broker.config.broker_config import BrokerConfig
from broker.network.connection import Connection
from broker.network.handshakes import Handshake, Handshakes
from broker.network.tls_transport import BYTES_A_TURN, PIECE_BYTES, PIECES_AT_ONCE, UNASKED_BYTES, TlsTransport
from broker.security.tls.contexts import load_tls
from broker.security.tls.settings import tls_settings
from tests.harness.certificates import Certificates
from tests.unit.broker.doubles import FakeHost, FakeTransport, deliver, numbers, request

AT_ONCE = 2 * PIECE_BYTES * PIECES_AT_ONCE


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(Path(tmp_path_factory.mktemp("certificates")))
    for name in ("alice", "bob"):
        made.issue(name)
    made.issue("late", ended=True)
    return made


class TlsHost(FakeHost):
    """A server of one connection, which speaks TLS."""

    def __init__(self, behave: Any = None, *, most: int = 10, longest_ticks: int = 10) -> None:
        super().__init__(behave)
        self.handshakes = Handshakes(most, longest_ticks)
        self.encrypted_buffer = memoryview(bytearray(256 << 10))


class Client:
    """Both ends of one connection, in one process: its broker's side is real but for the socket."""

    def __init__(
        self, host: TlsHost, certificates: Certificates, name: str | None = None, port: int = 4711, **settings: str
    ) -> None:
        said = certificates.settings(client_auth="requested")
        said |= {key.replace("_", "."): value for key, value in settings.items()}
        config = BrokerConfig({"listeners": "SSL://127.0.0.1:0", **said})
        self.connection = Connection(host, ConnectionInfo(1, "SSL", "", 0))
        self.handshake = Handshake(host, load_tls(tls_settings(config, "SSL")), self.connection)
        self.socket = FakeTransport(port)
        self.socket.protocol = self.handshake
        self.taken = 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = certificates.client_context(name)
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.handshake.connection_made(self.socket)

    def shake(self) -> None:
        """Both sides in turn, until they are done or one has enough."""
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            self._send()
            self._incoming.write(self._written())

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self._send()

    def send_raw(self, data: bytes) -> None:
        deliver(self.handshake, data)  # type: ignore[arg-type]

    def _send(self) -> None:
        self.send_raw(self._outgoing.read())

    def _written(self) -> bytes:
        data = bytes(self.socket.written[self.taken :])
        self.taken = len(self.socket.written)
        return data

    def read(self) -> bytes:
        """All that was sent and can be decrypted."""
        self._incoming.write(self._written())
        data = bytearray()
        with suppress(ssl.SSLWantReadError):
            while piece := self.tls.read(1 << 20):
                data += piece
        return bytes(data)


def story(told: Callable[[], Awaitable[None]]) -> None:
    async def tell() -> None:
        await told()

    asyncio.run(tell())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def answered(client: Client) -> list[int]:
    heard = FakeTransport()
    heard.written += client.read()
    return numbers(heard)


def test_requests_are_answered_and_files_are_not_sent(certificates: Certificates) -> None:
    async def told() -> None:
        host = TlsHost(lambda call: call.body)
        client = Client(host, certificates)
        assert len(host.handshakes) == 1
        client.shake()
        client.send(request(1, body=b"x" * 100_000) + request(2) + request(3))
        assert answered(client) == [1, 2, 3]
        assert len(host.handshakes) == 0
        assert client.connection.info.principal == "User:ANONYMOUS"
        assert not client.connection.info.sends_files

    story(told)


def test_whoever_shows_a_certificate_is_called_by_its_name(certificates: Certificates) -> None:
    async def told() -> None:
        client = Client(TlsHost(), certificates, "alice")
        client.shake()
        assert client.connection.info.principal == "User:CN=alice,O=tests"
        rule = {"ssl_principal_mapping_rules": "RULE:CN=([a-z]*),.*/$1/U"}
        short = Client(TlsHost(), certificates, "bob", **rule)
        short.shake()
        assert short.connection.info.principal == "User:BOB"

    story(told)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("late", {}, "certificate has expired"),
        ("alice", {"ssl_principal_mapping_rules": "RULE:nobody/x/"}, "no rule of ssl.principal.mapping.rules"),
        (None, {"ssl_client_auth": "required"}, "peer did not return a certificate"),
    ],
)
def test_who_is_not_let_in_gets_one_line(
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    name: str | None,
    settings: dict[str, str],
    reason: str,
) -> None:
    async def told() -> None:
        host = TlsHost()
        client = Client(host, certificates, name, **settings)
        client.shake()
        if "rules" not in reason:  # else TLS has no word for it
            with suppress(ssl.SSLError):
                client.read()
            assert client.socket.ended and not client.socket.closed, "its client is told, and may close"
            list(host.handshakes.sweep(1))
            assert not client.socket.closed
            list(host.handshakes.sweep(2))
        assert client.socket.closed and len(host.handshakes) == 0
        client.send_raw(request(1))
        assert host.dispatcher.applied == []

    with caplog.at_level(logging.WARNING):
        story(told)
    assert [record.getMessage() for record in caplog.records] == ["handshake failed"]
    assert reason in caplog.records[0].fields["reason"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", [request(1), b"GET / HTTP/1.1\r\n\r\n", b"\0"])
def test_a_client_without_tls_gets_one_line(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    async def told() -> None:
        client = Client(TlsHost(), certificates)
        client.send_raw(data)
        client.send_raw(data)
        assert client.socket.closed

    with caplog.at_level(logging.WARNING):
        story(told)
    assert ["not TLS" in record.fields["reason"] for record in caplog.records] == [True]  # type: ignore[attr-defined]


def test_a_client_with_tls_on_a_listener_without_gets_one_line(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def told() -> None:
        client = Client(TlsHost(), certificates)
        with suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        connection, transport = FakeHost().connect()
        deliver(connection, client._outgoing.read())
        assert transport.closed

    with caplog.at_level(logging.WARNING):
        story(told)
    assert [record.fields["reason"] for record in caplog.records] == [  # type: ignore[attr-defined]
        "what it sent is TLS, and this listener speaks without"
    ]


def test_only_so_many_handshakes_are_under_way(certificates: Certificates) -> None:
    async def told() -> None:
        host = TlsHost(most=3)
        clients = [Client(host, certificates) for _ in range(5)]
        assert [client.socket.closed for client in clients] == [True, True, False, False, False]
        clients[3].shake()
        Client(host, certificates)
        assert not clients[2].socket.closed, "one that is done counts no more"

    story(told)


def test_a_handshake_has_a_time(certificates: Certificates) -> None:
    async def told() -> None:
        host = TlsHost(longest_ticks=3)
        early, done = Client(host, certificates), Client(host, certificates)
        done.shake()
        host.tick = 2
        late = Client(host, certificates)
        for tick, closed in ((3, False), (4, True), (5, True)):
            list(host.handshakes.sweep(tick))
            assert early.socket.closed is closed
        assert not done.socket.closed and not late.socket.closed

    story(told)


def test_what_a_client_does_not_take_stays_open_text_and_counts(certificates: Certificates) -> None:
    async def told() -> None:
        answer = os.urandom(8 << 20)
        host = TlsHost(lambda call: answer)
        client = Client(host, certificates)
        client.shake()
        client.socket.clogged = True
        begun = len(client.socket.written)
        client.send(request(1) + request(2))
        await turns(50)
        assert len(client.socket.written) - begun <= AT_ONCE, "encrypted only what the socket takes"
        assert host.answers.held_bytes > len(answer) - AT_ONCE
        assert host.dispatcher.applied == [1], "the next request waits"
        rounds = 0
        heard = bytearray()
        while host.dispatcher.applied == [1] or host.answers.held_bytes:
            rounds += 1
            assert rounds < 1000
            before = len(client.socket.written)
            client.socket.drain()
            client.socket.clogged = client.socket.buffered == 0 and len(client.socket.written) == before
            await turns(1)
            heard += client.read()
        assert len(heard) == 2 * (8 + len(answer))
        assert heard[8 : 8 + len(answer)] == heard[16 + len(answer) :] == answer

    story(told)


def test_one_turn_encrypts_so_much_and_no_more(certificates: Certificates) -> None:
    async def told() -> None:
        answer = os.urandom(5 << 20)
        host = TlsHost(lambda call: answer)
        client = Client(host, certificates)
        client.shake()
        sizes = [len(client.socket.written)]
        client.send(request(1))
        while len(client.socket.written) < len(answer):
            sizes.append(len(client.socket.written))
            await asyncio.sleep(0)
        steps = [after - before for before, after in pairwise(sizes)]
        assert max(steps) <= BYTES_A_TURN + AT_ONCE
        assert client.read()[8:] == answer

    story(told)


def test_what_comes_while_nobody_reads_waits(certificates: Certificates) -> None:
    async def told() -> None:
        client = Client(TlsHost(), certificates)
        client.shake()
        host = client.connection._host
        client.handshake._tls.pause_reading()
        assert not client.socket.reading
        client.send(b"".join(request(number) for number in range(5000)))
        assert host.dispatcher.applied == []  # type: ignore[attr-defined]
        client.handshake._tls.resume_reading()
        assert client.socket.reading
        assert host.dispatcher.applied == []  # type: ignore[attr-defined]
        await turns()
        assert host.dispatcher.applied == list(range(5000))  # type: ignore[attr-defined]

    story(told)


def test_a_close_sends_what_there_is_and_says_that_it_was_all(certificates: Certificates) -> None:
    async def told() -> None:
        answer = os.urandom(4 << 20)
        client = Client(TlsHost(lambda call: answer), certificates)
        client.shake()
        client.send(request(1))
        client.connection.close()
        assert not client.socket.closed
        await turns(10)
        assert client.socket.closed
        client._incoming.write(client._written())
        heard = bytearray()
        while piece := client.tls.read(1 << 20):  # ends with what the broker said last, not with an error
            heard += piece
        assert len(heard) == 8 + len(answer)

    story(told)


@pytest.mark.parametrize("how", ["goodbye", "garbage", "abort"])
def test_an_end_is_an_end(certificates: Certificates, how: str) -> None:
    async def told() -> None:
        host = TlsHost()
        client = Client(host, certificates)
        client.shake()
        client.send(request(1))
        if how == "goodbye":
            with suppress(ssl.SSLWantReadError):
                client.tls.unwrap()
            client._send()
        elif how == "garbage":
            client.send_raw(b"\x17\x03\x03\x00\x40" + os.urandom(64))
        else:
            client.connection.abort()
        await turns()
        assert client.socket.closed
        client.handshake.connection_lost(None)
        assert host.lost == [client.connection]
        with suppress(ssl.SSLError):
            client.send(request(2))
        assert host.dispatcher.applied == [1]

    story(told)


def test_what_came_before_garbage_is_applied_and_its_answer_has_nowhere_to_go(certificates: Certificates) -> None:
    async def told() -> None:
        host = TlsHost()
        client = Client(host, certificates)
        client.shake()
        client.tls.write(request(1))
        client.send_raw(client._outgoing.read() + b"\x17\x03\x03\x00\x40" + os.urandom(64))
        assert host.dispatcher.applied == [1]
        await turns()
        assert client.socket.closed

    story(told)


def test_who_makes_openssl_talk_and_takes_nothing_is_sent_away() -> None:
    class Talks:
        def read(self, size: int, buffer: memoryview) -> int:
            outgoing.write(bytes(UNASKED_BYTES // 3))
            raise ssl.SSLWantReadError

        def write(self, data: bytes) -> None: ...

    class Silent:
        def get_buffer(self, sizehint: int) -> memoryview:
            return memoryview(bytearray(100))

        def buffer_updated(self, nbytes: int) -> None: ...
        def pause_writing(self) -> None: ...
        def resume_writing(self) -> None: ...

    outgoing = ssl.MemoryBIO()

    async def told() -> None:
        socket = FakeTransport()
        transport = TlsTransport(socket, Silent(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        transport.opened(Talks(), ssl.MemoryBIO(), outgoing)  # type: ignore[arg-type]
        for _ in range(10):
            transport.received(memoryview(b"x"))
        assert not socket.closed
        transport.socket_full()
        for _ in range(3):
            transport.received(memoryview(b"x"))
        assert not socket.closed
        transport.received(memoryview(b"x"))
        assert socket.closed

    story(told)
