"""Short looks into partitions from the driver: where record batches begin, and how many bytes offsets come to.

Kafka has no question for either; a fetch of a few bytes is answered with one whole batch, whose header says it.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader, headers_in
from spark_connector.errors import CLIENT_ERRORS, ConnectorError, explained
from spark_connector.source.errors import CannotRead
from spark_connector.source.fetch_connection import FetchConnection
from spark_connector.source.lookups import Leader, Lookups, passes
from spark_connector.source.ranges import OffsetRange, Offsets, TopicPartition, cut, wanted_cuts
from spark_connector.source.settings import Settings
from tallystick.client.background import now_ms
from tallystick.client.errors import check

_PAUSE_S = 0.1
_SAMPLE_BYTES = 256 << 10


@dataclass(slots=True)
class Sample:
    """The first batches from an offset on: (last offset + 1, bytes up to there)."""

    begin: int
    steps: list[tuple[int, int]]

    def end_within(self, most_bytes: int, end: int) -> int:
        """Up to where about so many bytes go, but at least one batch, and never beyond `end`."""
        if not self.steps:
            return end
        fitting = [next_offset for next_offset, size in self.steps if size <= most_bytes]
        last_offset, last_size = self.steps[-1]
        if last_size > most_bytes:
            return min(end, fitting[-1] if fitting else self.steps[0][0])
        if last_offset >= end:
            return end
        return min(end, self.begin + int((last_offset - self.begin) * most_bytes / last_size))

    def bytes_until(self, end: int) -> int:
        """About how many bytes there are from the beginning to `end`."""
        if not self.steps:
            return 0
        last_offset, last_size = self.steps[-1]
        return int(last_size * (end - self.begin) / (last_offset - self.begin))


class Probe:
    """Connections for one round of questions. Use it with `with`."""

    def __init__(self, settings: Settings, lookups: Lookups) -> None:
        self._settings = settings
        self._lookups = lookups
        self._connections: dict[tuple[str, int], FetchConnection] = {}
        self._leaders: dict[TopicPartition, Leader] = {}

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_raised: object) -> None:
        self._forget()

    def _forget(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._leaders.clear()

    def cut_between_batches(self, pieces: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The ranges in as many parts as the options want; no record batch is in two of them, where that can be."""
        wanted = wanted_cuts(pieces, self._settings.min_partitions, self._settings.max_records)
        parts: list[OffsetRange] = []
        for piece in pieces:
            parts += cut(piece, [self._batch_begin(piece, offset) for offset in wanted.get(piece, [])])
        return parts

    def limited_by_bytes(self, begin: Offsets, end: Offsets, most_bytes: int) -> Offsets:
        """Ends with about so many bytes before them, shared by what each partition has; each gets a batch at least."""
        earliest = self._lookups.earliest(where for where in end if end[where] > begin[where])
        there = {where: max(begin[where], start) for where, start in earliest.items()}
        backlog = [where for where, start in there.items() if end[where] > start]
        samples = {where: self._sample(where, there[where]) for where in backlog}
        sizes = {where: sample.bytes_until(end[where]) for where, sample in samples.items()}
        total = max(1, sum(sizes.values()))
        shares = {where: most_bytes * sizes[where] // total for where in backlog}
        return end | {where: samples[where].end_within(shares[where], end[where]) for where in backlog}

    def _batch_begin(self, piece: OffsetRange, offset: int) -> int:
        """The beginning of the batch with an offset; the offset itself where that cannot be found out."""
        for header in self._headers(piece.where, offset, 1) or ():
            if header.next_offset > offset:
                return header.base_offset if header.base_offset > piece.begin else header.next_offset
        return offset

    def _sample(self, where: TopicPartition, begin: int) -> Sample:
        """Waits for the broker, for as long as reading would. Raises `CannotRead`."""
        deadline = now_ms() + self._settings.patience_ms
        while (headers := self._headers(where, begin, _SAMPLE_BYTES)) is None:
            if now_ms() > deadline:
                raise CannotRead(
                    f"{where[0]}-{where[1]}: no answer for {self._settings.patience_ms} ms. Is the broker up?"
                )
            threading.Event().wait(_PAUSE_S)
        steps, size = [], 0
        for header in headers:
            if header.next_offset > begin:
                size += header.size
                steps.append((header.next_offset, size))
        return Sample(begin, steps)

    def _headers(self, where: TopicPartition, offset: int, most_bytes: int) -> list[BatchHeader] | None:
        """None where the partition cannot be read just now."""
        try:
            leader = self._leaders.get(where) or self._leaders.setdefault(where, self._lookups.leader(where))
            connection = self._connections.get(leader.address)
            if connection is None:
                connection = FetchConnection(leader.address, self._settings.access)
                self._connections[leader.address] = connection
            connection.ask(where, leader.topic_id, offset, committed=False, most_bytes=most_bytes, wait_ms=0)
            data = connection.answer()
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return []
            check(data.error_code, f"{where[0]}-{where[1]}")
        except (*CLIENT_ERRORS, ConnectorError) as error:
            cause = error.__cause__ if isinstance(error, ConnectorError) else error
            if not isinstance(cause, Exception) or not passes(cause):
                raise explained(error, f"looking into {where[0]}-{where[1]}") from error
            self._forget()
            return None
        records = data.records
        if not isinstance(records, memoryview):
            return []
        return [header for _at, header in headers_in(records)]
