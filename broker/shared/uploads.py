"""Bytes that are brought before their commit: until they are there, and how that goes, for who watches the node."""

from collections.abc import Callable, Sequence

from broker.process.environment import Environment
from broker.shared.patience import Patience
from protocol.schema import Buffer
from storage.log import StorageFailed
from storage.shared.store import Incarnation, SharedStore, StoreRefused, StoreUnreachable, Upload

HELD_UP_MS = 5_000
"""After which it is said that writers wait. One write of a bucket may take as long once in a while."""


class Uploads:
    """Those of one node. `next_id` gives a number that was never given before."""

    def __init__(self, store: SharedStore, environment: Environment, next_id: Callable[[Incarnation], int]) -> None:
        self._store = store
        self._environment = environment
        self._next_id = next_id
        self._under_way: dict[int, int] = {}
        """Since when (monotonic), in the order in which they were begun."""
        self._begun = 0
        self.brought = self.brought_bytes = self.failed = 0

    async def bring(self, who: Incarnation, batches: Sequence[Buffer]) -> Upload:
        """Until they are there. Raises `StorageFailed`."""
        self._begun += 1
        number = self._begun
        self._under_way[number] = self._environment.monotonic_ms()
        patience = Patience("records wait to be brought where objects lie")
        try:
            found = await patience.until_reached(lambda: self._try(who, batches))
        except StoreRefused as over:
            raise StorageFailed(str(over)) from over
        finally:
            del self._under_way[number]
        self.brought += 1
        self.brought_bytes += found.size_bytes
        return found

    async def _try(self, who: Incarnation, batches: Sequence[Buffer]) -> Upload:
        try:
            return await self._store.upload(who, self._next_id(who), batches)
        except StoreUnreachable:
            self.failed += 1
            raise

    @property
    def oldest_ms(self) -> int:
        """How long the one that was begun first has been under way; 0 where there is none."""
        began_ms = next(iter(self._under_way.values()), None)
        return 0 if began_ms is None else self._environment.monotonic_ms() - began_ms

    def held_up(self) -> str | None:
        """That writers of clients' topics wait for it, in a sentence; None where all is well."""
        waited_ms = self.oldest_ms
        if waited_ms < HELD_UP_MS:
            return None
        return f"records have been waiting for {waited_ms // 1000} s to be brought where objects lie"
