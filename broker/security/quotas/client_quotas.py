"""Quotas of users and client ids: what is set, and what was used of it (KIP-13, KIP-124, KIP-599).

Nobody is refused for what was used: they are told how long to be silent, and are not read from meanwhile. Mutations of
the metadata alone are refused, where the client knows the error.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Generic, TypeVar

from broker.security.quotas.limits import Limits, Shared, key_of
from broker.security.quotas.rates import LONGEST_MS, Rate, TokenBucket, Windows
from coordinator.cluster.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

MOST_COUNTED = 10_000
"""Who is counted, for each kind of quota. Client ids are chosen by clients: beyond that those that used nothing for
longest are forgotten, and begin anew."""
LONGEST_NAME = 256
"""In letters; a longer name stands in the table by its digest."""

S = TypeVar("S")


class Counted(Generic[S]):
    """What each of those who are counted together has used, the least recent first."""

    __slots__ = ("_by_name", "_make")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._by_name: OrderedDict[tuple[str, ...], S] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, name: tuple[str, ...]) -> S:
        if any(len(one) > LONGEST_NAME for one in name):
            name = tuple(one if len(one) <= LONGEST_NAME else sha256(one.encode()).hexdigest() for one in name)
        found = self._by_name.get(name)
        if found is None:
            if len(self._by_name) >= MOST_COUNTED:
                self._by_name.popitem(last=False)
            found = self._by_name[name] = self._make()
        else:
            self._by_name.move_to_end(name)
        return found


class RateQuota:
    """So much in a second: bytes, or hundredths of the time of the loop."""

    def __init__(self, windows: Windows, longest_ms: int = LONGEST_MS) -> None:
        self.limits = Limits()
        self._windows = windows
        self._longest_ms = longest_ms
        self._rates: Counted[Rate] = Counted(Rate)

    def use(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count what was used; returns for how many milliseconds the client is to be silent."""
        found = self.limits.find(user, client_id)
        if found is None:
            return 0
        shared, bound = found
        rate = self._rates.of(shared)
        rate.record(self._windows, value, now_ms)
        return min(rate.throttle_ms(self._windows, bound, now_ms), self._longest_ms)

    def take_back(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """What was counted just now was not used."""
        found = self.limits.find(user, client_id)
        if found is not None:
            self._rates.of(found[0]).record(self._windows, -value, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """What may be used at once by one who used nothing before; None: as much as it wants."""
        found = self.limits.find(user, client_id)
        return None if found is None else found[1] * (self._windows.count - 1) * self._windows.size_ms / 1000


@dataclass(frozen=True, slots=True)
class MutationAllowance:
    """The bucket that mutations of one request are taken from."""

    bucket: TokenBucket
    windows: Windows
    bound: float

    def throttle_ms(self, now_ms: int) -> int:
        return self.bucket.throttle_ms(self.windows, self.bound, now_ms)

    def use(self, count: int, now_ms: int) -> None:
        self.bucket.record(self.windows, self.bound, count, now_ms)


class MutationQuota:
    """So many partitions made or deleted in a second."""

    def __init__(self, windows: Windows) -> None:
        self.limits = Limits()
        self._windows = windows
        self._buckets: Counted[TokenBucket] = Counted(TokenBucket)

    def allowance(self, user: str, client_id: str) -> MutationAllowance | None:
        """None where nothing is set for the client."""
        found: tuple[Shared, float] | None = self.limits.find(user, client_id)
        if found is None:
            return None
        return MutationAllowance(self._buckets.of(found[0]), self._windows, found[1])


class ClientQuotas:
    """See the head of this file. `now_ms` is a clock that never goes back, `work_clock` one that is fine enough to
    measure work with, in seconds."""

    def __init__(
        self, windows: Windows, mutation_windows: Windows, now_ms: Callable[[], int], work_clock: Callable[[], float]
    ) -> None:
        self.now_ms = now_ms
        self.work_clock = work_clock
        self.produce, self.fetch = RateQuota(windows), RateQuota(windows)
        self.request = RateQuota(windows, longest_ms=windows.size_ms)
        """In hundredths of the time of one thread: this broker has one."""
        self.mutation = MutationQuota(mutation_windows)
        self._limits = {
            PRODUCER_BYTE_RATE: self.produce.limits,
            CONSUMER_BYTE_RATE: self.fetch.limits,
            REQUEST_PERCENTAGE: self.request.limits,
            CONTROLLER_MUTATION_RATE: self.mutation.limits,
        }
        self._followers: list[Callable[[bool], None]] = []

    def on_change(self, follower: Callable[[bool], None]) -> None:
        """Call `follower` now, and after each change, with whether there are any quotas."""
        self._followers.append(follower)
        follower(any(map(bool, self._limits.values())))

    def set(self, names: Mapping[str, str | None], quotas: Mapping[str, float]) -> None:
        """All quotas of an entity of users and client ids, given by its names by type."""
        key = key_of(names)
        for kind, limits in self._limits.items():
            bound = quotas.get(kind)
            limits.set(key, bound if bound is not None and bound < float("inf") else None)
        has_any = any(map(bool, self._limits.values()))
        for follower in self._followers:
            follower(has_any)
