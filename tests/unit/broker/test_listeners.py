"""Listeners and the addresses they advertise."""

import socket

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.listeners import BadListener, Endpoint, advertised, parse_listeners
from broker.network.listeners import SocketSettings, bind, bind_in_a_row


def test_listeners_are_read_as_kafka_writes_them() -> None:
    assert parse_listeners("plaintext://127.0.0.1:9092, INTERNAL://[::1]:0,ANY://:1") == [
        Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("INTERNAL", "::1", 0),
        Endpoint("ANY", "", 1),
    ]


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "A://host", "A://host:x", "A://host:70000", "A://h:1,A://h:2"])
def test_what_is_no_listener_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadListener):
        parse_listeners(text)


def test_port_zero_picks_one_free_port_for_all_addresses() -> None:
    sockets = bind(Endpoint("A", "127.0.0.1", 0), SocketSettings(10))
    try:
        assert len({made.getsockname()[1] for made in sockets}) == 1
    finally:
        for made in sockets:
            made.close()


def test_a_port_that_is_taken_is_refused_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadListener, match="cannot listen"):
            bind(Endpoint("A", "127.0.0.1", taken.getsockname()[1]), SocketSettings(10))


def accepted(address: str, settings: SocketSettings) -> socket.socket:
    """The broker's end of a connection."""
    (listening,) = bind(Endpoint("A", address, 0), settings)
    with listening, socket.create_connection(("127.0.0.1", listening.getsockname()[1])):
        listening.setblocking(True)
        return listening.accept()[0]


def buffers(connection: socket.socket) -> tuple[int, int]:
    options = (socket.SO_SNDBUF, socket.SO_RCVBUF)
    sent, received = (connection.getsockopt(socket.SOL_SOCKET, option) for option in options)
    return sent, received


def test_connections_have_the_buffers_that_are_set() -> None:
    with accepted("127.0.0.1", SocketSettings(10, 100_000, 150_000)) as one, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 150_000)
        assert buffers(one) == buffers(other)  # a system may double what it is told


def test_without_a_size_the_buffers_are_the_systems() -> None:
    with accepted("127.0.0.1", SocketSettings(10)) as one, accepted("127.0.0.1", SocketSettings(10, -1, -1)) as other:
        assert buffers(one) == buffers(other) != (200_000, 300_000)


def test_the_settings_of_buffers_are_kafkas() -> None:
    set_to = {"socket.send.buffer.bytes": "-1", "socket.receive.buffer.bytes": "5000"}
    assert SocketSettings.of(BrokerConfig(set_to), 7) == SocketSettings(7, -1, 5000)
    assert SocketSettings.of(BrokerConfig(), 7) == SocketSettings(7, 102_400, -1)


@pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="this system does not let congestion control be chosen"
)
def test_nothing_is_paced_on_the_way_to_a_client_on_this_machine() -> None:
    local, anywhere = accepted("127.0.0.1", SocketSettings(10)), accepted("0.0.0.0", SocketSettings(10))
    with local, anywhere, socket.socket() as fresh:
        chosen = [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for one in (local, anywhere, fresh)]
    assert chosen[0].rstrip(b"\0") == b"reno"
    assert chosen[1] == chosen[2]


def test_the_advertised_address_is_the_configured_or_listening_one() -> None:
    bound = [Endpoint("A", "127.0.0.1", 4000), Endpoint("B", "127.0.0.1", 4001)]
    endpoints = advertised(bound, parse_listeners("B://broker.example:0"))
    assert endpoints == {"A": bound[0], "B": Endpoint("B", "broker.example", 4001)}


def test_a_wildcard_address_is_never_advertised() -> None:
    endpoints = advertised([Endpoint("A", "0.0.0.0", 4000)], [])
    assert endpoints["A"].host not in ("", "0.0.0.0")


def test_nodes_of_one_process_have_neighbouring_ports() -> None:
    rows = bind_in_a_row([Endpoint("A", "127.0.0.1", 0), Endpoint("B", "127.0.0.1", 0)], SocketSettings(10), 3)
    try:
        assert [[bound.endpoint.listener for bound in row] for row in rows] == [["A", "B"]] * 3
        for place in range(2):
            first = rows[0][place].endpoint.port
            assert [row[place].endpoint.port for row in rows] == [first, first + 1, first + 2]
            assert [row[place].sockets[0].getsockname()[1] for row in rows] == [first, first + 1, first + 2]
    finally:
        for bound in (bound for row in rows for bound in row):
            bound.close()


def test_of_neighbouring_ports_of_which_one_is_taken_none_is_kept() -> None:
    rows = bind_in_a_row([Endpoint("A", "127.0.0.1", 0)], SocketSettings(10), 3)
    first, second, third = (row[0] for row in rows)
    first.close()
    third.close()
    try:
        with pytest.raises(BadListener, match=f"cannot listen on 127.0.0.1:{second.endpoint.port}"):
            bind_in_a_row([first.endpoint], SocketSettings(10), 3)
        bind_in_a_row([first.endpoint], SocketSettings(10), 1)[0][0].close()
    finally:
        second.close()


def test_ports_end() -> None:
    with pytest.raises(BadListener):
        bind_in_a_row([Endpoint("A", "127.0.0.1", 65535)], SocketSettings(10), 2)
