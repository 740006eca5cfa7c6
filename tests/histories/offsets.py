"""What is wrong with offsets that transactions commit, and with transactions that nobody ends.

A group whose transactions send the offsets of all that they polled processes each record once: two committed
transactions of it never polled the same record, and it never commits an offset beyond one that none of them polled.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.histories.observed import Observed
from tests.histories.operation import TXN, Operation, Place
from tests.histories.writes import at

GroupPlace = tuple[str, Place]


@dataclass(slots=True)
class _Committing:
    """What transactions did to the offset of one group in one partition."""

    committed: list[Operation] = field(default_factory=list)
    unknown: list[Operation] = field(default_factory=list)
    aborted: list[Operation] = field(default_factory=list)


def _by_group(observed: Observed) -> dict[GroupPlace, _Committing]:
    found: dict[GroupPlace, _Committing] = defaultdict(_Committing)
    for one in observed.operations:
        for key in one.offsets if one.kind == TXN else ():
            committing = found[key]
            if observed.is_committed(one):
                committing.committed.append(one)
            elif observed.may_be_committed(one):
                committing.unknown.append(one)
            else:
                committing.aborted.append(one)
    return found


def offsets_in_the_end(observed: Observed) -> Iterator[tuple[str, str]]:
    """(class, what was seen). A group stands where a committed transaction put it last, never where an aborted did."""
    groups = _by_group(observed)
    for look in observed.looks():
        for key, committing in groups.items():
            if key[1] not in look.ends:
                continue
            where = f"{key[0]} in {key[1][0]}-{key[1][1]}"
            least = max((one.offsets[key] for one in committing.committed), default=-1)
            stands = look.offsets.get(key, -1)
            possible = {one.offsets[key] for one in (*committing.committed, *committing.unknown)}
            if stands < least:
                yield "lost offsets", f"{where} stands at {stands}, {least} was committed"
            elif stands >= 0 and stands not in possible:
                by = [str(one) for one in committing.aborted if one.offsets[key] == stands]
                yield "aborted offsets", f"{where} stands at {stands}, sent by {by or 'nobody'}"


def processed_once(observed: Observed) -> Iterator[tuple[str, str]]:
    """(class, what was seen); see the head of this file."""
    for key, committing in _by_group(observed).items():
        place = key[1]
        done: dict[int, Operation] = {}
        for one in committing.committed:
            for offset in _polled(one, place):
                if offset in done:
                    yield "processed twice", f"{at(place, offset)} by {done[offset]} and {one}"
                done[offset] = one
        if not done:
            continue
        perhaps = {offset for one in committing.unknown for offset in _polled(one, place)}
        farthest = max(one.offsets[key] for one in committing.committed)
        for offset in observed.versions[True][place].offsets:
            if offset < farthest and offset not in done and offset not in perhaps:
                yield "not processed", f"{at(place, offset)}, though {key[0]} committed {farthest}"


def _polled(one: Operation, place: Place) -> Iterator[int]:
    return (offset for poll in one.polls for where, offset, _ in poll.records if where == place)


def hanging(observed: Observed) -> Iterator[str]:
    """When all is over nothing is undecided: the last stable offset is the end."""
    for look in observed.looks():
        for place, (_, stable, end) in look.ends.items():
            if stable < end:
                yield f"the last stable offset of {place[0]}-{place[1]} stays at {stable} of {end}"
