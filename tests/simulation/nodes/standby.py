"""The store of several nodes with a synchronous standby, which may take its place.

Rule 1. What changes the store has an order, as a write-ahead log has. The standby has a part of it, from the begin on
without a gap.
Rule 2. What promises to outlive a failover is answered when the standby has it. While the standby stands still it is
done, everybody who looks sees it, and nobody is answered.
Rule 3. What promises nothing (who lives, runs, a heartbeat) is answered at once. A failover may lose what it has shown.
Rule 4. A failover ends all connections. What is in a bucket is as it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from protocol.schema import Buffer
from storage.shared.memory_store import _Log, _Object
from storage.shared.store import Incarnation, LogChange, Member, StoredRun, Upload
from tests.simulation.nodes.checked_store import CheckedStore

CHANGES = ("cluster_id", "join", "fence", "heartbeat", "leave", "claim", "commit", "settle", "forget", "collect")


@dataclass(frozen=True, slots=True)
class _State:
    """All that a database has, at one moment."""

    fields: dict[str, Any]
    """Those that nobody changes."""
    logs: dict[tuple[bytes, int], _Log]
    objects: dict[int, _Object | None]


FIELDS = ("_living", "_begun", "_heard_ms", "_about", "_claimed", "_committed", "_named")
NUMBERS = ("_cluster_id", "_last_number", "_last_log_id")


class StoreWithStandby(CheckedStore):
    """See the head of this file. `hit` is told what was met."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        wrong: Callable[[str], None],
        *,
        keeps_apart: bool,
        hit: Callable[[str], None] = lambda name: None,
    ) -> None:
        super().__init__(now_ms, wrong, keeps_apart=keeps_apart)
        self._hit = hit
        self.on_silence: Callable[[Incarnation], None] = lambda who: None
        """Called for whose life another has ended, since it was not heard."""
        self._brought: dict[int, bytes] = {}
        """All that ever came into the bucket."""
        self._named: dict[int, int] = {}
        """By object: the upload that it holds."""
        self._states: list[_State] = []
        """While the standby stands still: where it does, and what came of each change since."""
        self._shown = 0
        """How many of them somebody has seen without a promise."""
        self._answered_ms: dict[int, int] = {}
        """By life: when it was heard last, whether that is there or was lost."""
        self._apart_ms: dict[int, int] = {}
        """By life: how long before that it was heard the time before."""
        self.failovers = 0
        self.away_until_ms = 0

    @property
    def standby_stands_still(self) -> bool:
        return bool(self._states)

    @property
    def is_away(self) -> bool:
        """Whether there is no primary now."""
        return self._now_ms() < self.away_until_ms

    def stand_still(self) -> None:
        """The standby takes no more, for now."""
        if not self._states:
            self._states, self._shown = [self._state()], 0

    def go_on(self) -> None:
        """There is no failover, or it is over: the standby has all."""
        self._states = []
        self.away_until_ms = 0

    def fail_over(self, random: Random, away_ms: int) -> None:
        """The standby becomes the primary, with what it has by then of the rest."""
        last = len(self._states) - 1
        found = random.choice((0, 0, random.randint(0, last), last))
        self._hit("failover.all-was-there" if found == last else "failover.lost")
        if found < self._shown:
            self._hit("failover.lost-what-was-shown")
        self._restore(self._states[found])
        self.failovers += 1
        self._states, self.away_until_ms = [], self._now_ms() + away_ms

    # -- what it has -----------------------------------------------------------------------------------------

    def _state(self) -> _State:
        fields = {name: getattr(self, name) for name in NUMBERS} | {name: dict(getattr(self, name)) for name in FIELDS}
        logs = {place: replace(log, runs=list(log.runs)) for place, log in self._logs.items()}
        objects = {number: None if one is None else replace(one) for number, one in self._objects.items()}
        return _State(fields, logs, objects)

    def _restore(self, state: _State) -> None:
        for name, value in state.fields.items():
            setattr(self, name, value)
        self._logs, self._objects = state.logs, state.objects
        self._by_id = {log.log_id: log for log in state.logs.values()}
        taken = set(self._named.values())
        self._uploads = {number: data for number, data in self._brought.items() if number not in taken}

    def _changed(self) -> None:
        if self._states:
            self._states.append(self._state())

    # -- the port --------------------------------------------------------------------------------------------

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        found = await super().upload(who, upload_id, data)
        self._brought[upload_id] = self._uploads[upload_id]
        return found

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        found = await super().commit(who, object_id, data, changes)
        if isinstance(data, Upload):
            self._named[object_id] = data.upload_id
        return found

    async def heartbeat(self, who: Incarnation) -> None:
        await super().heartbeat(who)
        now_ms, number = self._now_ms(), who.number
        self._apart_ms[number] = now_ms - self._answered_ms.get(number, now_ms)
        self._answered_ms[number] = now_ms

    async def fence(self, who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
        lived = self._living.get(other.node_id) == other
        over = await super().fence(who, other, silent_ms)
        silence_ms = self._now_ms() - self._answered_ms.get(other.number, 0)
        # One whose heartbeats come late has none to spare that a failover may lose.
        is_late = self._apart_ms.get(other.number, 0) > silent_ms // 2
        if over and lived and silence_ms < silent_ms // 4 and not is_late:
            self._wrong(f"{who} ended {other}, which was heard {silence_ms} ms before")
        if over and lived:
            self.on_silence(other)
        return over

    async def members(self) -> list[Member]:
        self._shown = len(self._states) - 1
        return await super().members()

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        self._shown = len(self._states) - 1
        return await super().runs(log_id, offset, limit)


def _noted(change: Callable[..., Any]) -> Callable[..., Any]:
    """The same; what has come of it is one more that the standby is to take."""

    async def noted(self: StoreWithStandby, *given: Any, **named: Any) -> Any:
        try:
            return await change(self, *given, **named)
        finally:
            self._changed()

    return noted


for _name in CHANGES:
    setattr(StoreWithStandby, _name, _noted(getattr(StoreWithStandby, _name)))
