"""Listeners and the addresses they advertise."""

import socket

import pytest

from broker.config.listeners import BadListener, Endpoint, advertised, parse_listeners
from broker.network.listeners import bind


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
    sockets = bind(Endpoint("A", "127.0.0.1", 0), 10)
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
            bind(Endpoint("A", "127.0.0.1", taken.getsockname()[1]), 10)


def test_the_advertised_address_is_the_configured_or_listening_one() -> None:
    bound = [Endpoint("A", "127.0.0.1", 4000), Endpoint("B", "127.0.0.1", 4001)]
    endpoints = advertised(bound, parse_listeners("B://broker.example:0"))
    assert endpoints == {"A": bound[0], "B": Endpoint("B", "broker.example", 4001)}


def test_a_wildcard_address_is_never_advertised() -> None:
    endpoints = advertised([Endpoint("A", "0.0.0.0", 4000)], [])
    assert endpoints["A"].host not in ("", "0.0.0.0")
