"""The compacted topic and the Parquet table, held against the table that the changes were captured from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.pipelines.cdc.plan import VOID, Change, Table
from tests.pipelines.verdict import Verdict, steps_back


class Written(NamedTuple):
    """A record of the compacted topic; without a row it is a tombstone."""

    account: int
    version: int
    row: Change | None


Log = Mapping[int, Sequence[Written]]
"""Records by partition, in order."""


@dataclass(slots=True)
class Found:
    """What was read."""

    log: Log
    """The topic before its compaction."""
    compacted: Log
    """And after."""
    parquet: Table
    markers: list[int] = field(default_factory=list)
    group: Mapping[int, int] = field(default_factory=dict)
    """The group's committed offsets in the source topic."""
    source: Mapping[int, int] = field(default_factory=dict)
    """Up to where the last batch that is done has read, as Spark's checkpoint has it."""
    log_end: Mapping[int, int] = field(default_factory=dict)
    """The end of the source topic."""
    undecided: int = 0


def map_of(log: Log) -> Table:
    """What a reader makes of the topic: the last row of each key, without those that a tombstone took."""
    table: Table = {}
    for records in log.values():
        for account, _, row in records:
            if row is None:
                table.pop(account, None)
            else:
                table[account] = row
    return table


def versions_that_go_back(log: Log) -> int:
    """Across partitions too: a key has one partition, and another one would be a zombie's."""
    wrong = 0
    places: dict[int, int] = {}
    versions: dict[int, int] = {}
    for partition, records in log.items():
        for account, version, _ in records:
            wrong += places.setdefault(account, partition) != partition or version <= versions.get(account, 0)
            versions[account] = version
    return wrong


def _size(log: Log) -> int:
    return sum(len(records) for records in log.values())


def _void(log: Log) -> int:
    return sum(row is not None and row.owner == VOID for records in log.values() for _, _, row in records)


def _differing(found: Table, wanted: Table) -> int:
    return sum(found.get(account) != wanted.get(account) for account in found.keys() | wanted.keys())


def judge(wanted: Table, deleted: Iterable[int], found: Found) -> Verdict:
    latest = map_of(found.compacted)
    lag = sum(end - found.group.get(partition, 0) for partition, end in found.log_end.items())
    wanted_lag = sum(end - found.source.get(partition, 0) for partition, end in found.log_end.items())
    verdict = Verdict()
    verdict.equal("accounts in the compacted topic", len(latest), len(wanted))
    verdict.none("accounts that differ from the source", _differing(latest, wanted))
    verdict.none("accounts that differ before the compaction", _differing(map_of(found.log), wanted))
    verdict.none("deleted accounts still there", len(latest.keys() & set(deleted)))
    verdict.none("versions that go back", versions_that_go_back(found.log) + versions_that_go_back(found.compacted))
    verdict.none("rows of aborted changes", _void(found.log) + _void(found.compacted))
    verdict.above("records that the compaction took", _size(found.log) - _size(found.compacted))
    verdict.none("accounts of the Parquet table that differ", _differing(found.parquet, wanted))
    verdict.equal("lag of the group", lag, wanted_lag)
    verdict.none("markers out of order", steps_back(found.markers))
    verdict.none("offsets left undecided", found.undecided)
    verdict.figures |= {"records": _size(found.log), "records_after_compaction": _size(found.compacted)}
    verdict.figures["batches"] = len(found.markers)
    return verdict
