"""Opening the batches of a Produce before they are appended, and those of lookups by time: small ones at once, others
in slices of time, and large ones on another thread.

Rule 1. What was checked is held to the configuration of that moment; an append under another one checks again.
Rule 2. Only so many large batches are open at a time: each may come to `tallystick.decompression.max.bytes`. A lookup
        may take long, so that Produces do not wait for it: two of them, and one lookup.
Rule 3. Why a batch was refused outlives its opening: it holds nothing of the batch.
Rule 4. Small batches are all opened in the same memory, one after the other: none of it is looked at after the turn.
"""

import asyncio
from collections.abc import Callable

from broker.partitions.append import CheckedBatch, check_small, checking
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.steps import run_steps
from broker.process.time_slice import TimeSlice
from protocol.records.batch import BatchHeader
from storage.steps import INLINE_BYTES, Spent, Steps, T, without_frames

LARGE_AT_ONCE = 2


class BatchOpener:
    """That of one node."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._large_looked_up = asyncio.Semaphore(1)
        self._room = bytearray(INLINE_BYTES)

    def open_small(
        self, partition: Partition, records: memoryview, header: BatchHeader, *, now_ms: int, zstd_allowed: bool
    ) -> CheckedBatch | AppendError | None:
        """Open one that `must_open`, where nothing has to wait for that; None: `open_large` is to do it."""
        config = partition.config
        if not config.leaves_closed or header.max_timestamp > now_ms + config.timestamp_after_max_ms:
            return None  # every record is read
        try:
            return check_small(
                records,
                config,
                self._room,
                now_ms=now_ms,
                zstd_allowed=zstd_allowed,
                log_start_offset=partition.log.start_offset,
                header=header,
            )
        except AppendError as refused:
            return without_frames(refused)

    async def look_up(self, work: Callable[[Spent], Steps[T]], slice_: TimeSlice) -> T:
        """What a lookup in a log returns. One at a time goes on that has begun to open large batches."""
        return await run_steps(self._environment, work, blocking=self._large_looked_up, slice_=slice_)

    async def open(
        self,
        partition: Partition,
        records: memoryview,
        header: BatchHeader,
        *,
        now_ms: int,
        zstd_allowed: bool,
        slice_: TimeSlice,
    ) -> CheckedBatch | AppendError:
        """The batch as it may be appended, or why not. Does not wait where there is little to do. `slice_` is that of
        the request."""
        if slice_.spent():
            await slice_.wait_for_turn()
        found = self.open_small(partition, records, header, now_ms=now_ms, zstd_allowed=zstd_allowed)
        return found or await self.open_large(
            partition, records, header, now_ms=now_ms, zstd_allowed=zstd_allowed, slice_=slice_
        )

    async def open_large(
        self,
        partition: Partition,
        records: memoryview,
        header: BatchHeader,
        *,
        now_ms: int,
        zstd_allowed: bool,
        slice_: TimeSlice,
    ) -> CheckedBatch | AppendError:
        """The same for one of which `open_small` has said None in this turn."""
        config = partition.config
        all_read = not config.leaves_closed or header.max_timestamp > now_ms + config.timestamp_after_max_ms
        try:
            return await run_steps(
                self._environment,
                lambda spent: checking(
                    records,
                    config,
                    partition.name,
                    now_ms=now_ms,
                    zstd_allowed=zstd_allowed,
                    log_start_offset=partition.log_start_offset,
                    spent=spent,
                    at_once=all_read,
                ),
                blocking=self._large,
                slice_=slice_,
            )
        except AppendError as refused:
            return without_frames(refused)
