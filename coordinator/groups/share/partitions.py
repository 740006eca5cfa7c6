"""Which partitions the share coordinator keeps for a group, as one record after the other says.

A partition is `initializing` from the moment that the share coordinator is to be asked for it, `initialized` when it
has answered; members are assigned no other. A topic is `deleting` until the share coordinator has forgotten it. Where a
crash has interrupted that, it may be initialised again: that begins anew with it, whatever was kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator.groups.assignors.subject import Assignment
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.share.group import SharedTopic, ShareGroup
from coordinator.groups.share.log_entries import shared_partitions
from coordinator.machine import Record


@dataclass(frozen=True, slots=True)
class Shared:
    """The three of them, on their way to a record."""

    initializing: Mapping[bytes, SharedTopic]
    initialized: Mapping[bytes, SharedTopic]
    deleting: Mapping[bytes, str]

    @classmethod
    def of(cls, group: ShareGroup) -> "Shared":
        return cls(group.initializing, group.initialized, group.deleting)

    def record(self, group_id: str) -> Record:
        return shared_partitions(group_id, self.initializing, self.initialized, self.deleting)

    def begun(self, wanted: Assignment, topics: GroupTopics) -> "Shared":
        """These partitions are to be initialised, perhaps once more."""
        initializing = dict(self.initializing)
        for topic_id, partitions in wanted.items():
            topic = topics.by_id(topic_id)
            if topic is not None:
                initializing[topic_id] = _with(initializing.get(topic_id), topic.name, partitions)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in wanted}
        return Shared(initializing, self.initialized, deleting)

    def done(self, made: Assignment) -> "Shared":
        """The share coordinator keeps these, which it was asked for."""
        initialized = dict(self.initialized)
        for topic_id, partitions in made.items():
            asked = self.initializing.get(topic_id)
            if asked is not None:
                known = partitions & asked.partitions
                initialized[topic_id] = _with(initialized.get(topic_id), asked.name, known)
        return replace(self.given_up(made), initialized=initialized)

    def given_up(self, asked: Assignment) -> "Shared":
        """The share coordinator does not keep these."""
        initializing = dict(self.initializing)
        for topic_id, partitions in asked.items():
            if topic_id in initializing:
                left = initializing[topic_id].partitions - partitions
                initializing[topic_id] = replace(initializing[topic_id], partitions=left)
                if not left:
                    del initializing[topic_id]
        return replace(self, initializing=initializing)

    def leaving(self, topic_ids: Iterable[bytes]) -> "Shared":
        """These topics are to be forgotten by the share coordinator."""
        gone = set(topic_ids)
        names = {
            topic_id: topic.name
            for part in (self.initializing, self.initialized)
            for topic_id, topic in part.items()
            if topic_id in gone
        }
        return Shared(_without(self.initializing, gone), _without(self.initialized, gone), {**self.deleting, **names})

    def forgotten(self, topic_ids: Iterable[bytes]) -> "Shared":
        """Nothing of these topics is kept any more, for the share coordinator has forgotten them, or they are gone."""
        gone = set(topic_ids)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in gone}
        return Shared(_without(self.initializing, gone), _without(self.initialized, gone), deleting)

    def without_deleted(self, topics: GroupTopics) -> "Shared":
        """Topics that no longer exist are forgotten: the share coordinator has noticed by itself."""
        known = {**self.initializing, **self.initialized, **self.deleting}
        gone = [topic_id for topic_id in known if topics.by_id(topic_id) is None]
        return self.forgotten(gone) if gone else self

    def partitions(self, topics: GroupTopics) -> dict[bytes, frozenset[int]]:
        """All that the share coordinator may keep something of. Of a topic that was to be forgotten only the name is
        known: all its partitions."""
        found: dict[bytes, frozenset[int]] = {}
        for part in (self.initializing, self.initialized):
            for topic_id, topic in part.items():
                found[topic_id] = found.get(topic_id, frozenset()) | topic.partitions
        for topic_id in self.deleting:
            known = topics.by_id(topic_id)
            found[topic_id] = frozenset(range(0 if known is None else known.partition_count))
        return found

    def missing(
        self, names: Iterable[str], topics: GroupTopics, since_ms: int, now_ms: int
    ) -> dict[bytes, frozenset[int]]:
        """Of the topics of these names what is to be initialised: what nobody has begun with since then. What was begun
        with later than now, was so before the clock was set back: nobody knows when."""
        wanted = {}
        for name in names:
            topic = topics.by_name(name)
            if topic is None:
                continue
            partitions = frozenset(range(topic.partition_count))
            if (made := self.initialized.get(topic.topic_id)) is not None:
                partitions -= made.partitions
            asked = self.initializing.get(topic.topic_id)
            if asked is not None and since_ms < asked.since_ms <= now_ms:
                partitions -= asked.partitions
            if partitions:
                wanted[topic.topic_id] = partitions
        return wanted


def _with(known: SharedTopic | None, name: str, partitions: frozenset[int]) -> SharedTopic:
    return SharedTopic(name, partitions if known is None else known.partitions | partitions)


def _without(topics: Mapping[bytes, SharedTopic], gone: set[bytes]) -> dict[bytes, SharedTopic]:
    return {topic_id: topic for topic_id, topic in topics.items() if topic_id not in gone}
