"""The topics of the cluster, as consumer groups look at them while they decide.

Records of a group name topics by id (what a member has) or by name (what it wants). Replay never looks here.
"""

from dataclasses import dataclass
from typing import Protocol

NAMES_MOST = 10_000
"""How many topics a member may name: all are looked at in one step. Kafka takes any number."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as it is now. `racks` are those of the brokers that have each partition, in order."""

    name: str
    topic_id: bytes
    partition_count: int
    racks: tuple[str, ...] = ()


class GroupTopics(Protocol):
    """Implemented by `broker`, and by tests."""

    @property
    def revision(self) -> int:
        """Counts changes of topics in this process: created, grown, deleted."""

    @property
    def creations(self) -> int:
        """Counts topics created, likewise."""

    @property
    def offset(self) -> int:
        """Where the metadata log ended with the last of them."""

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: bytes) -> TopicFacts | None: ...


class NoTopics:
    """For a coordinator without a cluster around it."""

    revision = creations = offset = 0

    def by_name(self, name: str) -> TopicFacts | None:
        return None

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        return None
