"""A partition has one owner in a generation."""

from collections.abc import Iterator

from tests.simulation.history import History, Place


def two_owners(history: History) -> Iterator[str]:
    """No two members of a generation are told that they own the same partition."""
    if history.forgets_offsets:
        return  # a group without members and offsets is forgotten, and begins again with its first generation
    owners: dict[tuple[str, int, Place], str] = {}
    for told in history.ownerships:
        for place in told.places:
            owner = owners.setdefault((told.group, told.generation, place), told.member)
            if owner != told.member:
                yield f"{place} belongs to {owner} and to {told.member} in generation {told.generation}"
