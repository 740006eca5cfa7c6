"""A partition has one owner in a generation, and one at a time."""

from collections.abc import Iterator

from tests.simulation.history import History, Holding, Place


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


def owned_at_once(history: History) -> Iterator[str]:
    """A member of a consumer group is given a partition, one of a streams group a task, when the former owner has given
    it back, or its session is over; and who had it before commits nothing from then on (KIP-848, KIP-1071). What a
    member is told of only when its session may be over, for the log did not take it before, it may never have had."""
    held: dict[tuple[str, Place], list[Holding]] = {}
    for holding in sorted(history.holdings, key=lambda one: one.begin_s):
        before = held.setdefault((holding.group, holding.place), [])
        for other in before if holding.begin_s < holding.end_s else ():
            if other.member != holding.member and other.end_s > holding.begin_s:
                mine, before_me = f"{holding.member}'s at {holding.begin_s}", f"{other.member}'s until {other.end_s}"
                yield f"{holding.place} is {mine}, {before_me}"
        before.append(holding)
    for commit in history.epoch_commits:
        known = [one for one in held.get((commit.group, commit.place), ()) if one.begin_s <= commit.sent_s]
        mine_s = max((holding.begin_s for holding in known if holding.member == commit.member), default=0.0)
        for holding in known:
            # Where the disk may lose what was acknowledged, the group is again as it was before the other came.
            passed_on = holding.begin_s > mine_s and not history.loses
            is_others = holding.member != commit.member and holding.begin_s < min(commit.sent_s, holding.end_s)
            if is_others and (passed_on or commit.sent_s <= holding.end_s):
                yield f"{commit.member} commits {commit.place} at {commit.sent_s}, which is {holding.member}'s"
