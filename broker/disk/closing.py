"""Closing many logs: their syncs run side by side, so that a stop does not take as long as all of them together."""

import asyncio
from collections.abc import Sequence

from broker.partitions.partition import Partition
from broker.process.environment import Environment
from storage.flushing import SegmentFlush
from storage.log import StorageFailed
from storage.segment_log import SegmentLog


async def close_partitions(environment: Environment, partitions: Sequence[Partition]) -> None:
    """Sync and close. Nobody writes any more, and no flush is under way. Raises `StorageFailed`."""
    flushes: list[tuple[SegmentLog, SegmentFlush]] = []
    for log in [partition.log for partition in partitions]:
        if isinstance(log, SegmentLog) and not log.failed and (flush := log.begin_flush(closing=True)) is not None:
            flushes.append((log, flush))
    runs = [environment.run_blocking(flush.run) for _, flush in flushes]
    if runs:
        await asyncio.wait(runs)
    for (flushed, flush), run in zip(flushes, runs, strict=True):
        error = run.exception()
        if error is not None:
            raise StorageFailed(f"{flushed.folder}: {error}") from error
        flushed.finish_flush(flush)
    for partition in partitions:
        partition.close()
