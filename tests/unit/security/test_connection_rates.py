"""How fast connections may come: who waits for how long, and who is turned away (KIP-612)."""

import pytest

from broker.security.quotas import client_quotas
from broker.security.quotas.connection_rates import LONGEST_WAIT_MS, ConnectionRates, Entrance
from broker.security.quotas.rates import Windows

A, B = "10.0.0.1", "10.0.0.2"


class Rig:
    """Two windows of a second: in the first one as many may come at once as in a second."""

    def __init__(self) -> None:
        self.now_ms = 10_000
        self.rates = ConnectionRates(Windows(2, 1000), lambda: self.now_ms)

    def enter(
        self, address: str = A, listener: str = "L", *, broker: int | None = None, of_listener: int | None = None
    ) -> Entrance:
        return self.rates.enter(listener, address, broker=broker, of_listener=of_listener)


def test_where_nothing_is_limited_nobody_is_counted() -> None:
    rig = Rig()
    assert {rig.enter() for _ in range(1000)} == {Entrance()}
    assert len(rig.rates._addresses) == 0 and not rig.rates._listeners


def test_those_who_come_too_fast_wait_one_after_another() -> None:
    rig = Rig()
    waits = [rig.enter(broker=10).wait_ms for _ in range(13)]
    # 11 in a second is a tenth too many, 12 in 1.1 s one eleventh, ...
    assert waits[:10] == [0] * 10
    assert waits[10:] == [100, 200, 300]
    rig.now_ms += 300
    assert rig.enter(broker=10).wait_ms == 100
    rig.now_ms += 5000
    assert rig.enter(broker=10).wait_ms == 0


def test_the_first_of_all_waits_for_nothing() -> None:
    rig = Rig()
    rig.now_ms = 0
    assert rig.enter(broker=10) == rig.enter(listener="other", of_listener=10) == Entrance()
    rig.rates.set(A, 10)
    assert rig.enter(listener="third") == Entrance()


def test_the_slower_of_two_limits_holds() -> None:
    rig = Rig()
    for _ in range(2):
        rig.enter(broker=10, of_listener=2)
    assert rig.enter(broker=10, of_listener=2).wait_ms == 500
    assert rig.enter(listener="other", broker=10, of_listener=2).wait_ms == 0


def test_nobody_waits_for_ever() -> None:
    rig = Rig()
    waits = [rig.enter(of_listener=1) for _ in range(20)]
    let_in = [Entrance(wait_ms) for wait_ms in range(0, LONGEST_WAIT_MS + 1001, 1000)]
    assert waits == [*let_in, *[Entrance(is_full=True)] * (20 - len(let_in))]
    rig.now_ms += LONGEST_WAIT_MS
    assert not rig.enter(of_listener=1).is_full


def test_an_address_that_comes_too_fast_is_turned_away_and_does_not_count() -> None:
    rig = Rig()
    rig.rates.set(A, 2)
    assert [rig.enter(broker=10).refused_ms for _ in range(3)] == [0, 0, 500]
    assert [rig.enter(broker=10).refused_ms for _ in range(50)] == [500] * 50
    assert [rig.enter(B, broker=10) for _ in range(8)] == [Entrance()] * 8  # ten in all
    rig.now_ms += 2000
    assert rig.enter(broker=10).refused_ms == 0


def test_an_address_of_its_own_goes_before_the_default() -> None:
    rig = Rig()
    rig.rates.set(None, 1)
    rig.rates.set(A, 3)
    assert [rig.enter(A).refused_ms > 0 for _ in range(4)] == [False, False, False, True]
    assert [rig.enter(B).refused_ms > 0 for _ in range(2)] == [False, True]
    rig.rates.set(A, None)
    rig.rates.set(None, None)
    assert {rig.enter(one) for one in (A, B) for _ in range(9)} == {Entrance()}


def test_as_many_addresses_are_counted_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MOST_COUNTED", 5)
    rig = Rig()
    rig.rates.set(None, 1)
    for last in range(100):
        rig.enter(f"10.0.1.{last}")
    assert len(rig.rates._addresses) == 5
