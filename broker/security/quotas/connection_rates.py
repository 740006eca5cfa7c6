"""How fast connections may come: to the broker, to a listener, from an address (KIP-612).

A listener takes them one after another, and one that comes too fast keeps those behind it waiting. One that comes too
fast from its address is not taken at all, and does not count.
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.security.quotas.client_quotas import Counted
from broker.security.quotas.rates import Rate, Windows

LONGEST_WAIT_MS = 5_000
"""Who would wait longer for its turn is turned away at once: those who wait hold a descriptor, and have yet to shake
hands."""


class Entrance(NamedTuple):
    """Served in `wait_ms`; if `refused_ms` is not 0, closed that much later instead. `is_full`: there is no waiting."""

    wait_ms: int = 0
    refused_ms: int = 0
    is_full: bool = False


class ConnectionRates:
    """Of one broker. `now_ms` is a clock that never goes back."""

    def __init__(self, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._limits: dict[str | None, float] = {}
        """By address; None is for all others."""
        self._addresses: Counted[Rate] = Counted(Rate)
        self._broker = Rate()
        self._listeners: dict[str, Rate] = {}
        self._free_ms: dict[str, int] = {}
        """When a listener has taken all that came."""

    def set(self, address: str | None, rate: float | None) -> None:
        """The quota of an address, or of all that have none of their own; None: there is none any more."""
        if rate is None:
            self._limits.pop(address, None)
        else:
            self._limits[address] = rate

    def enter(self, listener: str, address: str, *, broker: int | None, of_listener: int | None) -> Entrance:
        """A connection comes. The rates are how many may come in a second; None: as many as like."""
        of_address = self._limits.get(address, self._limits.get(None)) if self._limits else None
        if broker is None and of_listener is None and of_address is None:
            return Entrance()
        now_ms = self._now_ms()
        begins_ms = max(now_ms, self._free_ms.get(listener, 0))
        if begins_ms - now_ms > LONGEST_WAIT_MS:
            return Entrance(is_full=True)
        limited = [(self._broker, broker)] if broker is not None else []
        if of_listener is not None:
            limited.append((self._listeners.setdefault(listener, Rate()), of_listener))
        waits_ms = max((self._use(rate, bound, begins_ms) for rate, bound in limited), default=0)
        begins_ms = self._free_ms[listener] = begins_ms + waits_ms
        if of_address is not None:
            rate = self._addresses.of((address,))
            refused_ms = self._use(rate, of_address, begins_ms)
            if refused_ms:
                for one in (rate, *(one for one, _ in limited)):
                    one.record(self._windows, -1, begins_ms)
                return Entrance(begins_ms - now_ms, refused_ms)
        return Entrance(begins_ms - now_ms)

    def _use(self, rate: Rate, bound: float, now_ms: int) -> int:
        rate.record(self._windows, 1, now_ms)
        return min(rate.throttle_ms(self._windows, bound, now_ms), self._windows.size_ms)
