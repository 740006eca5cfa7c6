"""Who is let in: how many connections there may be, of all, on a listener and from an address, and how fast they may
come (KIP-308, KIP-402, KIP-612).

Rule 1. One too many is closed at once, and does not count. (Kafka lets it wait until another one goes.)
Rule 2. The listener that nodes use among each other, where there is another one, is not held to the limits of all
together: one that was silent for longest on the others makes room. Nodes come in that way when clients have used them
up, and so does an operator, where settings name such a listener for a node that is alone.
Rule 3. One that comes too fast waits, unread, or is closed later, so that its client does not come again at once.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from broker.api.context import ConnectionInfo
from broker.config.broker_config import BrokerConfig, ConfigError
from broker.peers.listener import BY_NAME, BY_PROTOCOL, between_nodes
from broker.security.quotas.connection_rates import ConnectionRates
from coordinator.cluster.keys.config_types import ConfigSource
from coordinator.cluster.keys.limit_keys import INT_MAX, PER_ADDRESS, canonical_address, connections_by_address


class Guest(Protocol):
    """A connection."""

    info: ConnectionInfo
    last_active: int

    @property
    def working(self) -> bool:
        """Whether it waits for us."""

    def stop_reading(self) -> None:
        """Take no more requests."""

    def mute(self, milliseconds: int) -> None:
        """Take none for so long."""

    def expire(self, reason: str) -> None:
        """Close it."""


class Admission:
    """See the head of this file."""

    def __init__(self, config: BrokerConfig, rates: ConnectionRates) -> None:
        self._config = config
        self._rates = rates
        self._protected = _protected(config)
        self._counted: dict[Guest, None] = {}
        self._turned_away: dict[Guest, asyncio.TimerHandle] = {}
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._overrides: tuple[str, dict[str, int]] = ("", {})
        """As they are written, and by address."""

    def enter(self, guest: Guest) -> str | None:
        """Take it in; a reason to refuse it, else None."""
        config, info = self._config, guest.info
        listener, address = info.listener, _address(info)
        is_protected = listener == self._protected
        is_full = len(self._counted) >= config.get_int("max.connections")
        if is_full and not is_protected:
            return "max.connections reached"
        if self._per_listener[listener] >= self._of_listener(listener, "max.connections"):
            return f"max.connections of the listener {listener} reached"
        if self._per_address[address] >= self._most_from(address):
            return "max.connections.per.ip reached"
        entrance = self._rates.enter(
            listener,
            address,
            broker=None if is_protected else _limited(config.get_int("max.connection.creation.rate")),
            of_listener=_limited(self._of_listener(listener, "max.connection.creation.rate")),
        )
        if entrance.is_full:
            return "max.connection.creation.rate reached"
        if entrance.refused_ms:
            self._turn_away(guest, entrance.wait_ms + entrance.refused_ms)
            return None
        if entrance.wait_ms:
            guest.mute(entrance.wait_ms)
        if is_full:
            for other in self._silent_for_longest(1):
                other.expire("max.connections reached, and a listener that is not held to it needs room")
        self._counted[guest] = None
        self._per_address[address] += 1
        self._per_listener[listener] += 1
        return None

    def _turn_away(self, guest: Guest, after_ms: int) -> None:
        guest.stop_reading()
        self._turned_away[guest] = asyncio.get_running_loop().call_later(
            after_ms / 1000, guest.expire, "connection_creation_rate reached"
        )

    def leave(self, guest: Guest) -> None:
        """It is gone."""
        if (timer := self._turned_away.pop(guest, None)) is not None:
            timer.cancel()
        if self._counted.pop(guest, self) is None:
            address = _address(guest.info)
            self._per_listener[guest.info.listener] -= 1
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def by_listener(self) -> dict[str, int]:
        """How many there are on each."""
        return dict(self._per_listener)

    def close_excess(self) -> Iterator[None]:
        """After `max.connections` was lowered: those that were silent for longest go, as in Kafka.

        Yields behind each."""
        excess = len(self._counted) - self._config.get_int("max.connections")
        if excess > 0:
            for guest in self._silent_for_longest(excess):
                if guest in self._counted:
                    guest.expire("max.connections was lowered")
                yield

    def _silent_for_longest(self, count: int) -> list[Guest]:
        others = (guest for guest in self._counted if guest.info.listener != self._protected)
        return sorted(others, key=lambda guest: (guest.working, guest.last_active))[:count]

    def _of_listener(self, listener: str, name: str) -> int:
        value = self._config.of_listener(listener, name)
        assert isinstance(value, int), listener
        return value

    def _most_from(self, address: str) -> int:
        text = self._config.get_str(PER_ADDRESS)
        if text != self._overrides[0]:
            self._overrides = text, connections_by_address(text)
        return self._overrides[1].get(address, self._config.get_int("max.connections.per.ip"))


def _protected(config: BrokerConfig) -> str | None:
    is_said = any(config.resolve(key).source is not ConfigSource.DEFAULT for key in (BY_NAME, BY_PROTOCOL))
    is_used = bool(config.store) or config.node_count > 1
    if len(config.listeners) == 1 or not (is_said or is_used):
        return None
    with contextlib.suppress(ConfigError):  # Where there is no such listener, no node uses one.
        return between_nodes(config)
    return None


def _address(info: ConnectionInfo) -> str:
    return canonical_address(info.peer_host) or info.peer_host


def _limited(rate: int) -> int | None:
    return None if rate == INT_MAX else rate
