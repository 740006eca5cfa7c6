"""Following the metadata that another node writes: its latest snapshot, then what is committed behind it.

What is looked at outlives a failover of the store (`SharedStore.look`), so that nobody acts on what may be gone.
"""

from broker.coordination.cluster import Beginning, Cluster
from broker.coordination.cluster_opening import read_snapshots
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.shared.bringing import tail_of
from broker.shared.patience import Patience
from coordinator.cluster.topic_rules import METADATA_TOPIC_ID
from protocol.internal_topics import CLUSTER_METADATA
from storage.log import LogDamaged, StorageFailed
from storage.metadata_snapshots import SnapshotFolder
from storage.shared.beside import FOLDER
from storage.shared.kept_files import KeptFiles, KeptUnreadable
from storage.shared.store import FoundLog, Incarnation, ObjectMissing, OwnedLog, SharedStore

NAME = f"{CLUSTER_METADATA}-0"

_log = EventLog("metadata")


class Following:
    """That of one node, for as long as it does not lead."""

    def __init__(self, store: SharedStore, who: Incarnation, cluster: Cluster, environment: Environment) -> None:
        self._store = store
        self._who = who
        self._cluster = cluster
        self._environment = environment
        self._patience = Patience("the metadata is not followed")
        self._begun = False

    async def look(self) -> FoundLog | None:
        """The metadata log and its owner; None where nobody ever had it. Its snapshots, which are many and large, are
        brought until there is something to begin with. Raises `Fenced`, `StoreRefused`."""
        return await self._patience.until_reached(
            lambda: self._store.look(self._who, METADATA_TOPIC_ID, 0, with_kept=not self._begun)
        )

    async def begin_anew(self) -> None:
        """There is no metadata yet."""
        if not self._begun:
            self._begun = True
            await self._cluster.begin_to_follow(Beginning(0))

    async def take(self, log: OwnedLog) -> None:
        """Take over all that the log says. Raises `StorageFailed` where it cannot be read, or where this node is too
        far behind."""
        try:
            if not self._begun:
                begins = await self._beginning(log)
                self._begun = True
                await self._cluster.begin_to_follow(begins)
            offset = self._cluster.durable_offset
            if offset < log.first_offset:
                raise StorageFailed(f"{NAME} begins at {log.first_offset} by now, and was followed up to {offset}")
            if offset < log.next_offset:
                tail = await self._patience.until_reached(lambda: tail_of(self._store, log, offset, NAME))
                await self._cluster.follow(tail.batches, log.next_offset)
        except LogDamaged as damaged:
            if not isinstance(damaged.__cause__, ObjectMissing):
                raise StorageFailed(str(damaged)) from damaged
            # Its owner has replaced or forgotten what was looked for, in this very moment: the next look tells.
            _log.info("the metadata was rewritten while it was read; it is read again", reason=damaged)

    async def _beginning(self, log: OwnedLog) -> Beginning:
        try:
            kept = KeptFiles.from_bytes(log.kept)
        except (KeptUnreadable, ValueError) as error:
            raise StorageFailed(f"what was written down beside {NAME}: {error}") from error
        found = await read_snapshots(SnapshotFolder(kept, FOLDER), self._environment)
        one = found.whole
        if one is not None and log.first_offset <= one.end_offset <= log.next_offset:
            return Beginning(one.end_offset, one.epoch, found.contents.batches)
        if log.start_offset == 0 and one is None and not found.damaged:
            return Beginning(0)
        reason = found.contents.damage or "there is no snapshot of what stood before"
        raise StorageFailed(f"{NAME} begins at {log.start_offset}: {reason}")
