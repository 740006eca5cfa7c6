"""What must hold of a history. Each checker takes one and returns sentences about what was wrong."""

from collections.abc import Callable, Iterable

from tests.simulation.checkers import (
    agreement,
    compaction,
    fencing,
    groups,
    offsets,
    opinion,
    reading,
    shares,
    stability,
    transactions,
    writes,
)
from tests.simulation.history import History

CHECKERS: dict[str, Callable[[History], Iterable[str]]] = {
    "lost write": writes.lost,
    "duplicate": writes.duplicated,
    "order of sends": writes.out_of_order,
    "overtaken": writes.overtaken,
    "inconsistent offsets": agreement.inconsistent,
    "torn transaction": transactions.torn,
    "aborted read": transactions.aborted_read,
    "precommitted read": transactions.precommitted_read,
    "lost commit": transactions.lost_commit,
    "order of reads": reading.out_of_order,
    "skipped read": reading.skipped,
    "lost read": reading.lost,
    "compacted away": compaction.compacted_away,
    "offset going back": stability.going_back,
    "deleted for good": stability.deleted_for_good,
    "fenced write": fencing.fenced,
    "offsets apart": offsets.apart,
    "offsets kept": offsets.kept,
    "processed": offsets.processed_once,
    "two owners": groups.two_owners,
    "owned at once": groups.owned_at_once,
    "shared again": shares.delivered_again,
    "shared at once": shares.held_at_once,
    "lost share": shares.lost,
    "second opinion": opinion.objections,
}
