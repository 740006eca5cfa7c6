"""The classes of anomalies, and the verdict on a history. It takes time linear in its length, but for sorting."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.histories import cycles, offsets, polls, writes
from tests.histories.graph import Graph
from tests.histories.observed import Observed
from tests.histories.operation import TXN, Operation

SHOWN = 5
"""How many of a class are told in full."""

CHECKS: dict[str, Callable[[Observed], Iterable[str]]] = {
    "inconsistent offsets": writes.inconsistent_offsets,
    "duplicate": writes.duplicates,
    "unwritten read": writes.unwritten_reads,
    "lost write": writes.lost_writes,
    "unseen write": writes.unseen_writes,
    "aborted read (G1a)": writes.aborted_reads,
    "precommitted read": writes.precommitted_reads,
    "nonmonotonic send": writes.nonmonotonic_sends,
    "send against time": writes.sends_against_time,
    "hanging transaction": offsets.hanging,
}
NAMING: tuple[Callable[[Observed], Iterable[tuple[str, str]]], ...] = (
    polls.polls_in_disorder,
    offsets.offsets_in_the_end,
    offsets.processed_once,
)
"""Those that find more than one class, and name it."""


@dataclass(slots=True)
class Verdict:
    """What came of a history."""

    operations: int = 0
    transactions: Counter[str] = field(default_factory=Counter)
    """By outcome, as their clients know it."""
    records: int = 0
    shown: int = 0
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """class → each of them in words"""
    allowed: Counter[str] = field(default_factory=Counter)
    """How often cycles were met that Kafka does not exclude."""

    def sentences(self) -> Iterator[str]:
        """What is wrong; of each class only the first ones."""
        for kind, texts in self.wrong.items():
            yield from (f"{kind}: {text}" for text in texts[:SHOWN])
            if len(texts) > SHOWN:
                yield f"{kind}: {len(texts) - SHOWN} more"

    def head(self) -> str:
        """How much was judged."""
        transactions = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.transactions.items()))
        permitted = ", ".join(f"{count} {kind}" for kind, count in self.allowed.items()) or "none"
        counted = f"history of {self.operations} operations, {self.records} records sent, {self.shown} polled,"
        return f"{counted} transactions: {transactions or 'none'}; cycles as Kafka allows them: {permitted}"

    def __str__(self) -> str:
        return "\n".join([self.head(), *(list(self.sentences()) or ["no anomaly in the history"])])


def check(operations: Iterable[Operation]) -> Verdict:
    """Judge a history, given in any order."""
    observed = Observed(operations)
    verdict = Verdict(operations=len(observed.operations), records=len(observed.writers))
    verdict.transactions.update(one.outcome for one in observed.operations if one.kind == TXN)
    verdict.shown = sum(len(poll.records) for _, poll in observed.polls())
    for kind, finds in CHECKS.items():
        for text in finds(observed):
            verdict.wrong[kind].append(text)
    for names in NAMING:
        for kind, text in names(observed):
            verdict.wrong[kind].append(text)
    graph = Graph(observed)
    for kind, text in cycles.excluded(graph):
        verdict.wrong[kind].append(text)
    verdict.allowed = cycles.allowed(graph)
    return verdict
