"""Errands of share groups that are under way: who was asked last to have a partition initialised is the one whose
answer counts. Whoever was asked before may still be waiting for the share coordinator, and what comes later begins anew
with the partition: nobody is assigned it before.
"""

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.share.answers import Errand


class UnderWay:
    """Those of one machine. One that the log has refused is never begun with, and stays until the next: what it covers
    was dropped for it."""

    def __init__(self) -> None:
        self._errands: dict[str, list[Errand]] = {}
        self._begun: set[str] = set()

    def begin(self, errand: Errand) -> None:
        """It is the last that any of its partitions was asked for with."""
        before = self._errands.get(errand.group_id, [])
        left = [one for one in before if _without(one.partitions, errand.partitions)]
        self._errands[errand.group_id] = [*left, errand]
        self._begun.add(errand.group_id)

    def groups(self) -> set[str]:
        """Those with errands that were begun since this was asked last."""
        begun, self._begun = self._begun, set()
        return begun

    def end(self, errand: Errand) -> Assignment | None:
        """It was answered, of those of its partitions that were not asked for since. None where it is not known."""
        known = self._errands.get(errand.group_id, [])
        at = next((index for index, one in enumerate(known) if one is errand), -1)
        if at < 0:
            return None
        counts = errand.partitions
        for later in known[at + 1 :]:
            counts = _without(counts, later.partitions)
        del known[at]
        if not known:
            del self._errands[errand.group_id]
        return counts

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._errands.pop(group_id, None)


def _without(asked: Assignment, others: Assignment) -> dict[bytes, frozenset[int]]:
    left = {topic_id: of - others.get(topic_id, frozenset()) for topic_id, of in asked.items()}
    return {topic_id: of for topic_id, of in left.items() if of}
