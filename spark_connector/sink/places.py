"""The partitions of all topics of one transaction, numbered through: where rows are shared out, a place is a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connector.errors import BadRows


@dataclass(frozen=True, slots=True)
class Places:
    """Topics in their order, each with how many partitions it had when the batch began."""

    topics: Sequence[tuple[str, int]]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.topics)

    def begin_of(self, topic: str) -> tuple[int, int]:
        """The place of a topic's partition 0, and how many partitions it has. Raises `BadRows` for another topic."""
        begin = 0
        for name, count in self.topics:
            if name == topic:
                return begin, count
            begin += count
        named = ", ".join(name for name, _ in self.topics)
        raise BadRows(f"a row names the topic {topic}, this writer was given {named}: name it there, too (topics)")

    def place_of(self, where: tuple[str, int]) -> int:
        """The place of a partition."""
        return self.begin_of(where[0])[0] + where[1]

    def where(self, place: int) -> tuple[str, int]:
        """The topic and partition of a place."""
        for name, count in self.topics:
            if place < count:
                return name, place
            place -= count
        raise IndexError(place)

    def by_topic(self, records: Mapping[Any, int]) -> dict[str, dict[str, int]]:
        """Records by place, a number, as they are by topic and partition."""
        found: dict[str, dict[str, int]] = {}
        for place, count in sorted(records.items()):
            topic, partition = self.where(place)
            found.setdefault(topic, {})[str(partition)] = count
        return found
