"""Opening the batches of a Produce before they are appended, and those of lookups by time: in slices of time, and large
ones on another thread.

Rule 1. What was checked is held to the configuration of that moment; an append under another one checks again.
Rule 2. Only so many large batches are open at a time: each may come to `tallystick.decompression.max.bytes`. A lookup
        may take long, so that Produces do not wait for it: two of them, and one lookup.
Rule 3. Why a batch was refused outlives its opening: it holds nothing of the batch.
"""

import asyncio
from collections.abc import Callable
from struct import Struct

from broker.partitions.append import CheckedBatch, checking, must_open
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from broker.process.environment import Environment
from broker.process.steps import run_steps
from broker.process.time_slice import TimeSlice
from protocol.records.batch import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_SIZE, MAX_TIMESTAMP_AT, read_header
from storage.steps import Spent, Steps, T, without_frames

LARGE_AT_ONCE = 2
_MAX_TIMESTAMP = Struct(">q")


class BatchOpener:
    """That of one node."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._large_looked_up = asyncio.Semaphore(1)

    def must_open(self, partition: Partition, records: memoryview, now_ms: int) -> bool:
        """Whether a batch is to be opened before its append, which may take long."""
        if len(records) < HEADER_SIZE:
            return False
        config = partition.config
        if config.leaves_closed and not records[ATTRIBUTES_AT + 1] & COMPRESSION_MASK:  # as good as all of them
            newest_ms: int = _MAX_TIMESTAMP.unpack_from(records, MAX_TIMESTAMP_AT)[0]
            return newest_ms > now_ms + config.timestamp_after_max_ms
        return must_open(read_header(records), config, now_ms)

    async def look_up(self, work: Callable[[Spent], Steps[T]], slice_: TimeSlice) -> T:
        """What a lookup in a log returns. One at a time goes on that has begun to open large batches."""
        return await run_steps(self._environment, work, blocking=self._large_looked_up, slice_=slice_)

    async def open(
        self, partition: Partition, records: memoryview, *, now_ms: int, zstd_allowed: bool, slice_: TimeSlice
    ) -> CheckedBatch | AppendError:
        """The batch as it may be appended, or why not. Does not wait where there is little to do. `slice_` is that of
        the request."""
        try:
            return await run_steps(
                self._environment,
                lambda spent: checking(
                    records,
                    partition.config,
                    partition.name,
                    now_ms=now_ms,
                    zstd_allowed=zstd_allowed,
                    log_start_offset=partition.log_start_offset,
                    spent=spent,
                ),
                blocking=self._large,
                slice_=slice_,
            )
        except AppendError as refused:
            return without_frames(refused)
