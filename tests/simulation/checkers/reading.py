"""A reader gets every record that it is to get, in order, once."""

from collections.abc import Iterator

from tests.simulation.history import History, Place, Reading


def out_of_order(history: History) -> Iterator[str]:
    """Offsets only grow, and what comes stands where the reader requested (int-nonmonotonic-poll)."""
    for reading in history.readings:
        last: dict[Place, int] = {}
        resets = {(look.place, look.time) for look in reading.looks if look.reset}
        for seen in reading.seen:
            if seen.place[0] in history.forgotten:
                continue
            if (seen.place, seen.time) in resets:
                resets.discard((seen.place, seen.time))
                last.pop(seen.place, None)
            if seen.offset <= last.get(seen.place, -1):
                yield f"{reading.reader} was shown {seen.place}@{seen.offset} after {last[seen.place]}"
            last[seen.place] = seen.offset


def skipped(history: History) -> Iterator[str]:
    """Of what lies between two positions of a reader, nothing is missing that is in the log at the end
    (int-poll-skip)."""
    wanted: dict[tuple[Place, bool], list[tuple[int, int]]] = {}
    for place, final in history.final.items():
        wanted[place, True] = final.committed
        wanted[place, False] = final.everything
    for reading in history.readings:
        yield from _skipped_by(reading, wanted)


def _skipped_by(reading: Reading, wanted: dict[tuple[Place, bool], list[tuple[int, int]]]) -> Iterator[str]:
    got = {(seen.place, seen.offset) for seen in reading.seen}
    for look in reading.looks:
        if look.next_position == look.position:
            continue
        for offset, number in wanted.get((look.place, reading.committed_only), ()):
            if look.position <= offset < look.next_position and (look.place, offset) not in got:
                yield (
                    f"{reading.reader} went from {look.position} to {look.next_position} in {look.place},"
                    f" and was not shown record {number} at {offset}"
                )


def lost(history: History) -> Iterator[str]:
    """What a reader was shown is committed: it is in the log for good, or was trimmed or compacted away."""
    there = {(place, number) for place, final in history.final.items() for _, number in final.everything}
    for reading in history.readings:
        for seen in reading.seen:
            final = history.final.get(seen.place)
            if final is None or seen.place[0] in history.compacted or seen.offset < final.log_start_offset:
                continue
            if (seen.place, seen.number) not in there:
                yield f"{reading.reader} was shown record {seen.number} at {seen.place}@{seen.offset}, and it is gone"
