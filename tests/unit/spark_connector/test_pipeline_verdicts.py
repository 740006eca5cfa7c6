"""The verdicts of the pipelines turn red, in the right line, for each fault that is planted into what was read.

These are the proofs of the proof: what the pipelines say about kills is worth as much as what makes them say no.
"""

from collections.abc import Callable

import pytest

pytest.importorskip("fastavro")

from tests.pipelines.batch_log import Batch
from tests.pipelines.cdc import verdict as cdc
from tests.pipelines.cdc.plan import VOID, Change, Source
from tests.pipelines.transfers import verdict as transfers
from tests.pipelines.transfers.plan import Transfer
from tests.pipelines.transfers.verdict import Entry, Ledger
from tests.pipelines.windows import verdict as windows
from tests.pipelines.windows.plan import MINUTE_MS, Click

TRANSFERS = [Transfer(number, number % 5, (number + 1) % 5, 100 + number) for number in range(40)]
ABORTED = {100, 101}
PER_BATCH = 10


def ledger() -> Ledger:
    """The right one: two partitions, four batches."""
    right = Ledger(entries={0: [], 1: []})
    for batch in range(len(TRANSFERS) // PER_BATCH):
        counts = {0: 0, 1: 0}
        for transfer in TRANSFERS[batch * PER_BATCH : (batch + 1) * PER_BATCH]:
            for entry in transfers.entries_of(transfer):
                right.entries[entry.account % 2].append(entry)
                counts[entry.account % 2] += 1
        right.batches.append((batch, counts))
    return right


def test_a_right_ledger_is_right() -> None:
    verdict = transfers.judge(TRANSFERS, ABORTED, ledger())
    assert verdict.wrong == []
    assert verdict.ok


def lose_an_entry(found: Ledger) -> None:
    found.entries[1].pop()


def double_an_entry(found: Ledger) -> None:
    found.entries[0].append(found.entries[0][0])


def double_a_batch(found: Ledger) -> None:
    """What the stock sink does: all of it again, both sides, and it even sums to nothing."""
    for partition, entries in found.entries.items():
        entries += entries[-found.batches[-1][1][partition] :]
    found.batches.append((found.batches[-1][0], found.batches[-1][1]))


def show_an_aborted_transfer(found: Ledger) -> None:
    found.entries[0] += [Entry(100, 0, -7), Entry(100, 2, 7)]


def invent_an_entry(found: Ledger) -> None:
    found.entries[0].append(Entry(999, 0, 1))


def split_a_transfer(found: Ledger) -> None:
    """One side in one batch, the other side in the next: nothing is missing at the end, but a cut is wrong."""
    before, after = dict(found.batches[0][1]), dict(found.batches[1][1])
    before[0], after[0] = before[0] - 1, after[0] + 1
    found.batches[:2] = [(0, before), (1, after)]


def swap_two_markers(found: Ledger) -> None:
    found.batches[1], found.batches[2] = found.batches[2], found.batches[1]


def change_an_amount(found: Ledger) -> None:
    found.entries[0][0] = found.entries[0][0]._replace(cents=1)


def leave_a_transaction_open(found: Ledger) -> None:
    found.undecided = 3


@pytest.mark.parametrize(
    ("plant", "line"),
    [
        (lose_an_entry, "entries in the ledger"),
        (lose_an_entry, "entries missing"),
        (double_an_entry, "entries doubled"),
        (double_a_batch, "entries doubled"),
        (double_a_batch, "markers out of order"),
        (show_an_aborted_transfer, "entries of aborted transfers"),
        (show_an_aborted_transfer, "entries that no marker tells of"),
        (invent_an_entry, "entries invented"),
        (split_a_transfer, "markers after which the ledger does not sum to 0"),
        (swap_two_markers, "markers out of order"),
        (change_an_amount, "accounts with another balance than a replay's"),
        (leave_a_transaction_open, "offsets left undecided"),
    ],
)
def test_a_wrong_ledger_is_wrong_in_its_line(plant: Callable[[Ledger], None], line: str) -> None:
    found = ledger()
    plant(found)
    verdict = transfers.judge(TRANSFERS, ABORTED, found)
    assert line in verdict.wrong
    assert not verdict.ok


def test_the_control_must_double_and_may_not_lose() -> None:
    found = ledger()
    assert transfers.judge_control(TRANSFERS, ABORTED, found).wrong == [
        "entries doubled (the control: the stock sink must)"
    ]
    double_a_batch(found)
    assert transfers.judge_control(TRANSFERS, ABORTED, found).ok
    gone = found.entries[0][0]
    found.entries[0] = [entry for entry in found.entries[0] if entry != gone]
    assert transfers.judge_control(TRANSFERS, ABORTED, found).wrong == ["entries missing"]
    show_an_aborted_transfer(found)
    assert "entries of aborted transfers" in transfers.judge_control(TRANSFERS, ABORTED, found).wrong


# Windows. One partition; page 1; three minutes of clicks, the watermark as the log of batches has it.


def click(minute: float, page: int = 1) -> Click:
    return Click(int(minute * MINUTE_MS), page, 0)


ARRIVED = {
    0: list(enumerate([click(1.1), click(1.2), click(2.5), click(1.3), click(3.5), click(1.4), click(2.2), click(9)]))
}
LOG = [
    Batch(0, 0, {("clicks", 0): 3}, True),
    Batch(1, 2 * MINUTE_MS, {("clicks", 0): 5}, True),
    Batch(2, 3 * MINUTE_MS, {("clicks", 0): 8}, True),
    Batch(3, 8 * MINUTE_MS, {("clicks", 0): 8}, True),
]


def test_late_clicks_count_until_the_batch_after_their_window_closes() -> None:
    """Minute 1 is closed by batch 1, with the click that arrived in batch 1; the one of batch 2 is dropped."""
    done = windows.recompute(LOG, "clicks", ARRIVED)
    assert done.closed == {(1, MINUTE_MS): 3, (1, 2 * MINUTE_MS): 2, (1, 3 * MINUTE_MS): 1}
    assert done.dropped == 1
    assert done.states[1] == {(1, 2 * MINUTE_MS): 1, (1, 3 * MINUTE_MS): 1}
    assert done.states[3] == {(1, 9 * MINUTE_MS): 1}


def counted() -> windows.Found:
    done = windows.recompute(LOG, "clicks", ARRIVED)
    return windows.Found(counts=list(done.closed.items()), markers=[0, 1, 2, 3], states={1: dict(done.states[1])})


def lose_a_window(found: windows.Found) -> None:
    found.counts.pop()


def write_a_window_twice(found: windows.Found) -> None:
    found.counts.append(found.counts[0])


def close_a_window_too_early(found: windows.Found) -> None:
    found.counts.append(((1, 9 * MINUTE_MS), 1))


def count_a_click_too_many(found: windows.Found) -> None:
    found.counts[0] = (found.counts[0][0], found.counts[0][1] + 1)


def write_a_marker_twice(found: windows.Found) -> None:
    found.markers.append(3)


def forget_a_state(found: windows.Found) -> None:
    found.states = {1: {}}


def leave_windows_undecided(found: windows.Found) -> None:
    found.undecided = 1


@pytest.mark.parametrize(
    ("plant", "line"),
    [
        (lose_a_window, "windows closed"),
        (lose_a_window, "windows missing"),
        (write_a_window_twice, "windows written twice"),
        (close_a_window_too_early, "windows that are not closed"),
        (count_a_click_too_many, "windows with a wrong count"),
        (write_a_marker_twice, "markers out of order"),
        (forget_a_state, "restarts that found another state"),
        (leave_windows_undecided, "offsets left undecided"),
    ],
)
def test_wrong_counts_are_wrong_in_their_line(plant: Callable[[windows.Found], None], line: str) -> None:
    wanted = windows.recompute(LOG, "clicks", ARRIVED)
    found = counted()
    assert windows.judge(wanted, found).ok
    plant(found)
    assert line in windows.judge(wanted, found).wrong


def test_a_plan_without_late_clicks_proves_nothing() -> None:
    wanted = windows.recompute(LOG[:1], "clicks", ARRIVED)
    assert windows.judge(wanted, windows.Found([], [0], {})).wrong == ["clicks too late to count"]


# Changes of a table.


def row(account: int, version: int, owner: str = "owner") -> cdc.Written:
    return cdc.Written(account, version, Change(account, version, False, owner, 10 * account))


def tombstone(account: int, version: int) -> cdc.Written:
    return cdc.Written(account, version, None)


def table() -> dict[int, Change]:
    rows = [row(1, 2), row(2, 1)]
    return {one.account: one.row for one in rows if one.row is not None}


def captured() -> cdc.Found:
    return cdc.Found(
        log={0: [row(2, 1)], 1: [row(1, 1), row(3, 1), row(1, 2), tombstone(3, 2)]},
        compacted={0: [row(2, 1)], 1: [row(1, 2), tombstone(3, 2)]},
        table_rows=[*table().values()],
        markers=[0, 1],
        group={0: 5, 1: 9},
        source={0: 5, 1: 9},
        log_end={0: 6, 1: 9},
        dead_letters=[*MALFORMED],
        dead_letters_marked=len(MALFORMED),
    )


MALFORMED = [b"{ 1", b"[] 2"]


def lose_an_account(found: cdc.Found) -> None:
    found.compacted = {1: found.compacted[1]}


def keep_an_old_row(found: cdc.Found) -> None:
    found.compacted = {0: found.compacted[0], 1: [row(1, 1), tombstone(3, 2)]}


def lose_the_last_change(found: cdc.Found) -> None:
    found.log = {0: found.log[0], 1: [row(1, 1), row(3, 1), tombstone(3, 2)]}


def forget_a_tombstone(found: cdc.Found) -> None:
    found.compacted = {0: found.compacted[0], 1: [row(1, 2), row(3, 1)]}


def write_an_old_version_again(found: cdc.Found) -> None:
    found.log = {0: found.log[0], 1: [*found.log[1], row(1, 1)]}


def write_a_version_twice(found: cdc.Found) -> None:
    found.log = {0: found.log[0], 1: [*found.log[1], row(1, 2)]}


def write_to_another_partition(found: cdc.Found) -> None:
    found.log = {0: [*found.log[0], row(1, 3)], 1: found.log[1]}


def show_an_aborted_change(found: cdc.Found) -> None:
    found.log = {0: found.log[0], 1: [row(3, 1, VOID), *found.log[1][2:]]}


def compact_nothing(found: cdc.Found) -> None:
    found.compacted = found.log


def leave_a_deleted_account_in_the_table(found: cdc.Found) -> None:
    found.table_rows = [*found.table_rows, Change(3, 1, False, "owner", 30)]


def write_a_row_twice(found: cdc.Found) -> None:
    """An insert that was done again: the table's map is right all the same."""
    found.table_rows = [*found.table_rows, found.table_rows[0]]


def pass_over_a_batch(found: cdc.Found) -> None:
    found.table_batches, found.table_batches_done = [0, 2], 3


def take_a_batch_twice(found: cdc.Found) -> None:
    found.table_batches, found.table_batches_done = [0, 1, 1, 2], 3


def let_an_earlier_driver_come_late(found: cdc.Found) -> None:
    found.table_batches, found.table_batches_done = [0, 2, 1], 3


def commit_offsets_that_are_ahead(found: cdc.Found) -> None:
    found.group = {0: 6, 1: 9}


def swap_markers(found: cdc.Found) -> None:
    found.markers = [1, 0]


def leave_changes_undecided(found: cdc.Found) -> None:
    found.undecided = 2


def lose_a_dead_letter(found: cdc.Found) -> None:
    """By rows and marker alike: a malformed value that was dropped."""
    found.dead_letters, found.dead_letters_marked = MALFORMED[1:], 1


def double_a_dead_letter(found: cdc.Found) -> None:
    """Beside the transaction."""
    found.dead_letters = [*MALFORMED, MALFORMED[0]]


def take_a_change_for_a_dead_letter(found: cdc.Found) -> None:
    found.dead_letters = [*MALFORMED[1:], b'{"account": 1}']


@pytest.mark.parametrize(
    ("plant", "line"),
    [
        (lose_an_account, "accounts in the compacted topic"),
        (lose_an_account, "accounts that differ from the source"),
        (keep_an_old_row, "accounts that differ from the source"),
        (lose_the_last_change, "accounts that differ before the compaction"),
        (forget_a_tombstone, "deleted accounts still there"),
        (write_an_old_version_again, "versions that go back"),
        (write_a_version_twice, "versions that go back"),
        (write_to_another_partition, "versions that go back"),
        (show_an_aborted_change, "rows of aborted changes"),
        (compact_nothing, "records that the compaction took"),
        (leave_a_deleted_account_in_the_table, "accounts of the table that differ"),
        (write_a_row_twice, "accounts that the table has twice"),
        (pass_over_a_batch, "micro-batches that the table does not have"),
        (take_a_batch_twice, "micro-batches that it has twice or out of order"),
        (let_an_earlier_driver_come_late, "micro-batches that it has twice or out of order"),
        (commit_offsets_that_are_ahead, "lag of the group"),
        (swap_markers, "markers out of order"),
        (leave_changes_undecided, "offsets left undecided"),
        (lose_a_dead_letter, "dead letters"),
        (lose_a_dead_letter, "dead letters missing"),
        (double_a_dead_letter, "dead letters doubled"),
        (double_a_dead_letter, "dead letters that markers tell of"),
        (take_a_change_for_a_dead_letter, "dead letters that are none"),
    ],
)
def test_a_wrong_table_copy_fails_its_line(plant: Callable[[cdc.Found], None], line: str) -> None:
    found = captured()
    wanted = cdc.Wanted(table(), [3], MALFORMED)
    assert cdc.judge(wanted, found).wrong == []
    plant(found)
    assert line in cdc.judge(wanted, found).wrong


def test_changes_of_aborted_transactions_leave_the_source_as_it_was() -> None:
    """The table is what the committed changes make of it, and versions go up by one per account."""
    source = Source(7, 3000)
    replayed: dict[int, Change] = {}
    versions: dict[int, int] = {}
    voids = 0
    malformed: list[bytes] = []
    for values, void in source.transactions():
        voids += void
        changes = [value for value in values if isinstance(value, Change)]
        assert all((change.owner == VOID) == void for change in changes)
        letters = [value for value in values if isinstance(value, bytes)]
        assert letters and all((VOID.encode() in letter) == void for letter in letters)
        malformed += [] if void else letters
        for change in changes if not void else []:
            assert change.version == versions.get(change.account, 0) + 1
            versions[change.account] = change.version
            replayed[change.account] = change
    assert {account: change for account, change in replayed.items() if not change.deleted} == source.table
    assert {account for account, change in replayed.items() if change.deleted} == source.deleted
    assert voids > 0
    assert malformed == source.dead_letters and len(set(malformed)) == len(malformed)
    assert Source(7, 3000).replayed().table == source.table
