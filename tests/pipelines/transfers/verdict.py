"""The ledger, held against a replay of the plan by one thread."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.pipelines.transfers.plan import Transfer
from tests.pipelines.verdict import Verdict, steps_back


class Entry(NamedTuple):
    """One side of a transfer in the ledger."""

    number: int
    account: int
    cents: int


@dataclass(slots=True)
class Ledger:
    """What a reader of committed records finds."""

    entries: dict[int, list[Entry]] = field(default_factory=dict)
    """By partition, in order."""
    batches: list[tuple[int, Mapping[int, int]]] = field(default_factory=list)
    """Batch number and records by partition, from the markers, in order."""
    undecided: int = 0
    """Offsets between the last stable offset and the high watermark."""

    def all(self) -> Iterable[Entry]:
        for entries in self.entries.values():
            yield from entries


def entries_of(transfer: Transfer) -> tuple[Entry, Entry]:
    debit = Entry(transfer.number, transfer.payer, -transfer.cents)
    return debit, Entry(transfer.number, transfer.payee, transfer.cents)


def judge(transfers: Sequence[Transfer], aborted: set[int], ledger: Ledger) -> Verdict:
    verdict = _once_each(transfers, aborted, ledger)
    unbalanced, besides = _cuts(ledger)
    verdict.none("markers after which the ledger does not sum to 0", unbalanced)
    verdict.none("entries that no marker tells of", besides)
    verdict.none("markers out of order", steps_back(number for number, _ in ledger.batches))
    verdict.none("accounts with another balance than a replay's", _wrong_balances(transfers, ledger))
    verdict.none("offsets left undecided", ledger.undecided)
    return verdict


def judge_control(transfers: Sequence[Transfer], aborted: set[int], ledger: Ledger) -> Verdict:
    """The stock sink under the same kills: it must lose nothing, and it must double."""
    found = Counter(ledger.all())
    wanted = Counter(entry for transfer in transfers for entry in entries_of(transfer))
    verdict = Verdict()
    verdict.none("entries missing", (wanted - found).total())
    verdict.above("entries doubled (the control: the stock sink must)", (found - wanted).total())
    verdict.none("entries of aborted transfers", sum(times for one, times in found.items() if one.number in aborted))
    return verdict


def _once_each(transfers: Sequence[Transfer], aborted: set[int], ledger: Ledger) -> Verdict:
    found = Counter(ledger.all())
    wanted = Counter(entry for transfer in transfers for entry in entries_of(transfer))
    surplus = found - wanted
    void = sum(times for entry, times in surplus.items() if entry.number in aborted)
    doubled = sum(times for entry, times in surplus.items() if entry in wanted)
    verdict = Verdict()
    verdict.equal("entries in the ledger", found.total(), 2 * len(transfers))
    verdict.none("entries missing", (wanted - found).total())
    verdict.none("entries doubled", doubled)
    verdict.none("entries of aborted transfers", void)
    verdict.none("entries invented", surplus.total() - doubled - void)
    return verdict


def _cuts(ledger: Ledger) -> tuple[int, int]:
    """(markers at which the prefix does not sum to nothing, entries beyond or short of the markers)."""
    place = dict.fromkeys(ledger.entries, 0)
    total = unbalanced = 0
    for _, counts in ledger.batches:
        for partition, count in counts.items():
            begin = place.get(partition, 0)
            total += sum(entry.cents for entry in ledger.entries.get(partition, [])[begin : begin + count])
            place[partition] = begin + count
        unbalanced += total != 0
    besides = sum(abs(len(ledger.entries.get(partition, [])) - end) for partition, end in place.items())
    return unbalanced, besides


def _wrong_balances(transfers: Sequence[Transfer], ledger: Ledger) -> int:
    wanted: Counter[int] = Counter()
    for _, payer, payee, cents in transfers:
        wanted[payer] -= cents
        wanted[payee] += cents
    found: Counter[int] = Counter()
    for entry in ledger.all():
        found[entry.account] += entry.cents
    return sum(found[account] != wanted[account] for account in wanted.keys() | found.keys())
