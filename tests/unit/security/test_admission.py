"""Who is let in, who makes room, and that nobody is counted who is not there."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.api.context import ConnectionInfo
from broker.config.broker_config import BrokerConfig
from broker.network.admission import Admission
from broker.security.quotas.connection_rates import ConnectionRates
from broker.security.quotas.rates import Windows
from tests.harness.loop import Scheduler, new_process, run_on

TWO = {
    "listeners": "OUTSIDE://127.0.0.1:9092,INSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


class Guest:
    """A connection that remembers what was done with it."""

    def __init__(self, address: str = "10.0.0.1", listener: str = "OUTSIDE", last_active: int = 0) -> None:
        self.info = ConnectionInfo(1, listener, address, 1)
        self.last_active = last_active
        self.working = False
        self.muted_ms = 0
        self.ended = ""
        self.is_read = True

    def stop_reading(self) -> None:
        self.is_read = False

    def mute(self, milliseconds: int) -> None:
        self.muted_ms = milliseconds

    def expire(self, reason: str) -> None:
        self.ended = reason


class Door:
    """An admission of two listeners, whose guests leave when they are told to."""

    def __init__(self, **settings: str) -> None:
        self.config = BrokerConfig(TWO | {key.replace("_", "."): value for key, value in settings.items()})
        self.now_ms = 5000
        self.rates = ConnectionRates(Windows(2, 1000), lambda: self.now_ms)
        self.admission = Admission(self.config, self.rates)

    def enter(self, guest: Guest) -> str | None:
        return self.admission.enter(guest)

    def change(self, **values: str) -> None:
        self.config.apply_dynamic(cluster_wide={key.replace("_", "."): value for key, value in values.items()}, own={})


def test_one_too_many_is_refused_and_not_counted() -> None:
    door = Door(max_connections="2")
    first, second, third = Guest(), Guest(), Guest()
    assert [door.enter(one) for one in (first, second, third)] == [None, None, "max.connections reached"]
    door.admission.leave(third)
    assert door.enter(third) == "max.connections reached"
    door.admission.leave(first)
    door.admission.leave(first)
    assert door.enter(third) is None
    assert door.enter(Guest()) == "max.connections reached"


@pytest.mark.parametrize(
    ("settings", "is_let_in"),
    [
        ({"inter.broker.listener.name": "inside"}, True),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, True),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, False),
        ({"tallystick.store": "postgresql://db.example/kafka", "inter.broker.listener.name": "INSIDE"}, True),
        ({"tallystick.store": "postgresql://db.example/kafka"}, False),
        ({"inter.broker.listener.name": "NOWHERE"}, False),
        ({}, False),
    ],
)
def test_nodes_come_in_where_clients_have_used_up_all(settings: dict[str, str], is_let_in: bool) -> None:
    two = TWO | {"listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:SASL_PLAINTEXT"}
    del two["inter.broker.listener.name"]
    config = BrokerConfig(two | {"max.connections": "1"} | settings)
    admission = Admission(config, ConnectionRates(Windows(2, 1000), lambda: 5000))
    client = Guest()
    assert admission.enter(client) is None
    told = admission.enter(Guest("10.0.0.2", "INSIDE"))
    assert (told is None, bool(client.ended)) == (is_let_in, is_let_in)


def test_nodes_that_use_the_first_listener_come_in_there() -> None:
    """Nobody has said which, and a store has others beside this one."""
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
            "listener.security.protocol.map": "OUTSIDE:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "tallystick.store": "postgresql://db.example/kafka",
            "max.connections": "1",
        }
    )
    admission = Admission(config, ConnectionRates(Windows(2, 1000), lambda: 5000))
    client = Guest()
    assert admission.enter(client) is None
    assert admission.enter(Guest("10.0.0.2", "PLAINTEXT")) is None and client.ended


def test_a_change_holds_at_once() -> None:
    door = Door(max_connections="1")
    assert [door.enter(Guest()), door.enter(Guest())] == [None, "max.connections reached"]
    door.change(max_connections="3", max_connections_per_ip="2")
    assert [door.enter(Guest()), door.enter(Guest())] == [None, "max.connections.per.ip reached"]
    door.change(max_connections="3", max_connections_per_ip_overrides="10.0.0.1:3")
    assert [door.enter(Guest()), door.enter(Guest())] == [None, "max.connections reached"]


def test_addresses_may_have_numbers_of_their_own() -> None:
    door = Door(max_connections_per_ip="1", max_connections_per_ip_overrides="10.0.0.2:2, [::1]:0")
    reached = "max.connections.per.ip reached"
    assert [door.enter(Guest("10.0.0.1")) for _ in range(2)] == [None, reached]
    assert [door.enter(Guest("10.0.0.2")), door.enter(Guest("::ffff:10.0.0.2")), door.enter(Guest("10.0.0.2"))] == [
        None,
        None,
        reached,
    ]
    assert door.enter(Guest("::1")) == reached


def test_whoever_was_silent_for_longest_makes_room_for_the_listener_of_brokers() -> None:
    door = Door(max_connections="3")
    busy, silent, lively = Guest(last_active=1), Guest(last_active=2), Guest(last_active=3)
    busy.working = True
    for guest in (busy, silent, lively):
        assert door.enter(guest) is None
    assert door.enter(Guest()) == "max.connections reached"
    operator = Guest(listener="INSIDE")
    assert door.enter(operator) is None
    assert (busy.ended, bool(silent.ended), lively.ended, operator.ended) == ("", True, "", "")


def test_the_listener_of_brokers_is_held_to_its_own_limit() -> None:
    door = Door(listener_name_inside_max_connections="1")
    assert [door.enter(Guest(listener="INSIDE")) for _ in range(2)] == [
        None,
        "max.connections of the listener INSIDE reached",
    ]


def test_a_lower_limit_closes_those_who_were_silent_for_longest() -> None:
    door = Door()
    guests = [Guest(last_active=number) for number in (4, 1, 3, 2)]
    protected = Guest(listener="INSIDE")
    for guest in (*guests, protected):
        door.enter(guest)
    list(door.admission.close_excess())
    assert not any(guest.ended for guest in guests)
    door.change(max_connections="3")
    list(door.admission.close_excess())
    assert [bool(guest.ended) for guest in guests] == [False, True, False, True]
    assert not protected.ended


def test_one_that_comes_too_fast_is_not_read_from_until_its_turn() -> None:
    door = Door(max_connection_creation_rate="2")
    guests = [Guest() for _ in range(4)]
    assert [door.enter(guest) for guest in guests] == [None] * 4
    assert [guest.muted_ms for guest in guests] == [0, 0, 500, 1000]
    inside = Guest(listener="INSIDE")
    assert (door.enter(inside), inside.muted_ms) == (None, 0)


def test_where_too_many_wait_the_next_is_refused() -> None:
    door = Door(max_connection_creation_rate="1")
    assert [door.enter(Guest()) for _ in range(20)][-1] == "max.connection.creation.rate reached"


def on_virtual_time(story: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    """Returns the timers that are left."""
    scheduler = Scheduler()
    loop = new_process(scheduler, "broker")
    run_on(loop, story())
    return scheduler.timers_of(loop)


def test_an_address_that_comes_too_fast_is_closed_later() -> None:
    async def story() -> None:
        door = Door(max_connections="2")
        door.rates.set("10.0.0.1", 1)
        guest, fast = Guest(), Guest()
        assert (door.enter(guest), door.enter(fast)) == (None, None)
        assert guest.is_read and not fast.is_read
        assert door.enter(Guest("10.0.0.2")) is None  # one that is turned away has no place
        await asyncio.sleep(0.999)
        assert not fast.ended
        await asyncio.sleep(0.002)
        assert fast.ended and not guest.ended

    assert on_virtual_time(story) == []


def test_one_that_is_turned_away_and_goes_leaves_no_timer() -> None:
    async def story() -> None:
        door = Door()
        door.rates.set(None, 1)
        door.enter(Guest())
        fast = Guest()
        door.enter(fast)
        door.admission.leave(fast)
        await asyncio.sleep(2)
        assert not fast.ended

    assert on_virtual_time(story) == []


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:x", "host.example:5", "10.0.0.1:-1", ":5"])
def test_numbers_of_addresses_that_cannot_be_read(text: str) -> None:
    with pytest.raises(Exception, match="Not an address and a number of connections"):
        BrokerConfig({"max.connections.per.ip.overrides": text})
