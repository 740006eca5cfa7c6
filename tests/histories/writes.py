"""What is wrong with records: where they stand, whether they are there, and who may be shown them."""

from collections.abc import Iterator

from tests.histories.observed import Observed
from tests.histories.operation import FAIL, SEND, TXN, Operation, Place, Send


def inconsistent_offsets(observed: Observed) -> Iterator[str]:
    """One offset of a partition bears one value, whoever says so."""
    for (place, offset), values in observed.bearing.items():
        if len(values) > 1:
            yield f"{at(place, offset)} bears {sorted(values)}"


def duplicates(observed: Observed) -> Iterator[str]:
    """A value stands at one offset."""
    for value, places in observed.standing.items():
        if len(places) > 1:
            yield f"{value} stands at {', '.join(at(*one) for one in places)}"


def unwritten_reads(observed: Observed) -> Iterator[str]:
    """Nobody is shown what nobody sent, nor in another partition than it was sent to."""
    for value, places in observed.standing.items():
        written = observed.writers.get(value)
        for place, offset in places:
            if written is None or written[1].place != place:
                yield f"{value} at {at(place, offset)} was not sent there"


def lost_writes(observed: Observed) -> Iterator[str]:
    """What was acknowledged, and stands in front of something that somebody was shown, is shown to somebody."""
    for one, send in _acknowledged(observed):
        for committed_only in (True, False) if observed.is_committed(one) else (False,):
            passed = (send.offset or 0) < observed.highest[committed_only].get(send.place, -1)
            if send.is_placed and passed and send.value not in observed.shown[committed_only]:
                kind = "read_committed" if committed_only else "read_uncommitted"
                yield f"{send.value} at {at(send.place, send.offset)} of {one} was never shown to {kind}"


def unseen_writes(observed: Observed) -> Iterator[str]:
    """When all is over everything that was committed has been shown, and does not stand where no reader comes."""
    looked_at = {place for look in observed.looks() for place in look.ends}
    for one, send in _acknowledged(observed):
        if not observed.is_committed(one) or send.place not in looked_at or send.value in observed.shown[True]:
            continue
        if not send.is_placed or (send.offset or 0) >= observed.highest[True].get(send.place, -1):
            yield f"{send.value} of {one}, sent to {send.place[0]}-{send.place[1]}, was not shown to anybody in the end"


def _acknowledged(observed: Observed) -> Iterator[tuple[Operation, Send]]:
    starts = {place: ends[0] for look in observed.looks() for place, ends in look.ends.items()}
    for one, send in observed.writers.values():
        trimmed = send.is_placed and (send.offset or 0) < starts.get(send.place, 0)
        if send.offset is not None and not trimmed:
            yield one, send


def aborted_reads(observed: Observed) -> Iterator[str]:
    """A read_committed reader is never shown a record of a transaction that was not committed (G1a)."""
    for reader, poll in observed.polls():
        for place, offset, value in poll.records if poll.committed_only else ():
            written = observed.writers.get(value)
            if written is not None and written[0].kind == TXN and written[0].outcome == FAIL:
                yield f"{reader} was shown {value} at {at(place, offset)} of {written[0]}"


def precommitted_reads(observed: Observed) -> Iterator[str]:
    """Nor one whose commit was not requested yet: its own among them, for a transaction polls before it commits."""
    for reader, poll in observed.polls():
        for place, offset, value in poll.records if poll.committed_only else ():
            written = observed.writers.get(value)
            if written is None:
                continue
            one = written[0]
            allowed_from = one.decided if one.kind == TXN and one.outcome != FAIL else one.invoked
            if reader is one or (allowed_from is not None and poll.completed < allowed_from):
                yield f"{reader} was shown {value} at {at(place, offset)} too early, of {one}"


def nonmonotonic_sends(observed: Observed) -> Iterator[str]:
    """A process's records stand in the order in which it sent them.

    Not outside of transactions within its first operation: of a producer whose first batch was refused with a
    retriable error a later batch may be let in first.
    """
    last: dict[tuple[str, Place], tuple[int, Operation]] = {}
    begun: set[str] = set()
    for one in observed.operations:
        is_first = one.sends and one.kind == SEND and one.process not in begun
        if one.sends:
            begun.add(one.process)
        for send in one.sends:
            if not send.is_placed:
                continue
            offset = send.offset or 0
            before = last.get((one.process, send.place), (-1, one))
            if offset <= before[0] and not (is_first and before[1] is one):
                yield f"{send.value} at {at(send.place, offset)} of {one}, behind {before[0]} of {before[1]}"
            last[one.process, send.place] = (max(offset, before[0]), one)


def sends_against_time(observed: Observed) -> Iterator[str]:
    """What was sent after another record was acknowledged stands behind it, whoever sent them."""
    for place, versions in observed.versions[False].items():
        earliest: tuple[int, int] | None = None
        """(the first acknowledgement of all that stand behind, where)"""
        for offset in reversed(versions.offsets):
            written = observed.writers.get(versions.values[offset])
            if written is None or not written[1].is_placed:
                continue
            one = written[0]
            if earliest is not None and one.invoked > earliest[0]:
                yield f"{at(place, offset)} of {one} was sent after {earliest[1]} had been acknowledged"
            if one.completed is not None and (earliest is None or one.completed < earliest[0]):
                earliest = (one.completed, offset)


def at(place: Place, offset: int | None) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
