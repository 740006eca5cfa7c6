"""The store of several nodes, which says aloud what must not happen there, whatever nodes do.

Rule 1. No two incarnations commit to one log under one epoch.
Rule 2. The epochs under which a log is claimed, and committed to, only grow.
Rule 3. Who is not alive any more commits nothing.
"""

from collections.abc import Callable, Sequence

from protocol.schema import Buffer
from storage.shared.memory_store import StoreInMemory
from storage.shared.store import Incarnation, LogChange, OwnedLog, Upload


class CheckedStore(StoreInMemory):
    """See the head of this file. `wrong` is told a sentence."""

    def __init__(self, now_ms: Callable[[], int], wrong: Callable[[str], None], *, keeps_apart: bool) -> None:
        super().__init__(now_ms, keeps_apart=keeps_apart)
        self._wrong = wrong
        self._claimed: dict[int, tuple[int, int]] = {}
        """By log: the highest epoch under which it was given away, and to whom."""
        self._committed: dict[int, tuple[int, int]] = {}
        """By log: the highest epoch of a commit, and of whom."""

    async def claim(self, who: Incarnation, topic_id: bytes, index: int, epoch: int | None) -> OwnedLog:
        found = await super().claim(who, topic_id, index, epoch)
        before, owner = self._claimed.get(found.log_id, (-1, 0))
        if found.owner_epoch < before or (found.owner_epoch == before and owner != who.number):
            self._wrong(f"log {found.log_id} was claimed by {who} under {found.owner_epoch}, after {before} of {owner}")
        self._claimed[found.log_id] = max((before, owner), (found.owner_epoch, who.number))
        return found

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        refused = await super().commit(who, object_id, data, changes)
        if self._begun.get(who.number) != who or self._last_of(who.node_id) != who.number:
            self._wrong(f"{who} committed, and another life of its node had begun")
        for change in changes:
            if change.log_id in refused:
                continue
            epoch, owner = self._committed.get(change.log_id, (-1, 0))
            claimed = self._claimed.get(change.log_id)
            if change.owner_epoch < epoch or (change.owner_epoch == epoch and owner != who.number):
                self._wrong(f"{who} committed to log {change.log_id} under {change.owner_epoch}, after {owner} did")
            if claimed != (change.owner_epoch, who.number):
                self._wrong(f"{who} committed to log {change.log_id} under {change.owner_epoch}, and {claimed} has it")
            self._committed[change.log_id] = (change.owner_epoch, who.number)
        return refused

    def _last_of(self, node_id: int) -> int:
        return max(number for number, one in self._begun.items() if one.node_id == node_id)
