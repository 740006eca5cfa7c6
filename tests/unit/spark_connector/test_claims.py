"""Claims: one attempt per lease and partition, claimed over a real socket."""

import socket
from collections.abc import Iterator

import pytest

from spark_connector.errors import ClaimRefused
from spark_connector.sink.claims import ClaimServer, claim


@pytest.fixture
def server() -> Iterator[ClaimServer]:
    made = ClaimServer("127.0.0.1", "127.0.0.1")
    yield made
    made.close()


def test_first_come_first_served_and_all_or_none(server: ClaimServer) -> None:
    with server.opened() as claims:
        claim(server.address, claims.token, 7, [0, 2])
        claim(server.address, claims.token, 7, [2, 4])
        with pytest.raises(ClaimRefused, match=r"\[2\] belong to another attempt"):
            claim(server.address, claims.token, 8, [1, 2])
        claim(server.address, claims.token, 9, [1])
        assert claims.holders == {0: 7, 2: 7, 4: 7, 1: 9}


def test_a_zombie_of_an_earlier_lease_is_refused(server: ClaimServer) -> None:
    """Its token is known no more; the next lease's claims are none of its business."""
    with server.opened() as first:
        claim(server.address, first.token, 1, [0])
    with server.opened() as second:
        with pytest.raises(ClaimRefused):
            claim(server.address, first.token, 1, [0])
        assert second.holders == {}


def test_nonsense_is_refused_and_harms_nobody(server: ClaimServer) -> None:
    with server.opened() as claims:
        for nonsense in (b"\n", b"{}\n", b"[1]\n", b'{"token": 1}\n', b"\xff" * 100 + b"\n"):
            with socket.create_connection(server.address, 10) as connection:
                connection.sendall(nonsense)
                assert b'"refused": []' not in connection.makefile("rb").readline()
        claim(server.address, claims.token, 1, [0])


def test_a_driver_that_is_gone_is_said_to_be(server: ClaimServer) -> None:
    with server.opened() as claims:
        server.close()
        with pytest.raises(ClaimRefused, match=r"spark\.driver\.host"):
            claim(server.address, claims.token, 1, [0])
