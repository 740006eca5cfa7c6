"""Everybody agrees on which record stands at an offset: producers from their responses, readers, and the log."""

from collections.abc import Iterator

from tests.simulation.history import History, Place


def inconsistent(history: History) -> Iterator[str]:
    """One offset, one record, for ever (Jepsen: inconsistent-offsets)."""
    known: dict[tuple[Place, int], tuple[int, str]] = {}

    def tell(place: Place, offset: int, number: int, who: str) -> Iterator[str]:
        if place not in history.final:
            return  # a topic that is made again begins at 0 again
        before = known.setdefault((place, offset), (number, who))
        if before[0] != number:
            yield f"{place}@{offset} is record {before[0]} for {before[1]}, record {number} for {who}"

    for place, final in history.final.items():
        for offset, number in final.everything:
            yield from tell(place, offset, number, "the log")
        for offset, number in final.committed:
            yield from tell(place, offset, number, "the committed log")
    for write in history.writes:
        may_be_lost = write.acks == 1 and any(time > write.sent_at for time in history.losses)
        if write.acked and write.offset is not None and not may_be_lost:
            yield from tell(write.place, write.offset, write.number, write.client)
    for reading in history.readings:
        for seen in reading.seen:
            yield from tell(seen.place, seen.offset, seen.number, reading.reader)
