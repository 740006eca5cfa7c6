"""How a node of several reaches the store: a line that may be slow, to a primary that may become another."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TypeVar

from protocol.schema import Buffer
from storage.shared.store import Fenced, Incarnation, NotOwned, StoreUnreachable, Upload
from tests.harness.loop import Entry, Scheduler
from tests.simulation.nodes.plan import SESSION_MS
from tests.simulation.nodes.standby import StoreWithStandby
from tests.simulation.stored import DistantStore, Line

T = TypeVar("T")

SLOW = (0.5, 2.0)
"""Sessions that an answer of a slow store takes."""
GIVEN_UP = 0.25
"""How often a connection is lost while a commit takes so long; it is made all the same."""
PATIENCE = 1.5
"""Sessions after which an upload is given up, as `broker.shared.bucket` does."""
LOOK_S = 0.01


class WayToStore(DistantStore):
    """That of one life of a node. What is on its way to a primary that was may arrive at the next one: the port knows
    of neither."""

    def __init__(
        self,
        model: StoreWithStandby,
        scheduler: Scheduler,
        line: Line,
        random: Random,
        *,
        hit: Callable[[str], None],
        is_cut: Callable[[], bool],
        is_slow: Callable[[], bool],
    ) -> None:
        super().__init__(model, scheduler, line, random, hit=hit, is_cut=is_cut)
        self._store = model
        self._is_slow = is_slow

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        if not self._is_slow():
            return await super().upload(who, upload_id, data)
        copied = [bytes(piece) for piece in data]
        takes_s, patience_s = self._slow_s(), PATIENCE * SESSION_MS / 1000
        if takes_s < patience_s:
            await asyncio.sleep(takes_s)
            return await super().upload(who, upload_id, copied)

        def arrive() -> None:
            with suppress(StopIteration):
                self._store.upload(who, upload_id, copied).__await__().send(None)

        self._hit("store.upload-given-up")
        scheduler = self._scheduler
        scheduler.at(scheduler.now + takes_s, Entry(arrive, (), scheduler.machine, None))
        await asyncio.sleep(patience_s)
        raise StoreUnreachable("the bucket has not answered for long")

    # -- the line --------------------------------------------------------------------------------------------

    def _slow_s(self) -> float:
        self._hit("store.slow")
        return self._random.uniform(*SLOW) * SESSION_MS / 1000

    def _delay_s(self) -> float:
        return self._slow_s() / 2 if self._is_slow() else super()._delay_s()

    def _late_s(self) -> float | None:
        if self._is_slow() and self._random.random() < GIVEN_UP:
            return self._slow_s()
        return super()._late_s()

    def _connection(self) -> int:
        return self._store.failovers

    def _is_down(self, connection: int) -> bool:
        return self._is_cut() or self._store.is_away or connection != self._store.failovers

    def _takes_what_comes(self) -> bool:
        return not self._store.is_away

    async def _shown(self, work: Callable[[], Awaitable[T]]) -> T:
        async def slowly() -> T:
            try:
                return await work()
            except Fenced:
                if self._is_slow():  # That is an answer, too.
                    await asyncio.sleep(self._delay_s())
                raise

        return await super()._shown(slowly)

    async def _made(self, work: Callable[[], Awaitable[T]]) -> T:
        connection = self._connection()
        refused: NotOwned | None = None
        try:
            found = await work()
        except NotOwned as not_owned:  # It was found, and is to stand as well.
            refused = not_owned
        while self._store.standby_stands_still and connection == self._store.failovers:
            await asyncio.sleep(LOOK_S)
        if refused is None:
            return found
        if self._is_down(connection):
            raise StoreUnreachable("the refusal was lost with its connection")
        raise refused
