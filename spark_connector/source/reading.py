"""Reading a range of offsets as Arrow record batches: fetch after fetch, over restarts of the broker.

Rule 1. The next fetch is sent before the response to the last one is worked on.
Rule 2. A connection that fails, or a leader that is none, is looked up anew until there was no progress for
        `patience_ms`. Nothing is shown twice: the position moves only with what was handed on.
Rule 3. When the range has been read, the counts of `counts` add up to its length, and the task's log has them.
"""

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from protocol.errors import ErrorCode
from protocol.messages.fetch import PartitionData
from protocol.records.batch import BatchHeader, CorruptRecords
from spark_connector.access import Access, State
from spark_connector.errors import CLIENT_ERRORS, ConnectorError, explained
from spark_connector.source.arrow import Rows, record_batch
from spark_connector.source.errors import CannotRead, data_lost
from spark_connector.source.fetch_connection import FetchConnection
from spark_connector.source.filters import Pushed
from spark_connector.source.lookups import Leader, Lookups, passes
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.records import Chunk, chunks, read_columns
from spark_connector.source.settings import Settings
from spark_connector.source.visible import Counts, shown
from tallystick.client.background import now_ms
from tallystick.client.errors import ConnectionLost, check

logger = logging.getLogger(__name__)

_PAUSE_S = 0.1
_RECORDS_PER_CHUNK = 16_384
_BYTES_PER_CHUNK = 8 << 20
_LEAST_FETCH = 64 << 10
_BYTES_PER_OFFSET = 1024.0
"""What is taken for the size of records before any are seen: a short range in a long log is not to fetch megabytes."""
_idle: dict[tuple[int, tuple[str, int], Access, State], list[FetchConnection]] = {}
"""Connections of this process that wait for the next range."""


