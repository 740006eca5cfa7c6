"""The source in a batch: one look at where everything begins and ends, then tasks over ranges."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector.formats.decoding import Decoding, binary_first, decoded
from spark_connector.pyspark_versions import arrow_schema
from spark_connector.source.bounds import begin_offsets, end_offsets, within_the_log
from spark_connector.source.filters import LOWEST, Pushed
from spark_connector.source.lookups import Lookups
from spark_connector.source.probing import Probe
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.reading import RangeReader
from spark_connector.source.settings import Settings
from spark_connector.workers import keep_what_is_loaded

logger = logging.getLogger(__name__)

GAPS_DDL = (
    "topic STRING, partition INT, begin BIGINT, end BIGINT, records BIGINT, filtered BIGINT, aborted BIGINT, "
    "control BIGINT, compacted BIGINT, lost BIGINT"
)
"""The report of option reportGaps: one row per range, whose counts add up to its length."""


class Piece(InputPartition):
    """A range for a task."""

    def __init__(self, piece: OffsetRange) -> None:
        super().__init__(piece)


class _PushFilters:
    """`pushFilters` that is used where Spark pushes, and is no error where the user has switched that off.

    A reader that overrides the method is refused unless `spark.sql.python.filterPushdown.enabled` is set, which it is
    not by default. Spark looks at `__func__` to find that out.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, pushed: Pushed) -> None:
        self._pushed = pushed

    def __call__(self, filters: list[Any]) -> list[Any]:
        return self._pushed.take(filters)


def read_rows(
    piece: OffsetRange, settings: Settings, schema: StructType, chosen: Sequence[Decoding], pushed: Pushed
) -> Iterator[Any]:
    """A task's work: record batches with the columns of `schema`."""
    wanted = arrow_schema(schema)
    if not chosen:
        yield from RangeReader(piece, settings, wanted, pushed)
    else:
        for batch in RangeReader(piece, settings, binary_first(wanted, chosen), pushed):
            yield decoded(batch, wanted, chosen, str(piece))
    keep_what_is_loaded("source")


class ArrowReader(DataSourceReader):
    """Pickled with what was pushed, after `partitions`."""

    def __init__(self, settings: Settings, schema: StructType, chosen: Sequence[Decoding]) -> None:
        self._settings = settings
        self._schema = schema
        self._chosen = chosen
        self._pushed = Pushed()
        if not settings.report_gaps:
            self.pushFilters = _PushFilters(self._pushed)

    def partitions(self) -> Sequence[InputPartition]:
        settings, lookups = self._settings, Lookups(self._settings)
        partitions = lookups.partitions()
        begin = begin_offsets(settings, lookups, partitions)
        end = end_offsets(settings, lookups, partitions)
        whole = [OffsetRange(*where, begin[where], end[where]) for where in partitions if self._pushed.reads(*where)]
        pieces = [piece for piece in map(self._pushed.cut, whole) if piece.size]
        if not settings.report_gaps:  # The report counts what is gone; it does not leave it out.
            earliest = lookups.earliest(piece.where for piece in pieces)
            pieces = within_the_log(pieces, earliest, settings.fail_on_data_loss, logger.warning)
        if self._pushed.times_ms.lowest > LOWEST:
            pieces = self._from_time_on(lookups, pieces)
        with Probe(settings, lookups) as probe:
            return [Piece(part) for part in probe.cut_between_batches(pieces)]

    def _from_time_on(self, lookups: Lookups, pieces: list[OffsetRange]) -> list[OffsetRange]:
        """The broker's index knows where records of a time begin; all that lie before are older."""
        found = lookups.at_times({piece.where: max(0, self._pushed.times_ms.lowest) for piece in pieces})
        late = [piece for piece in pieces if 0 <= found[piece.where] < piece.end]
        return [replace(piece, begin=max(piece.begin, found[piece.where])) for piece in late]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return
        if self._settings.report_gaps:
            yield self._report(partition.value)
            return
        yield from read_rows(partition.value, self._settings, self._schema, self._chosen, self._pushed)

    def _report(self, piece: OffsetRange) -> tuple[Any, ...]:
        settings = replace(self._settings, fail_on_data_loss=False)
        reader = RangeReader(piece, settings, arrow_schema(StructType([])))
        for _batch in reader:
            pass
        return piece.topic, piece.partition, piece.begin, piece.end, *asdict(reader.counts).values()
