"""What all operations of a history say together: who wrote a value, where it stands, which transactions committed.

The order of versions of a partition is the order of offsets, as acknowledgements and polls report them. A transaction
of unknown outcome is known to be committed once a reader with read_committed was shown a record of it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.histories.operation import FAIL, LOOK, OK, TXN, Operation, Place, Poll, Send


@dataclass(slots=True)
class Versions:
    """The offsets of a partition that are known to bear a record."""

    values: dict[int, int] = field(default_factory=dict)
    """offset → value"""
    offsets: list[int] = field(default_factory=list)
    """Those that a reader must be shown, in order."""
    ranks: dict[int, int] = field(default_factory=dict)
    """offset → its index in `offsets`"""

    def shows(self, offsets: Iterable[int]) -> None:
        self.offsets = sorted(offsets)
        self.ranks = {offset: rank for rank, offset in enumerate(self.offsets)}


class Observed:
    """See the head of this file."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda one: one.invoked)
        self.writers: dict[int, tuple[Operation, Send]] = {}
        """value → who sent it"""
        self.shown: dict[bool, set[int]] = {True: set(), False: set()}
        """read_committed → the values that such readers were shown."""
        self.highest: dict[bool, dict[Place, int]] = {True: {}, False: {}}
        """read_committed → the last offset that such readers were shown, or that a last look came past."""
        self.standing: dict[int, dict[tuple[Place, int], None]] = {}
        """value → where it stands; at more than one offset only if something is wrong."""
        self.bearing: dict[tuple[Place, int], dict[int, None]] = {}
        """(place, offset) → the values that it was said to bear; more than one only if something is wrong."""
        self.versions: dict[bool, dict[Place, Versions]] = {True: {}, False: {}}
        self._index_writes()
        self._index_polls()
        self.committed = {
            id(one) for one in self.operations if one.kind == TXN and (one.outcome == OK or self._was_shown(one))
        }
        self._order_versions()

    def polls(self) -> Iterator[tuple[Operation, Poll]]:
        for one in self.operations:
            for poll in one.polls:
                yield one, poll

    def looks(self) -> Iterator[Operation]:
        return (one for one in self.operations if one.kind == LOOK)

    def is_committed(self, one: Operation) -> bool:
        """Whether all of its acknowledged records are there for read_committed readers."""
        return id(one) in self.committed if one.kind == TXN else True

    def may_be_committed(self, one: Operation) -> bool:
        """A transaction of unknown outcome is not, if a reader passed all its records without being shown one."""
        if self.is_committed(one):
            return True
        return one.outcome != FAIL and not self._was_passed(one)

    # -- indices -----------------------------------------------------------------------------------------------

    def _index_writes(self) -> None:
        for one in self.operations:
            for send in one.sends:
                self.writers[send.value] = (one, send)
                if send.is_placed:
                    self._stands(send.value, send.place, send.offset or 0)

    def _index_polls(self) -> None:
        for _, poll in self.polls():
            shown, highest = self.shown[poll.committed_only], self.highest[poll.committed_only]
            for place, offset, value in poll.records:
                shown.add(value)
                self._stands(value, place, offset)
                if offset > highest.get(place, -1):
                    highest[place] = offset
        for look in self.looks():
            for place, (_, stable, _) in look.ends.items():
                self.highest[True][place] = max(stable, self.highest[True].get(place, -1))

    def _stands(self, value: int, place: Place, offset: int) -> None:
        self.standing.setdefault(value, {})[place, offset] = None
        self.bearing.setdefault((place, offset), {})[value] = None

    def _was_shown(self, one: Operation) -> bool:
        return one.outcome != FAIL and any(send.value in self.shown[True] for send in one.sends)

    def _was_passed(self, one: Operation) -> bool:
        highest = self.highest[True]
        placed = [send for send in one.sends if send.is_placed]
        return any((send.offset or 0) < highest.get(send.place, -1) for send in placed)

    def _order_versions(self) -> None:
        visible: dict[Place, list[int]] = {}
        every: dict[Place, list[int]] = {}
        for (place, offset), values in self.bearing.items():
            every.setdefault(place, []).append(offset)
            if any(self._is_visible(value) for value in values):
                visible.setdefault(place, []).append(offset)
        for committed_only, offsets in ((True, visible), (False, every)):
            for place, found in offsets.items():
                made = self.versions[committed_only][place] = Versions()
                made.values = {offset: next(iter(self.bearing[place, offset])) for offset in found}
                made.shows(found)

    def _is_visible(self, value: int) -> bool:
        if value in self.shown[True]:
            return True
        written = self.writers.get(value)
        return written is not None and self.is_committed(written[0])
