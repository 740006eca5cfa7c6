"""Snapshots of the metadata (KIP-630), so that a start reads what there is and not all that ever was.

Rule 1. The image is held fast in one turn and written down in slices; the file is written when all it contains is
        durable in the log, and nothing leaves the log before the file is durable.
Rule 2. The log begins a new segment with each snapshot: what leaves is whole segments, those before the oldest snapshot
        that is kept (Kafka waits for the segment to be full; what it holds back is never read).
Rule 3. Of the snapshots, the latest always stays, the others for as long as Kafka keeps them: with each of them goes
        the log behind it, so that a start can do with an older one where the latest is damaged.
Rule 4. In memory there is nothing to write: what is in the image need not be in the log.
Rule 5. Where other nodes follow the log, what leaves it has been there for twice as long as a node may be silent: who
        lives has taken it in.
"""

import asyncio
from collections.abc import Callable, Collection

from broker.config.broker_config import BrokerConfig
from broker.coordination.cluster import Cluster
from broker.process.environment import Environment
from broker.process.logging import EventLog
from coordinator.cluster.snapshot import FrozenImage, freeze, snapshot_batches, thaw
from coordinator.runtime import ShardState
from storage.metadata_snapshots import SnapshotFolder, SnapshotId

_log = EventLog("metadata")


class MetadataSnapshots:
    """Those of one node. `folder` gives None where nothing outlives the process; `leaving` gives the ids of
    removed topics whose folders may still be there. `single`: the node leads everything, whatever the image says."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Callable[[], SnapshotFolder | None],
        config: BrokerConfig,
        environment: Environment,
        leaving: Callable[[], Collection[bytes]],
        *,
        single: bool = True,
    ) -> None:
        self._cluster = cluster
        self._folder_of_log = folder
        self._single = single
        self._config = config
        self._environment = environment
        self._leaving = leaving
        self._latest_ms = environment.monotonic_ms()
        self._seen_ms: dict[SnapshotId, int] = {}
        """Since when this node knows of each, by the monotonic clock."""
        self._known: dict[SnapshotId, tuple[int, int]] = {}
        """(bytes, time of its last record) of those that have been looked at."""

    @property
    def _folder(self) -> SnapshotFolder | None:
        return self._folder_of_log()

    def is_due(self) -> bool:
        """Whether enough was written since the latest one, or long enough ago. Never where the log holds what this
        version does not know: the snapshot would be without it."""
        cluster, config = self._cluster, self._config
        if not cluster.leads:
            return False
        record_bytes, interval_ms = cluster.image.record_bytes, config.get_int("metadata.log.max.snapshot.interval.ms")
        if cluster.shard.state is not ShardState.ACTIVE or not cluster.image.is_complete or record_bytes == 0:
            return False
        if record_bytes >= config.get_int("metadata.log.max.record.bytes.between.snapshots"):
            return True
        return 0 < interval_ms <= self._environment.monotonic_ms() - self._latest_ms

    async def keep_up(self) -> None:
        """Make one if it is due. Raises `OSError` and `StorageFailed`."""
        if self.is_due():
            await self.take()

    async def take(self) -> None:
        """Make one now, then give up what is too old. Raises `OSError` and `StorageFailed`."""
        image, partition = self._cluster.image, self._cluster.partition
        frozen, taken = freeze(image, self._leaving(), single=self._single), False
        assert frozen.end_offset == partition.end_offset, "the image is what the log says"
        self._latest_ms = self._environment.monotonic_ms()
        try:
            partition.log.roll()
            await self._write(SnapshotId(frozen.end_offset, partition.log.latest_epoch()), frozen)
            taken = True
        finally:
            thaw(image, frozen, taken=taken)
        await self._give_up_old()

    async def _write(self, one: SnapshotId, frozen: FrozenImage) -> None:
        folder = self._folder
        batches = [] if folder is None else await self._encoded(frozen, one.epoch)
        committed = self._cluster.partition.committed(one.end_offset)
        if committed is not None:
            await committed
        if folder is None:
            await self._cut(one.end_offset)
            return
        await self._environment.run_blocking(lambda: folder.write(one, batches))
        self._known[one] = (sum(map(len, batches)), frozen.timestamp_ms)
        self._seen_ms[one] = self._environment.monotonic_ms()
        _log.info("a snapshot of the metadata was written", file=folder.path(one))

    async def _encoded(self, frozen: FrozenImage, epoch: int) -> list[bytes]:
        time_slice = self._environment.time_slice()
        batches: list[bytes] = []
        for batch in snapshot_batches(frozen, epoch):
            batches.append(batch)
            if time_slice.spent():
                await time_slice.wait_for_turn()
        return batches

    async def _give_up_old(self) -> None:
        """The oldest snapshots that are too old or too much, each with the log before the next one. The log goes first:
        a snapshot that is left without it is passed over."""
        folder = self._folder
        if folder is None:
            return
        ids = folder.ids()
        while len(ids) > 1 and self._is_followed(ids[1]) and self._has_had_its_time(folder, ids):
            await self._cut(ids[1].end_offset)
            try:
                await self._environment.run_blocking(lambda: folder.delete(ids[:1]))
            except OSError as error:  # there is no harm in it, and perhaps it is no file
                _log.warning("an old metadata snapshot cannot be deleted", file=folder.path(ids[0]), reason=error)
            self._seen_ms.pop(ids[0], None)
            self._known.pop(ids.pop(0), None)

    def _is_followed(self, one: SnapshotId) -> bool:
        """Rule 5, of what stands before a snapshot."""
        if self._single:
            return True
        now_ms, session_ms = self._environment.monotonic_ms(), self._config.get_int("broker.session.timeout.ms")
        return now_ms - self._seen_ms.setdefault(one, now_ms) >= 2 * session_ms

    def _has_had_its_time(self, folder: SnapshotFolder, ids: list[SnapshotId]) -> bool:
        """That of the oldest one."""
        for one in ids:
            if one not in self._known:
                self._known[one] = folder.size_and_time(one)
        most_bytes = self._config.get_int("metadata.max.retention.bytes")
        longest_ms = self._config.get_int("metadata.max.retention.ms")
        total_bytes = self._cluster.partition.log.size_bytes + sum(self._known[one][0] for one in ids)
        age_ms = self._environment.wall_ms() - self._known[ids[0]][1]
        return 0 <= most_bytes < total_bytes or 0 <= longest_ms < age_ms

    async def _cut(self, start_offset: int) -> None:
        """Give up the log before an offset, some segments in each turn."""
        partition = self._cluster.partition
        partition.log.trim(start_offset)
        while partition.log.enforce_retention(self._environment.wall_ms(), partition.high_watermark):
            await asyncio.sleep(0)
