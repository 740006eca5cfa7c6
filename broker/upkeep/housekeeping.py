"""What a node does every so often: retention, compaction, the scrub, forgetting idle producers, checkpoints.

Rule 1. Everything goes in bounded slices with a turn of the loop between them; clients do not notice.
Rule 2. Intervals are read before each wait, so that a dynamic change takes effect with the next round. Recovery points
are written down within seconds of having moved, whatever `log.flush.offset.checkpoint.interval.ms` says: it only makes
that sooner. No round comes more often than is of use: `log.segment.delete.delay.ms=0` is not to keep a node awake.
Rule 3. A round that fails is logged and the next one comes; a failure of the disk ends the process. Compaction that
fails in one partition goes on with the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from broker.config.broker_config import BrokerConfig
from broker.coordination.topics import TopicDirectory
from broker.partitions.errors import storage_error
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.steps import run_steps
from broker.upkeep.pace import Pace
from broker.upkeep.producer_cap import enforce
from broker.upkeep.scrubbing import scrub_all
from storage.log import LogDamaged, StorageFailed
from storage.steps import Steps

OFTEN_MS = 10
SOON_MS = 2_000
PRODUCER_CAP_MS = 1_000
DELETION_MS = 100
FOREVER_MS = 1 << 62
CLEANER_RATE = "log.cleaner.io.max.bytes.per.second"
AT_ONCE = 4
"""How many partitions are looked at between two turns of the loop: most need nothing."""

_log = EventLog("housekeeping")


class Housekeeping:
    """The recurring work of one node."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        environment: Environment,
        topics: TopicDirectory,
        open_partitions: Callable[[], Sequence[Partition]],
        write_checkpoints: Callable[[], Awaitable[None]],
        prune_share_state: Callable[[], Awaitable[None]],
        sweep_moments: Callable[[], Awaitable[None]],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._environment = environment
        self._topics = topics
        self._open_partitions = open_partitions
        self._write_checkpoints = write_checkpoints
        self._prune_share_state = prune_share_state
        self._sweep_moments = sweep_moments
        self._fail = fail
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        expiry = "producer.id.expiration.check.interval.ms"
        snapshots = "metadata.log.max.snapshot.interval.ms"
        pruning = "share.coordinator.state.topic.prune.interval.ms"
        rounds: tuple[tuple[str, str, int, int, Callable[[], Awaitable[None]]], ...] = (
            ("retention", "log.retention.check.interval.ms", OFTEN_MS, FOREVER_MS, self.enforce_retention),
            ("scrub", "tallystick.scrub.interval.ms", OFTEN_MS, FOREVER_MS, self.scrub),
            ("compaction", "log.cleaner.backoff.ms", OFTEN_MS, FOREVER_MS, self.compact),
            ("producer expiry", expiry, OFTEN_MS, FOREVER_MS, self.expire_producers),
            ("producer cap", expiry, OFTEN_MS, PRODUCER_CAP_MS, self.bound_producers),
            ("checkpoint", "log.flush.offset.checkpoint.interval.ms", OFTEN_MS, SOON_MS, self._write_checkpoints),
            ("metadata snapshots", snapshots, OFTEN_MS, SOON_MS, self._topics.snapshots.keep_up),
            ("share state", pruning, OFTEN_MS, FOREVER_MS, self._prune_share_state),
            ("deletion", "log.segment.delete.delay.ms", DELETION_MS, SOON_MS, self.free_space),
        )
        create_task = asyncio.get_running_loop().create_task
        for name, interval, at_least_ms, at_most_ms, work in rounds:
            self._tasks.append(create_task(self._again(name, interval, (at_least_ms, at_most_ms), work)))

    async def stop(self) -> None:
        """Stop between two slices."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _again(
        self, name: str, interval: str, bounds_ms: tuple[int, int], work: Callable[[], Awaitable[None]]
    ) -> None:
        at_least_ms, at_most_ms = bounds_ms
        while True:
            await asyncio.sleep(min(max(at_least_ms, self._config.get_int(interval)), at_most_ms) / 1000)
            try:
                await work()
            except (StorageFailed, OSError) as error:
                self._fail(error)
                return
            except Exception as error:  # noqa: BLE001  one kind of work is not to end the others
                _log.bug(f"{name} failed", error)

    def _partitions(self) -> Iterable[Partition]:
        """All there are at the start of a round; those discarded meanwhile are passed over."""
        for partition in self._open_partitions():
            if not partition.discarded:
                yield partition

    async def enforce_retention(self) -> None:
        """Give up segments that have had their time."""
        for number, partition in enumerate(self._partitions(), 1):
            try:
                await self._enforce_retention(partition)
            except LogDamaged as damaged:  # of this log alone
                storage_error(damaged)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _enforce_retention(self, partition: Partition) -> None:
        while not partition.discarded:
            log, now_ms, high_watermark = partition.log, self._environment.wall_ms(), partition.high_watermark
            due = log.due_offset(now_ms, high_watermark)
            if due and not partition.derived.is_remembered(due, high_watermark):
                await self._remember(partition, due)
            elif not log.enforce_retention(now_ms, high_watermark):
                break
            await asyncio.sleep(0)

    async def _remember(self, partition: Partition, offset: int) -> None:
        """Neither retention nor compaction forgets a producer: what a restart knows of them must not need segments that
        leave, nor be of records that a power cut takes."""
        try:
            await run_steps(self._environment, lambda _: partition.derived.write_down(offset))
        except OSError:
            if not partition.discarded:
                raise
        if (committed := partition.committed(partition.derived.snapshot_offset)) is not None:
            await asyncio.gather(committed, return_exceptions=True)  # where it fails, the partition or the node is gone

    async def free_space(self) -> None:
        """Delete the folders of deleted topics and what logs have given up, each when its delay is over; and what
        backups have left behind."""
        await self._sweep_moments()
        while (deletion := self._topics.sweep()) is not None:
            await self._environment.run_blocking(deletion)
        environment = self._environment
        slice_, now_ms = environment.time_slice(), environment.wall_ms()
        for partition in self._partitions():
            if (steps := partition.log.free_space(now_ms)) is not None:
                await self._free_space(partition, steps)
            await slice_.give_way()

    async def _free_space(self, partition: Partition, steps: Steps[None]) -> None:
        try:
            await run_steps(self._environment, lambda _: steps)
        except OSError:
            if not partition.discarded:
                raise

    async def compact(self) -> None:
        """Keep the latest record of each key, where the topic asks for it."""
        if not self._config.get_bool("log.cleaner.enable"):
            return
        for partition in self._partitions():
            if partition.config.log.cleanup_compact or partition.log.in_runs:
                try:
                    await self._compact_one(partition)
                except StorageFailed:
                    if not partition.discarded:
                        raise
                except LogDamaged as damaged:
                    storage_error(damaged)
                except Exception as error:  # noqa: BLE001  what is in one log is not to end compaction of the others
                    _log.bug("compaction failed", error, partition=f"{partition.topic}-{partition.index}")
                await asyncio.sleep(0)

    async def _compact_one(self, partition: Partition) -> None:
        """One pass, no faster than `log.cleaner.io.max.bytes.per.second`."""
        compactor, environment, now_ms = partition.compactor, self._environment, self._environment.wall_ms()
        planned = await run_steps(environment, lambda spent: partition.compaction_due(now_ms, spent))
        if compactor is None or planned is None:
            return
        if not partition.derived.is_remembered(planned.end_offset, partition.high_watermark):
            await self._remember(partition, planned.end_offset)
        pace = Pace(environment.monotonic_ms, lambda: self._config.get_float(CLEANER_RATE))

        async def wait_until_next() -> None:
            delay_ms = pace.delay_ms(compactor.moved_bytes)
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)

        await run_steps(
            environment,
            lambda spent: compactor.run(planned, environment.wall_ms(), spent),
            wait_until_next=wait_until_next,
        )

    async def scrub(self) -> None:
        """Look for damage in old segments."""
        await scrub_all(self._partitions(), self._config, self._environment)

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for long (KIP-854)."""
        for number, partition in enumerate(self._partitions(), 1):
            while not partition.discarded and not partition.expire_producers(self._environment.wall_ms()):
                await asyncio.sleep(0)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def bound_producers(self) -> None:
        """Forget the producers idle for longest, where there are too many."""
        most = self._config.get_int("tallystick.producer.ids.max")
        forgotten = await enforce(self._open_partitions(), most, self._environment.wall_ms())
        if forgotten:
            _log.warning("more producers than tallystick.producer.ids.max: some are forgotten early", count=forgotten)
