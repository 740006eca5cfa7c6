"""From what options say to offsets: where reading begins and ends, and what to do where data is gone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from spark_connector.errors import BadOption
from spark_connector.source.errors import NoSuchTime, data_lost
from spark_connector.source.lookups import Lookups
from spark_connector.source.ranges import OffsetRange, Offsets, TopicPartition
from spark_connector.source.settings import Bound, Settings
from tallystick.client.client import EARLIEST, LATEST


def begin_offsets(settings: Settings, lookups: Lookups, partitions: Sequence[TopicPartition]) -> Offsets:
    """Where the options let reading begin. Raises `NoSuchTime`, `BadOption`."""
    bound = settings.begin
    wanted = _by_partition(bound, partitions, "starting")
    if not bound.by_time:
        return _numbers(lookups, wanted)
    found = lookups.at_times(wanted)
    late = sorted(where for where, offset in found.items() if offset < 0)
    if late and not settings.late_begin_is_latest:
        raise NoSuchTime(
            f"no record of {late} is as late as the starting timestamp: choose an earlier one, or set option "
            "startingOffsetsByTimestampStrategy to latest"
        )
    return found | lookups.latest(late)


def end_offsets(settings: Settings, lookups: Lookups, partitions: Sequence[TopicPartition]) -> Offsets:
    """Where the options let a batch end: behind everything that is there, if they say nothing."""
    bound = settings.end
    wanted = _by_partition(bound, partitions, "ending")
    if not bound.by_time:
        return _numbers(lookups, wanted)
    found = lookups.at_times(wanted)
    return found | lookups.latest(where for where, offset in found.items() if offset < 0)


def _by_partition(bound: Bound, partitions: Sequence[TopicPartition], side: str) -> Offsets:
    if bound.everywhere is not None:
        return dict.fromkeys(partitions, bound.everywhere)
    named = bound.by_partition or {}
    if set(named) != set(partitions):
        missing, surplus = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
        raise BadOption(f"{side} offsets must name all partitions that are read: missing {missing}, surplus {surplus}")
    return dict(named)


def _numbers(lookups: Lookups, wanted: Offsets) -> Offsets:
    """-2 and -1 become what they stand for now."""
    earliest = lookups.earliest(where for where, offset in wanted.items() if offset == EARLIEST)
    latest = lookups.latest(where for where, offset in wanted.items() if offset == LATEST)
    return wanted | earliest | latest


def within_the_log(
    pieces: Iterable[OffsetRange], earliest: Offsets, fail_on_data_loss: bool, warn: Callable[[str], None]
) -> list[OffsetRange]:
    """The ranges without what lies below the log's start; that is an error if asked for."""
    kept = []
    for piece in pieces:
        start = earliest[piece.where]
        if start > piece.begin and piece.size:
            what = f"{piece} was to be read, and the log begins at {start}"
            if fail_on_data_loss:
                raise data_lost(what)
            warn(what)
            piece = replace(piece, begin=min(start, piece.end))
        if piece.size:
            kept.append(piece)
    return kept
