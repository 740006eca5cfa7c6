"""Offsets that were sent in a transaction are committed with it, or not at all."""

from collections.abc import Iterator

from tests.simulation.history import CameBack, History, Place


def apart(history: History) -> Iterator[str]:
    """The committed offset of a group is one that some transaction sent which could be committed (I37)."""
    possible: dict[tuple[str, str, int], set[int]] = {}
    for transaction in history.transactions:
        if transaction.outcome is not False and transaction.decision is True:
            for key, offset in transaction.offsets.items():
                possible.setdefault(key, set()).add(offset)
    for key, offset in history.final_offsets.items():
        if key in history.commits:
            continue
        if offset not in possible.get(key, set()):
            yield f"{key} is committed at {offset}; only {sorted(possible.get(key, ()))} could be"


def processed_once(history: History) -> Iterator[str]:
    """Consume, transform, produce: of every input before the committed offset there is one output, of the others
    none (KIP-447). A worker that a crash sent back to an earlier start of the log, behind what it had committed, may
    process once more what came back: `auto.offset.reset=earliest` is where exactly-once ends."""
    if history.forgets_offsets:
        return
    outputs, came_back = _outputs(history), list(_came_back(history))
    for (place, offset), numbers in outputs.items():
        last_made_at = max(history.writes[number].sent_at for number in numbers)
        if any(one.time < last_made_at and offset in one.offsets for one in came_back if one.place == place):
            continue
        if len(numbers) > 1:
            yield f"{place}@{offset} was processed {len(numbers)} times: records {numbers}"
        committed = history.final_offsets.get(("workers", *place), 0)
        if offset >= committed:
            yield f"{place}@{offset} was processed, and the group stands at {committed}"
    for (group, topic, partition), committed in history.final_offsets.items():
        found = history.final.get((topic, partition))
        if group != "workers" or found is None:
            continue
        begin = max(found.log_start_offset, history.told_start((topic, partition)))
        for offset, number in found.committed:
            if begin <= offset < committed and ((topic, partition), offset) not in outputs:
                yield f"record {number} at {topic}-{partition}@{offset} has no output; the group stands at {committed}"


def _outputs(history: History) -> dict[tuple[Place, int], list[int]]:
    """Of each input, by place and offset, the numbers of what was made of it and is committed."""
    found: dict[tuple[Place, int], list[int]] = {}
    for final in history.final.values():
        for _, number in final.committed:
            source = history.writes[number].source
            if source is not None:
                found.setdefault(source, []).append(number)
    return found


def _came_back(history: History) -> Iterator[CameBack]:
    """What came back for a worker; other readers may read twice what they like."""
    workers = {write.client for write in history.writes if write.source is not None}
    for reading in history.readings:
        if any(reading.reader.startswith(f"{worker}-") for worker in workers):
            yield from reading.came_back


def kept(history: History) -> Iterator[str]:
    """An offset that was committed outside of transactions stands at the last that was acknowledged, or at one that was
    sent since; it may have expired where offsets do."""
    for key, commit in history.commits.items():
        found = history.final_offsets.get(key, -1)
        if found < 0 and history.forgets_offsets:
            continue
        if not commit.acked <= found <= commit.sent:
            yield f"{key} stands at {found}; {commit.acked} was acknowledged and {commit.sent} sent"
