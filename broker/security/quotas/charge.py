"""What one request is charged: the bytes it brought or took, the time it had, what it changed in the metadata.

A fetch is charged before its answer is put together: one that is over its quota gets an empty answer, and what it would
have taken is not counted. All others are charged when they are answered.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from broker.security.quotas.client_quotas import ClientQuotas

_PERCENT = 100

T = TypeVar("T")


class Charge:
    """Of one request of `size_bytes` that the loop has had since `began_s`."""

    __slots__ = (
        "_began_s", "_client_id", "_mutations_ms", "_quotas", "_refused_ms", "_settled_ms", "_size_bytes",
        "_used_s", "_user",
    )  # fmt: skip

    def __init__(self, quotas: ClientQuotas, principal: str, client_id: str, size_bytes: int, began_s: float) -> None:
        self._quotas = quotas
        self._user = principal.partition(":")[2]
        self._client_id = client_id
        self._size_bytes = size_bytes
        self._used_s = 0.0
        self._began_s: float | None = began_s
        self._settled_ms: int | None = None
        self._mutations_ms = self._refused_ms = 0

    # -- time ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The loop is this request's from now on."""
        self._began_s = self._quotas.work_clock()

    def pause(self) -> None:
        """It is others' again."""
        if self._began_s is not None:
            self._used_s += self._quotas.work_clock() - self._began_s
            self._began_s = None

    async def timed(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this work; the time of its steps is charged, and what it waits for is not."""
        result: T = await _Timed(work, self)
        return result

    def _use_time(self, now_ms: int) -> int:
        if not self._quotas.request.limits:
            return 0
        used_s = self._used_s
        if self._began_s is not None:
            used_s += self._quotas.work_clock() - self._began_s
        return self._quotas.request.use(self._user, self._client_id, used_s * _PERCENT, now_ms)

    # -- fetches ---------------------------------------------------------------------------------------------

    def fetch_limit(self, wanted_bytes: int) -> int:
        """How much a fetch may ask for: more than a whole window holds would never be let through."""
        most = self._quotas.fetch.most_at_once(self._user, self._client_id)
        return wanted_bytes if most is None else min(wanted_bytes, max(int(most), 1))

    def fetched(self, size_bytes: int) -> int:
        """Charge a fetch; not 0 where it is to be answered with nothing."""
        quotas, now_ms = self._quotas, self._quotas.now_ms()
        time_ms = self._use_time(now_ms)
        bytes_ms = quotas.fetch.use(self._user, self._client_id, size_bytes, now_ms)
        self._settled_ms = max(time_ms, bytes_ms)
        if self._settled_ms:
            quotas.fetch.take_back(self._user, self._client_id, size_bytes, now_ms)
        return self._settled_ms

    # -- mutations of the metadata ---------------------------------------------------------------------------

    def may_change(self, partitions: int, *, strict: bool) -> bool:
        """Whether so many partitions may be made or deleted; counts them if so. A client that does not know
        THROTTLING_QUOTA_EXCEEDED (not `strict`) always may, and is silenced for it (KIP-599)."""
        now_ms = self._quotas.now_ms()
        allowance = self._quotas.mutation.allowance(self._user, self._client_id)
        if allowance is None:
            return True
        throttle_ms = allowance.throttle_ms(now_ms)
        if not (strict and throttle_ms):
            allowance.use(partitions, now_ms)
            throttle_ms = 0 if strict else allowance.throttle_ms(now_ms)
        if throttle_ms:
            self._mutations_ms, self._refused_ms = throttle_ms, now_ms
        return not (strict and throttle_ms)

    def may_make(self, partitions: int) -> bool:
        """The same for a topic that is made because it was asked for: nobody is silenced for it."""
        now_ms = self._quotas.now_ms()
        allowance = self._quotas.mutation.allowance(self._user, self._client_id)
        if allowance is None:
            return True
        if allowance.throttle_ms(now_ms):
            return False
        allowance.use(partitions, now_ms)
        return True

    # -- answers ---------------------------------------------------------------------------------------------

    def produced(self, *, answered: bool) -> int:
        """Charge a Produce; returns for how long its client is to be silent. The time of one that is not answered is
        not charged."""
        now_ms = self._quotas.now_ms()
        time_ms = self._use_time(now_ms) if answered else 0
        return max(time_ms, self._quotas.produce.use(self._user, self._client_id, self._size_bytes, now_ms))

    def answered(self) -> int:
        """Charge any other request; returns for how long its client is to be silent."""
        if self._settled_ms is not None:
            return self._settled_ms
        now_ms = self._quotas.now_ms()
        left_ms = self._mutations_ms - (now_ms - self._refused_ms) if self._mutations_ms else 0
        return max(self._use_time(now_ms), left_ms)


class _Timed:
    """A coroutine whose steps are charged."""

    __slots__ = ("_charge", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], charge: Charge) -> None:
        self._work = work
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, Any]:
        work, charge = self._work, self._charge
        step: Callable[[Any], Any] = work.send
        given: Any = None
        while True:
            charge.begin()
            try:
                waiting = step(given)
            except StopIteration as finished:
                return finished.value
            finally:
                charge.pause()
            try:
                given = yield waiting
                step = work.send
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  it is for `work`, a cancellation above all
                step, given = work.throw, error
