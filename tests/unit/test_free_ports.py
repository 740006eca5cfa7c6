"""`free_port` (tests.harness.proxy): whoever was given one may begin to listen a while later."""

from tests.harness.proxy import free_port, free_ports

ASKED = 300


def test_none_is_given_twice_though_nobody_listens_there() -> None:
    given = [free_port() for _ in range(ASKED)]
    for _ in range(10):
        first = free_ports(3)
        given += range(first, first + 3)
    assert len(set(given)) == len(given)
