"""A partition as the log behind a coordinator's shard."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from coordinator.machine import Marker, ProducerStamp, Record
from coordinator.ports import AppendRefused
from protocol.records.batch import CorruptRecords, first_corrupt, headers_in
from protocol.records.record import NewRecord, build_batch
from protocol.schema import Buffer
from storage.log import LogDamaged

AWAY_RETRY_S = 0.1
"""How long it waits before it asks again for what another machine could not give."""


class PartitionShardLog:
    """A partition of an internal topic as the log behind a shard."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._wanted: Awaitable[None] | None = None

    @property
    def start_offset(self) -> int:
        return self.partition.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.partition.end_offset

    @property
    def durable_offset(self) -> int:
        return self.partition.high_watermark

    def append(self, records: Sequence[Record], *, stamp: ProducerStamp | None, now_ms: int) -> int:
        made = [NewRecord(key=record.key, value=record.value, timestamp_ms=now_ms) for record in records]
        if stamp is None:
            batch = build_batch(made)
        else:
            # Transactional offsets always carry sequence 0; the append is exempt from sequence checks.
            batch = build_batch(
                made,
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        return self.append_built(batch, now_ms=now_ms)

    def append_built(self, batch: bytes, *, now_ms: int) -> int:
        try:
            return self.partition.append_records(batch, now_ms=now_ms)
        except AppendError as refused:
            raise AppendRefused(refused.code) from refused

    def append_marker(self, marker: Marker, *, now_ms: int) -> int:
        try:
            return self.partition.append_marker(marker, now_ms)
        except AppendError as refused:
            raise AppendRefused(refused.code) from refused

    @property
    def is_waiting(self) -> bool:
        """Whether the last read has to be repeated, when what it is about is here."""
        return self._wanted is not None

    async def wait_until_here(self) -> None:
        """Until a read that found something away may be repeated."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            try:
                await wanted
            except OSError:
                await asyncio.sleep(AWAY_RETRY_S)

    def read(self, offset: int, max_bytes: int) -> list[Buffer] | None:
        self._wanted = self.partition.log.away(offset)
        if self._wanted is not None:
            return None
        # To the end of the log, not only to the high watermark: what is there is there.
        # A coordinator that believed a damaged batch would act on it: checksums are looked at here, as nowhere else.
        log = self.partition.log
        found = log.read(offset, max_bytes, end_offset=log.end_offset)
        for data in found:
            self._check(data, offset)
        return found

    def _check(self, data: Buffer, offset: int) -> None:
        corrupt = first_corrupt(data)
        if corrupt is None:
            return
        path = f"{self.partition.topic}-{self.partition.index}/"
        try:
            for position, header in headers_in(data):
                if position == corrupt:
                    raise LogDamaged(path, None, header.base_offset, "a checksum is wrong", header.next_offset)
                offset = header.next_offset
        except CorruptRecords as error:
            raise LogDamaged(path, None, offset, str(error)) from error

    def when_durable(self, callback: Callable[[], None]) -> None:
        self.partition.watch(callback)
