"""Offsets that were sent in a transaction are committed with it, or not at all."""

from collections.abc import Iterator

from tests.simulation.history import History


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
    none (KIP-447)."""
    if history.forgets_offsets:
        return
    outputs: dict[tuple[tuple[str, int], int], list[int]] = {}
    for final in history.final.values():
        for _, number in final.committed:
            source = history.writes[number].source
            if source is not None:
                outputs.setdefault(source, []).append(number)
    for (place, offset), numbers in outputs.items():
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


def kept(history: History) -> Iterator[str]:
    """An offset that was committed outside of transactions stands at the last that was acknowledged, or at one that was
    sent since; it may have expired where offsets do."""
    for key, commit in history.commits.items():
        found = history.final_offsets.get(key, -1)
        if found < 0 and history.forgets_offsets:
            continue
        if not commit.acked <= found <= commit.sent:
            yield f"{key} stands at {found}; {commit.acked} was acknowledged and {commit.sent} sent"
