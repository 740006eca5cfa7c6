"""Quotas of users and client ids: what is charged to whom, and what is kept of whom."""

from collections.abc import Coroutine
from types import coroutine
from typing import Any

import pytest

from broker.security.quotas import client_quotas
from broker.security.quotas.charge import Charge
from broker.security.quotas.client_quotas import ClientQuotas
from broker.security.quotas.rates import Windows

USER = {"user": "alice"}


class Rig:
    """Quotas on clocks that stand until they are told otherwise."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.work_s = 0.0
        windows = Windows(11, 1000)
        self.quotas = ClientQuotas(windows, windows, lambda: self.now_ms, lambda: self.work_s)

    def charge(self, size_bytes: int = 0, *, user: str = "alice", client_id: str = "c") -> Charge:
        charge = Charge(self.quotas, f"User:{user}", client_id, size_bytes, self.work_s)
        charge.pause()
        return charge

    def works(self, charge: Charge, seconds: float) -> Charge:
        charge.begin()
        self.work_s += seconds
        charge.pause()
        self.work_s += 100  # others had the loop
        return charge


def test_bytes_of_produces_count_together_for_a_user() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"producer_byte_rate": 100})
    assert rig.charge(1000, client_id="a").produced(answered=True) == 0
    assert rig.charge(100, client_id="b").produced(answered=True) == 1000
    assert rig.charge(1_000_000, user="bob").produced(answered=True) == 0


def test_a_fetch_over_its_quota_is_not_counted() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"consumer_byte_rate": 100})
    assert rig.charge().fetch_limit(1 << 20) == 1000
    assert rig.charge(user="bob").fetch_limit(1 << 20) == 1 << 20
    rig.quotas.set({"user": "little"}, {"consumer_byte_rate": 0.01})
    assert rig.charge(user="little").fetch_limit(1 << 20) == 1
    assert rig.charge().fetched(1000) == 0
    over = rig.charge()
    assert over.fetched(100) == 1000
    assert over.answered() == 1000
    rig.now_ms += 1
    assert rig.charge().fetched(0) == 0


def test_time_is_charged_as_hundredths_and_never_for_longer_than_a_window() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"request_percentage": 1})
    assert rig.works(rig.charge(), 0.1).answered() == 0  # 10 s × 1 % are 0.1 s
    assert rig.works(rig.charge(), 0.05).answered() == 1000
    assert rig.works(rig.charge(), 0.05).produced(answered=False) == 0


def test_a_request_that_is_being_worked_on_is_charged_so_far() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"request_percentage": 1})
    charge = rig.charge()
    charge.begin()
    rig.work_s += 0.11
    assert charge.fetched(0) == 1000


@coroutine
def waits(for_what: object) -> Any:
    """Give the loop to others; what it is given back."""
    return (yield for_what)


def test_each_step_of_a_request_is_charged_and_no_wait() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"request_percentage": 1})

    async def work() -> str:
        rig.work_s += 0.08
        assert await waits("first") == "answer"
        rig.work_s += 0.08
        return "done"

    charge = rig.charge()
    timed = charge.timed(work())
    assert timed.send(None) == "first"
    rig.work_s += 100
    with pytest.raises(StopIteration) as done:
        timed.send("answer")
    assert done.value.value == "done"
    rig.work_s += 100
    assert charge._used_s == pytest.approx(0.16)
    assert charge.answered() == 1000


def test_a_timed_request_that_fails_is_charged_for_what_it_did() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"request_percentage": 1})

    async def work() -> None:
        rig.work_s += 0.11
        raise ValueError

    charge = rig.charge()
    with pytest.raises(ValueError):
        charge.timed(work()).send(None)
    rig.work_s += 100
    assert charge._used_s == pytest.approx(0.11)


def steps_of(heard: list[str]) -> Coroutine[Any, Any, str]:
    async def work() -> str:
        try:
            await waits("here")
        except KeyError:
            heard.append("told")
            await waits("there")
        else:
            heard.append("went on")
        finally:
            heard.append("ended")
        return "done"

    return work()


def test_what_ends_a_wait_is_for_the_work_that_waits() -> None:
    heard: list[str] = []
    timed = Rig().charge().timed(steps_of(heard))
    assert timed.send(None) == "here"
    assert timed.throw(KeyError()) == "there" and heard == ["told"]
    with pytest.raises(StopIteration) as done:
        timed.send(None)
    assert done.value.value == "done" and heard == ["told", "ended"]


def test_work_that_is_given_up_ends() -> None:
    heard: list[str] = []
    work = steps_of(heard)
    timed = Rig().charge().timed(work)
    assert timed.send(None) == "here"
    timed.close()
    assert heard == ["ended"] and work.cr_frame is None


def test_mutations_are_refused_to_those_who_know_the_error() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"controller_mutation_rate": 1})
    strict = rig.charge()
    assert strict.may_make(1)
    assert [strict.may_change(count, strict=True) for count in (5, 6, 6)] == [True, True, False]
    assert strict.answered() == 1000  # 11 were there, 12 are gone: one second
    old = rig.charge()
    assert old.may_change(6, strict=False)
    assert old.answered() == 7000
    rig.now_ms += 2000
    assert old.answered() == 5000
    assert not rig.charge().may_make(1)
    unlimited = rig.charge(user="bob")
    assert unlimited.may_change(1000, strict=True) and unlimited.may_make(1000) and unlimited.answered() == 0


def test_what_is_refused_costs_nothing() -> None:
    rig = Rig()
    rig.quotas.set(USER, {"controller_mutation_rate": 1})
    charge = rig.charge()
    assert charge.may_change(12, strict=True)
    for _ in range(100):
        assert not charge.may_change(1000, strict=True)
    rig.now_ms += 1000
    assert rig.charge().may_change(1, strict=True)


def test_a_change_holds_for_what_comes_next() -> None:
    rig = Rig()
    seen: list[bool] = []
    rig.quotas.on_change(seen.append)
    rig.quotas.set(USER, {"producer_byte_rate": 100})
    rig.charge(2000).produced(answered=True)
    rig.quotas.set(USER, {"producer_byte_rate": 1000})
    assert rig.charge(0).produced(answered=True) == 0
    rig.quotas.set(USER, {"producer_byte_rate": float("inf")})
    rig.quotas.set(USER, {})
    assert rig.charge(1 << 30).produced(answered=True) == 0
    assert seen == [False, True, True, False, False]


def test_as_many_clients_are_counted_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who used nothing for longest is forgotten first."""
    monkeypatch.setattr(client_quotas, "MOST_COUNTED", 3)
    rig = Rig()
    rig.quotas.set({"client-id": None}, {"producer_byte_rate": 1})
    for name in ("a", "b", "c", "a", "d"):
        rig.charge(10, client_id=name).produced(answered=True)
    assert len(rig.quotas.produce._rates) == 3
    assert rig.charge(10, client_id="a").produced(answered=True) == 20_000
    assert rig.charge(10, client_id="b").produced(answered=True) == 0


def test_a_long_client_id_is_kept_as_its_digest() -> None:
    rig = Rig()
    rig.quotas.set({"client-id": None}, {"producer_byte_rate": 1})
    for last in "ab":
        rig.charge(10, client_id="x" * 30_000 + last).produced(answered=True)
    names = list(rig.quotas.produce._rates._by_name)
    assert len(names) == 2 and all(len(one) <= 256 for name in names for one in name)
