"""The source in a stream. Spark keeps one of these in a process beside the driver for the life of a query; only
`read` runs in the workers.

Rule 1. `latestOffset` never goes back: Spark would read offsets twice, or call it data loss.
Rule 2. What a batch reads follows from the two offsets that Spark has written down, and from nothing else. So a
        partition that came while the query ran is read from offset 0, not from wherever its log begins today.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_connector.formats.decoding import Decoding
from spark_connector.source.batch_reader import read_rows
from spark_connector.source.bounds import begin_offsets, within_the_log
from spark_connector.source.errors import data_lost
from spark_connector.source.filters import Pushed
from spark_connector.source.lookups import Lookups
from spark_connector.source.probing import Probe
from spark_connector.source.ranges import OffsetRange, Offsets, Position, from_position, limited, packed, to_position
from spark_connector.source.settings import Settings
from tallystick.client.background import now_ms

logger = logging.getLogger(__name__)

_TRIES = 4
_PAUSE_S = 0.5
"""How often, and after how long, an end of a log that went back is looked at again."""

_SMALL = 1000
"""So many offsets in one task, of whatever partitions: to read them takes a task less time than to start another."""


class Pieces(InputPartition):
    """Ranges for a task, which reads one after the other."""

    def __init__(self, pieces: tuple[OffsetRange, ...]) -> None:
        super().__init__(pieces)


class ArrowStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the head of this file."""

    def __init__(self, settings: Settings, schema: StructType, chosen: Sequence[Decoding]) -> None:
        self._settings = settings
        self._schema = schema
        self._chosen = chosen
        self._lookups = Lookups(settings)
        self._latest: Offsets = {}
        self._topic_ids: dict[str, bytes] = {}
        """As of the last look; a query that was started again looks for the first time."""
        self._target: Offsets | None = None
        self._last_batch_ms = now_ms()

    def initialOffset(self) -> Position:
        partitions = self._lookups.partitions()
        return to_position(begin_offsets(self._settings, self._lookups, partitions))

    def getDefaultReadLimit(self) -> ReadLimit:
        """There is one limit at most in Spark; all that are set are kept to, whichever this returns."""
        settings = self._settings
        if settings.max_offsets:
            return ReadMaxRows(settings.max_offsets)
        if settings.max_bytes:
            return ReadMaxBytes(settings.max_bytes)
        return ReadMinRows(settings.min_offsets) if settings.min_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._lookups.latest(self._lookups.partitions())

    def reportLatestOffset(self) -> Position | None:
        return to_position(self._latest) if self._latest else None

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        begin = from_position(start)
        end = self._ends(begin)
        self._latest = end
        begin |= dict.fromkeys((where for where in end if where not in begin), 0)
        if isinstance(limit, ReadAllAvailable):
            return to_position(end)
        settings = self._settings
        total = sum(end[where] - begin[where] for where in end)
        waiting = self._target is None and now_ms() - self._last_batch_ms < settings.max_delay_ms
        if waiting and total < settings.min_offsets:
            return start
        if total:
            self._last_batch_ms = now_ms()
        if settings.max_offsets:
            end = limited(begin, end, settings.max_offsets)
        if settings.max_bytes and total:
            with Probe(settings, self._lookups) as probe:
                end = probe.limited_by_bytes(begin, end, settings.max_bytes)
        return to_position(end)

    def _ends(self, begin: Offsets) -> Offsets:
        """The end of every partition there is, but none before what was read already."""
        anew: set[str] = set()
        for tries_left in reversed(range(_TRIES)):
            end = self._lookups.latest(self._lookups.partitions()) if self._target is None else dict(self._target)
            anew |= self._made_anew()
            gone = sorted(set(begin) - set(end))
            behind = sorted(where for where in end if end[where] < begin.get(where, 0))
            if not gone and not behind:
                break
            if tries_left and self._target is None:
                threading.Event().wait(_PAUSE_S)
        for what in (
            *(f"{topic} was deleted and made anew" for topic in sorted(anew)),
            *(f"{topic}-{partition} is not there any more" for topic, partition in gone),
            *(f"{where[0]}-{where[1]} ends at {end[where]}, and {begin[where]} was read already" for where in behind),
        ):
            if self._settings.fail_on_data_loss:
                raise data_lost(what)
            logger.warning(what)
        return {where: max(offset, begin.get(where, 0)) for where, offset in end.items()}

    def _made_anew(self) -> set[str]:
        """Topics that have another id than at the last look: what was read is not what is there under these offsets."""
        known, self._topic_ids = self._topic_ids, self._lookups.topic_ids
        return {topic for topic, topic_id in self._topic_ids.items() if known.get(topic, topic_id) != topic_id}

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        begins, ends = from_position(start), from_position(end)
        every = [OffsetRange(*where, begins.get(where, 0), offset) for where, offset in sorted(ends.items())]
        pieces = [piece for piece in every if piece.size]
        earliest = self._lookups.earliest(piece.where for piece in pieces)
        pieces = within_the_log(pieces, earliest, self._settings.fail_on_data_loss, logger.warning)
        if not self._settings.min_partitions and not self._settings.max_records:
            return [Pieces(pack) for pack in packed(pieces, _SMALL)]
        with Probe(self._settings, self._lookups) as probe:
            return [Pieces((part,)) for part in probe.cut_between_batches(pieces)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for piece in partition.value or ():
            yield from read_rows(piece, self._settings, self._schema, self._chosen, Pushed())
