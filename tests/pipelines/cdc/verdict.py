"""The compacted topic and the table made of it, held against the table that the changes were captured from."""

from collections import Counter
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
    table_rows: Sequence[Change]
    markers: list[int] = field(default_factory=list)
    group: Mapping[int, int] = field(default_factory=dict)
    """The group's committed offsets in the source topic."""
    source: Mapping[int, int] = field(default_factory=dict)
    """Up to where the last batch that is done has read, as Spark's checkpoint has it."""
    log_end: Mapping[int, int] = field(default_factory=dict)
    """The end of the source topic."""
    undecided: int = 0
    dead_letters: Sequence[bytes] = ()
    dead_letters_marked: int = 0
    """How many of them the markers tell of, which are in the transactions of the rows."""
    table_batches: Sequence[int] | None = None
    """The micro-batches that a table of Delta says it has, in the order of its log."""
    table_batches_done: int = 0
    """How many micro-batches of the table's query are done, as Spark's checkpoint has it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the writer has committed: the table, what is deleted in it, and the values that are no changes."""

    table: Table
    deleted: Iterable[int]
    dead_letters: Sequence[bytes]


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


def judge(wanted: Wanted, found: Found) -> Verdict:
    latest = map_of(found.compacted)
    lag = sum(end - found.group.get(partition, 0) for partition, end in found.log_end.items())
    wanted_lag = sum(end - found.source.get(partition, 0) for partition, end in found.log_end.items())
    verdict = Verdict()
    verdict.equal("accounts in the compacted topic", len(latest), len(wanted.table))
    verdict.none("accounts that differ from the source", _differing(latest, wanted.table))
    verdict.none("accounts that differ before the compaction", _differing(map_of(found.log), wanted.table))
    verdict.none("deleted accounts still there", len(latest.keys() & set(wanted.deleted)))
    verdict.none("versions that go back", versions_that_go_back(found.log) + versions_that_go_back(found.compacted))
    verdict.none("rows of aborted changes", _void(found.log) + _void(found.compacted))
    verdict.above("records that the compaction took", _size(found.log) - _size(found.compacted))
    table = {row.account: row for row in found.table_rows}
    verdict.none("accounts of the table that differ", _differing(table, wanted.table))
    verdict.none("accounts that the table has twice", len(found.table_rows) - len(table))
    if found.table_batches is not None:
        done = set(range(found.table_batches_done))
        verdict.none("micro-batches that the table does not have", len(done - set(found.table_batches)))
        verdict.none("micro-batches that it has twice or out of order", steps_back(found.table_batches))
    verdict.equal("lag of the group", lag, wanted_lag)
    verdict.none("markers out of order", steps_back(found.markers))
    verdict.none("offsets left undecided", found.undecided)
    letters, values = Counter(found.dead_letters), Counter(wanted.dead_letters)
    surplus = letters - values
    verdict.equal("dead letters", letters.total(), values.total())
    verdict.none("dead letters missing", (values - letters).total())
    verdict.none("dead letters doubled", sum(times for value, times in surplus.items() if value in values))
    verdict.none("dead letters that are none", sum(times for value, times in surplus.items() if value not in values))
    verdict.equal("dead letters that markers tell of", found.dead_letters_marked, letters.total())
    verdict.figures |= {"records": _size(found.log), "records_after_compaction": _size(found.compacted)}
    verdict.figures["batches"] = len(found.markers)
    return verdict
