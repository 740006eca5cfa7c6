"""Whether logs are this node's still, as the store has it: who asks meanwhile shares the next question.

A node hears some milliseconds late that a log was given to another. What it commits is refused then; what it answers
out of memory nobody refuses.
"""

import asyncio
from collections.abc import Awaitable, Callable

from broker.shared.bringing import Own
from storage.shared.shared_log import SharedLog
from storage.shared.store import Fenced, Incarnation, SharedStore, StoreRefused, StoreUnreachable

Place = tuple[bytes, int]


class Ownership:
    """That of one node. `own` runs work in a task of the node's."""

    def __init__(self, store: SharedStore, who: Incarnation, own: Own) -> None:
        self._store = store
        self._who = who
        self._own = own
        self._next: dict[Place, asyncio.Future[bool]] = {}
        """What is answered by a question that has not begun yet."""
        self._asking: set[Place] = set()

    def of(self, log: SharedLog, topic_id: bytes, index: int) -> Awaitable[bool]:
        """Whether nobody else had claimed it when this was asked; False, too, where the store cannot be asked now."""
        place = topic_id, index
        if place not in self._next:
            self._next[place] = asyncio.get_running_loop().create_future()
            if place not in self._asking:
                self._asking.add(place)
                self._own(self._ask(place, lambda: self._is_ours(log, topic_id, index)))
        return asyncio.shield(self._next[place])

    async def _ask(self, place: Place, is_ours: Callable[[], Awaitable[bool]]) -> None:
        try:
            while (waiting := self._next.pop(place, None)) is not None:
                try:
                    waiting.set_result(await is_ours())
                finally:
                    waiting.cancel()  # Where this was ended.
        finally:
            self._asking.discard(place)

    async def _is_ours(self, log: SharedLog, topic_id: bytes, index: int) -> bool:
        try:
            found = await self._store.look(self._who, topic_id, index, with_kept=False)
        except (StoreUnreachable, StoreRefused, Fenced):
            return False
        owned = log.owned
        return found is not None and (
            (found.owner, found.log.log_id, found.log.owner_epoch) == (self._who, owned.log_id, owned.owner_epoch)
        )
