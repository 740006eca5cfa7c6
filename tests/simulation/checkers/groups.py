"""A partition has one owner in a generation."""

from collections.abc import Iterator

from tests.simulation.history import History, Place


def two_owners(history: History) -> Iterator[str]:
    """No two members of a generation get the same partition. A group that is found without members
    and offsets is forgotten, however short it has been so, and begins again with its first generation (KIP-211). With
    a clock that is set far forward, that may come within a run."""
    if history.forgets_offsets:
        return  # groups are looked at all the time
    owners: dict[tuple[str, int, int, Place], str] = {}
    for ownership in history.ownerships:
        steps = sum(step <= ownership.asked_at for step in history.steps_ahead)
        for place in ownership.places:
            owner = owners.setdefault((ownership.group, ownership.generation, steps, place), ownership.member)
            if owner != ownership.member:
                yield f"{place} belongs to {owner} and to {ownership.member} in generation {ownership.generation}"