@dataclass(slots=True)
class RangeReader:
    """One task's work. Iterate once; `counts` then says what became of the range."""

    piece: OffsetRange
    settings: Settings
    schema: Any
    pushed: Pushed = field(default_factory=Pushed)
    counts: Counts = field(default_factory=Counts)
    _position: int = 0
    _connection: FetchConnection | None = None
    _leader: Leader | None = None
    _progress_ms: int = 0
    _bytes_per_offset: float = _BYTES_PER_OFFSET

    def __iter__(self) -> Iterator[Any]:
        self._position = self.piece.begin
        self._progress_ms = now_ms()
        try:
            while self._position < self.piece.end:
                fetched = self._fetch()
                if fetched is not None:
                    yield from self._batches(fetched)
            assert self.counts.total() == self.piece.size, f"{self.piece}: {self.counts}"
            logger.info("%s: %s", self.piece, self.counts)
            self._put_back()
        finally:
            self._drop()

    # What is fetched.

    def _fetch(self) -> PartitionData | None:
        """An answer that has records in it; None where it is worth asking again."""
        try:
            connection = self._connected()
            if not connection.under_way:
                self._ask(connection)
            data = connection.answer()
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range()
                return None
            check(data.error_code, str(self.piece))
        except (*CLIENT_ERRORS, ConnectorError) as error:
            self._wait_after(error)
            return None
        if data.records:
            self._progress_ms = now_ms()
            return data
        self._check_patience("nothing came", None)
        return None

    def _connected(self) -> FetchConnection:
        if self._connection is not None and self._connection.is_stale and not self._connection.under_way:
            self._drop()
        if self._connection is None:
            self._leader = Lookups(self.settings).leader(self.piece.where)
            waiting = _idle.get(self._key(self._leader), [])
            made = waiting.pop() if waiting else FetchConnection(self._leader.address, self.settings.access)
            self._connection = made
        return self._connection

    def _key(self, leader: Leader) -> tuple[int, tuple[str, int], Access, State]:
        return os.getpid(), leader.address, self.settings.access, self.settings.access.state()

    def _ask(self, connection: FetchConnection) -> None:
        assert self._leader is not None
        expected = 1.1 * self._bytes_per_offset * (self.piece.end - self._position)
        most = min(self.settings.fetch_bytes, max(_LEAST_FETCH, int(expected)))
        connection.ask(
            self.piece.where,
            self._leader.topic_id,
            self._position,
            committed=self.settings.read_committed,
            most_bytes=most,
            wait_ms=self.settings.fetch_wait_ms,
        )

    def _out_of_range(self) -> None:
        """The log begins behind the position, or ends before it: that is data loss, if it is not about to change."""
        earliest = Lookups(self.settings).earliest([self.piece.where])[self.piece.where]
        if earliest > self._position:
            self._lose_until(min(earliest, self.piece.end), f"the log begins at {earliest}")
        elif now_ms() - self._progress_ms > self.settings.patience_ms:
            self._lose_until(self.piece.end, f"the log ends before offset {self._position}")
        else:
            threading.Event().wait(_PAUSE_S)

    def _lose_until(self, offset: int, why: str) -> None:
        what = f"{self.piece}: {why}, {offset - self._position} offsets are gone"
        if self.settings.fail_on_data_loss:
            raise data_lost(what)
        logger.warning(what)
        self.counts.lost += offset - self._position
        self._position = offset
        self._progress_ms = now_ms()

    def _wait_after(self, error: Exception) -> None:
        """Drop the connection, and wait a moment; raises where that does not help."""
        self._drop()
        cause = error.__cause__ if isinstance(error, ConnectorError) else error
        if not isinstance(cause, Exception) or not passes(cause):
            raise explained(error, f"reading {self.piece}") from error
        self._check_patience(str(error), error)
        threading.Event().wait(_PAUSE_S)

    def _check_patience(self, what: str, error: Exception | None) -> None:
        if now_ms() - self._progress_ms > self.settings.patience_ms:
            raise CannotRead(
                f"{self.piece}, at offset {self._position}: {what} for {self.settings.patience_ms} ms. Is the broker "
                "up? How long it is waited for is option kafkaConsumer.pollTimeoutMs."
            ) from error

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _put_back(self) -> None:
        unused = self._connection is not None and not self._connection.under_way and not self._connection.is_stale
        if self._connection is not None and self._leader is not None and unused:
            _idle.setdefault(self._key(self._leader), []).append(self._connection)
            self._connection = None

    # What is made of it.

    def _batches(self, fetched: PartitionData) -> Iterator[Any]:
        records = fetched.records
        assert isinstance(records, memoryview)
        begin, end = self._position, self.piece.end
        aborted = fetched.aborted_transactions if self.settings.read_committed else None
        try:
            seen = shown(records, aborted, begin, end, self.counts)
            if seen.position == begin < end:
                raise CorruptRecords("an answer with records, but none of those asked for")
            self._bytes_per_offset = len(records) / max(1, seen.position - begin)
            self._position = seen.position
            if seen.position < end and self._connection is not None:
                self._ask_ahead(self._connection)
            wanted = [(at, header) for at, header in seen.batches if self._wanted(header, begin, end)]
            cut = chunks(
                records,
                wanted,
                most_records=_RECORDS_PER_CHUNK,
                most_bytes=_BYTES_PER_CHUNK,
                check=self.settings.check_crcs,
            )
            for chunk in cut:
                yield from self._rows(chunk, begin, end)
        except CorruptRecords as error:
            raise CannotRead(
                f"{self.piece}, between offsets {begin} and {self._position}: {error}. The log is damaged, or the way "
                "from the broker is; its log may say more."
            ) from error

    def _ask_ahead(self, connection: FetchConnection) -> None:
        try:
            self._ask(connection)
        except ConnectionLost:
            self._drop()

    def _wanted(self, header: BatchHeader, begin: int, end: int) -> bool:
        """Whether a batch may have records that pass the filters. Those of a whole batch that has none are counted."""
        if self.pushed.may_be_in(header) or header.base_offset < begin or header.next_offset > end:
            return True
        self.counts.filtered += header.records_count
        self.counts.compacted += header.last_offset_delta + 1 - header.records_count
        return False

    def _rows(self, chunk: Chunk, begin: int, end: int) -> Iterator[Any]:
        columns = read_columns(chunk)
        first, last = np.searchsorted(columns.offsets, (begin, end))
        within = np.arange(first, last)
        spans = sum(min(end, header.next_offset) - max(begin, header.base_offset) for header in chunk.headers)
        self.counts.compacted += spans - len(within)
        chosen = self.pushed.choose(columns, within)
        self.counts.filtered += len(within) - len(chosen)
        self.counts.records += len(chosen)
        if len(chosen):
            yield record_batch(Rows(columns, chosen, self.piece.topic, self.piece.partition), self.schema)
