"""Acknowledged writes are there, once, and those of one producer in the order in which it sent them."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.history import History, Place, Write


def lost(history: History) -> Iterator[str]:
    """What was acknowledged survives any crash that the fault model allows."""
    there = {(place, number) for place, final in history.final.items() for _, number in final.everything}
    for write in history.writes:
        final = history.final.get(write.place)
        if not write.acked or final is None or write.place[0] in history.compacted:
            continue
        if write.acks == 1 and any(time > write.sent_at for time in history.losses):
            continue
        if write.offset is not None and write.offset < final.log_start_offset:
            continue
        if (write.place, write.number) not in there:
            where = f"{write.place}@{write.offset}"
            yield f"record {write.number} of {write.client} was acknowledged at {where}, and is gone"


def duplicated(history: History) -> Iterator[str]:
    """However often a batch was sent, it is in the log once (I21)."""
    for place, final in history.final.items():
        for number, count in Counter(number for _, number in final.everything).items():
            if count > 1 and not _may_stand(history, history.writes[number], count):
                yield f"record {number} stands {count} times in {place}"


def _may_stand(history: History, write: Write, times: int) -> bool:
    """A client without a producer id, or forgotten since, is not recognised on a retry (KIP-854)."""
    if times > write.sends:
        return False
    if not write.idempotent:
        return True
    if write.transaction is not None:
        return False
    forgets_ms = history.forgets_producers_ms
    if forgets_ms is not None and (write.last_sent_s - write.first_sent_s) * 1000 >= forgets_ms:
        return True
    return _was_forgotten_in_silence(history, write)


def _was_forgotten_in_silence(history: History, write: Write) -> bool:
    """A copy that was late by a second or so came to a broker that had restarted meanwhile with a shorter age for
    producers, and whose clock had been set forward since this one was last used there: so it is old enough (seed
    30001070). That is judged by that clock, and by all that is known to have been appended, not by this write alone."""
    silence = history.silence
    if silence is None or write.last_sent_s < silence.since_s:
        return False
    used_s = max(
        other.first_sent_s
        for other in history.writes
        if other is write or (other.acked and (other.place, other.producer_id) == (write.place, write.producer_id))
    )
    return silence.age_ms(used_s, write.last_sent_s) >= silence.expiration_ms


def out_of_order(history: History) -> Iterator[str]:
    """Records of one producer and epoch stand in the order of their sequences (I46)."""
    for place, final in history.final.items():
        last: dict[tuple[int, int], int] = {}
        for offset, number in final.everything:
            write = history.writes[number]
            if _may_stand(history, write, 2) or not write.idempotent:
                continue  # a late copy, of which the first may be trimmed or compacted away
            producer = (write.producer_id, write.producer_epoch)
            if write.sequence <= last.get(producer, -1):
                yield f"{_where(place, offset)}: sequence {write.sequence} behind {last[producer]} of {producer}"
            last[producer] = write.sequence


def overtaken(history: History) -> Iterator[str]:
    """What was refused because a later batch of its producer had been let in does not stand in front of that one."""
    for place, final in history.final.items():
        refused: set[tuple[int, int]] = set()
        for offset, number in final.everything:
            write = history.writes[number]
            producer = (write.producer_id, write.producer_epoch)
            if write.overtaken:
                refused.add(producer)
            elif producer in refused:
                yield f"{_where(place, offset)}: in front of it stands what was refused, as out of order, of {producer}"
                refused.remove(producer)


def _where(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
