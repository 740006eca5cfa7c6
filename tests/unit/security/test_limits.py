"""Whose quota holds for whom (KIP-55), and with whom a client is counted."""

import pytest

from broker.security.quotas.limits import Limits, key_of

ORDER = (
    ({"user": "u", "client-id": "c"}, ("u", "c")),
    ({"user": "u", "client-id": None}, ("u", "c")),
    ({"user": "u"}, ("u", "")),
    ({"user": None, "client-id": "c"}, ("u", "c")),
    ({"user": None, "client-id": None}, ("u", "c")),
    ({"user": None}, ("u", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
)
"""From the most to the least specific: the entity, and who is counted together by it."""


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_holds(first: int) -> None:
    limits = Limits()
    for number, (names, _) in enumerate(ORDER[first:], first):
        limits.set(key_of(names), 100 + number)
    assert limits.find("u", "c") == (ORDER[first][1], 100 + first)
    limits.set(key_of(ORDER[first][0]), None)
    rest = ORDER[first + 1 :]
    assert limits.find("u", "c") == ((rest[0][1], 101 + first) if rest else None)


def test_others_are_not_meant() -> None:
    limits = Limits()
    for names in ({"user": "u", "client-id": "c"}, {"user": "u"}, {"user": None, "client-id": "c"}, {"client-id": "c"}):
        limits.set(key_of(names), 1)
    assert limits.find("v", "d") is None
    assert limits.find("u", "d") == (("u", ""), 1)
    assert limits.find("v", "c") == (("v", "c"), 1)


def test_a_client_without_an_id_is_in_quotas_of_users_alone() -> None:
    limits = Limits()
    for names, _ in ORDER:
        if "client-id" in names:
            limits.set(key_of(names), 1)
    assert limits.find("u", "") is None
    limits.set(key_of({"user": None}), 2)
    assert limits.find("u", "") == (("u", ""), 2)
    limits.set(key_of({"user": "u"}), 3)
    assert limits.find("u", "") == (("u", ""), 3)


def test_nothing_is_left_of_what_is_taken_away() -> None:
    limits = Limits()
    limits.set(key_of({"user": "u"}), 1)
    assert limits
    limits.set(key_of({"user": "u"}), None)
    assert not limits and limits.find("u", "c") is None
