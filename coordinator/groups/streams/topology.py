"""The topology of a Kafka Streams application, as its members declare it and as the log keeps it.

A subtopology is run as tasks, one for each partition of what it reads. Its internal topics are made by the broker:
repartition topics, which another subtopology writes, and changelogs, which hold the state of its stores.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.groups.held import text_bytes


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic. 0 partitions, 0 copies: what is not said."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Copartitioned:
    """Topics that are to have as many partitions: positions in the lists of their subtopology."""

    sources: tuple[int, ...]
    repartition_sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """See the head of this file."""

    subtopology_id: str
    sources: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartitioned: tuple[Copartitioned, ...]

    @property
    def has_its_copartitioned(self) -> bool:
        """Whether those topics are among the ones that it reads."""
        return all(
            0 <= index < len(topics)
            for one in self.copartitioned
            for indexes, topics in ((one.sources, self.sources), (one.repartition_sources, self.repartition_sources))
            for index in indexes
        )

    def copartitioned_names(self) -> Iterator[tuple[str, ...]]:
        """The names that each group of topics stands for."""
        for one in self.copartitioned:
            sources = (self.sources[index] for index in one.sources)
            yield (*sources, *(self.repartition_sources[index].name for index in one.repartition_sources))


@dataclass(frozen=True, slots=True)
class Topology:
    """Subtopologies in the order in which a member named them; positions in their lists mean something."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]
    required: frozenset[str] = field(init=False, compare=False)
    """The names of all topics that it reads or keeps its state in."""
    readers: Mapping[str, str] = field(init=False, compare=False, hash=False)
    """Topic → the subtopology that reads it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "required", frozenset(_required(self.subtopologies)))
        object.__setattr__(self, "readers", dict(_readers(self.subtopologies)))

    def is_same_as(self, other: "Topology") -> bool:
        """Whether the application is the same, in whatever order it is declared."""
        by_id = [{one.subtopology_id: one for one in topology.subtopologies} for topology in (self, other)]
        return self.epoch == other.epoch and by_id[0] == by_id[1]

    @property
    def held_bytes(self) -> int:
        """What it takes up in memory."""
        held = 500
        for one in self.subtopologies:
            held += 500 + text_bytes(one.subtopology_id) + 100 * len(one.copartitioned)
            held += sum(80 + text_bytes(name) for name in (*one.sources, *one.repartition_sinks))
            for topic in (*one.changelogs, *one.repartition_sources):
                held += 200 + text_bytes(topic.name) + sum(150 + text_bytes(*pair) for pair in topic.configs)
        return held


def _required(subtopologies: Iterable[Subtopology]) -> Iterator[str]:
    for one in subtopologies:
        yield from one.sources
        yield from (topic.name for topic in (*one.repartition_sources, *one.changelogs))


def _readers(subtopologies: Iterable[Subtopology]) -> Iterator[tuple[str, str]]:
    for one in subtopologies:
        yield from ((name, one.subtopology_id) for name in one.sources)
        yield from ((topic.name, one.subtopology_id) for topic in one.repartition_sources)
