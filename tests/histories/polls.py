"""What is wrong with the order of what one reader is shown, and with how it is shown a transaction.

A reader goes through a partition from where its position was set: by an assignment, a rebalance, or a seek
(`assign`). After a rebalance the position is not known, and nothing is expected of the first record. From there on it
is shown every record once, in order.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.histories.observed import Observed
from tests.histories.operation import ASSIGN, TXN, Operation, Place, Poll
from tests.histories.writes import at

NONMONOTONIC, REPEATED, SKIPPED = "nonmonotonic poll", "repeated poll", "skipped poll"
INTERMEDIATE, TORN = "intermediate read (G1b)", "torn transaction"


@dataclass(slots=True)
class _Position:
    """Of one reader in one partition."""

    offset: int | None = None
    """The next to be read, as it was set."""
    expected: int | None = None
    """The rank of the record that it is to be shown next, once it was shown one."""
    seen: set[int] = field(default_factory=set)
    """Offsets, since it was set."""


@dataclass(frozen=True, slots=True)
class _Passed:
    """A record that a reader went past."""

    reader: Operation
    place: Place
    offset: int
    value: int


class Reading:
    """Walks through all polls; see the head of this file."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._positions: dict[tuple[str, Place], _Position] = {}
        self.found: list[tuple[str, str]] = []
        """(class, what was seen)"""
        self._passed: list[_Passed] = []
        # An assignment may come within a transaction, and within a poll.
        events = [(one.invoked, 0, one, Poll(0, 0, [])) for one in observed.operations if one.kind == ASSIGN]
        events += [(poll.completed, 1, one, poll) for one, poll in observed.polls()]
        for _, is_poll, one, poll in sorted(events, key=lambda event: event[:2]):
            if is_poll:
                self._follow(one, poll)
            else:
                self._positions |= {(one.process, place): _Position(offset) for place, offset in one.positions.items()}
        self._judge_passed()

    def _follow(self, one: Operation, poll: Poll) -> None:
        versions = self._observed.versions[poll.committed_only]
        for place, offset, _ in poll.records:
            position = self._positions.setdefault((one.process, place), _Position())
            known = versions[place]
            rank = known.ranks[offset]
            if position.offset is not None:
                position.expected, position.offset = bisect_left(known.offsets, position.offset), None
            if position.expected is not None and rank < position.expected:
                kind = REPEATED if offset in position.seen else NONMONOTONIC
                self.found.append((kind, f"{one} was shown {at(place, offset)} again, or too late"))
            elif position.expected is not None and poll.committed_only:
                missing = (known.offsets[other] for other in range(position.expected, rank))
                self._passed += (
                    _Passed(one, place, other, known.values[other]) for other in missing if other not in position.seen
                )
            position.expected = rank + 1
            position.seen.add(offset)

    def _judge_passed(self) -> None:
        """Each is a skipped poll; if others of its transaction were shown, the transaction is torn, too."""
        if not self._passed:
            return
        shown_to: dict[tuple[str, Place], set[int]] = {}
        for reader, poll in self._observed.polls():
            for place, _, value in poll.records if poll.committed_only else ():
                shown_to.setdefault((reader.process, place), set()).add(value)
        for passed in self._passed:
            where = f"{passed.value} at {at(passed.place, passed.offset)}"
            self.found.append((SKIPPED, f"{passed.reader} was not shown {where}"))
            written = self._observed.writers.get(passed.value)
            if written is None or written[0].kind != TXN:
                continue
            others = [send.value for send in written[0].sends if send.value != passed.value]
            here = [one for one in others if one in shown_to.get((passed.reader.process, passed.place), ())]
            elsewhere = [one for one in others if one in self._observed.shown[True]]
            if here:
                self.found.append((INTERMEDIATE, f"{passed.reader} was shown {here}, not {where}, of {written[0]}"))
            if elsewhere:
                self.found.append((TORN, f"{passed.reader} passed {where}; {elsewhere} of {written[0]} are visible"))


def polls_in_disorder(observed: Observed) -> Iterator[tuple[str, str]]:
    """(class, what was seen)"""
    yield from Reading(observed).found
