"""The address of a store: several hosts, what cannot be read, and a password that nobody is shown."""

import asyncio

import pytest

from broker.config.broker_config import BrokerConfig, ConfigError
from broker.shared.connections import Address, connect
from broker.shared.engines import store_of
from coordinator.cluster.keys.config_keys import BROKER_KEYS
from storage.shared.store import StoreRefused


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@h:5432/d?schema=s&password=secret", "postgresql://h:5432/d"),
        ("postgresql://me:secret@h1:5432,h2:5433,h3/d", "postgresql://h1:5432,h2:5433,h3/d"),
        ("postgresql://me:sec@ret@h/d", "postgresql://h/d"),
        ("postgresql://me:sec/ret@h/d", "postgresql://h/d"),
        ("postgresql://me@[::1]:5432/d", "postgresql://[::1]:5432/d"),
        ("postgresql:///d?host=h", "postgresql:///d"),
    ],
)
def test_people_are_told_the_hosts_and_the_database(url: str, place: str) -> None:
    assert BrokerConfig({"tallystick.store": url}).place == place


@pytest.mark.parametrize(
    "url", ["mysql://me:secret@h/d", "host=h password=secret", "postgresql://me:secret@h/d?schema=A-b"]
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        store_of(BrokerConfig({"tallystick.store": url}))
    assert str(refused.value).startswith("tallystick.store: ") and "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://me@h:secret/d", "postgresql://me:secret/word@h/d"])
def test_a_port_that_is_no_number_is_refused_and_not_said(url: str) -> None:
    pytest.importorskip("asyncpg")
    with pytest.raises(StoreRefused) as refused:
        asyncio.run(connect(Address(url)))
    assert "secret" not in str(refused.value)


def test_clients_that_ask_for_the_settings_are_not_shown_it() -> None:
    assert BROKER_KEYS["tallystick.store"].sensitive
