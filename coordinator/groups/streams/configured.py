"""A topology over the topics that there are: how many tasks it has, what topics are to be made, what is wrong.

The number of partitions of a repartition topic is the largest of what the subtopologies that write it read; where it is
copartitioned with other topics, theirs. A changelog has one partition for each task.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.streams.topology import InternalTopic, Subtopology, Topology
from protocol.errors import ErrorCode

SHOWN = 3
"""So many of the missing topics are named."""


class Status(IntEnum):
    """What a member is told beside its tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a topology cannot be run yet."""

    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """See the head of this file."""

    tasks: Mapping[str, int] = field(default_factory=dict)
    """Subtopology → how many tasks it has; none where the topics are not as they must be."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Internal topic → how many partitions it has or is to have; likewise."""
    to_create: tuple[InternalTopic, ...] = ()
    """With the number of their partitions."""
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unfit(Exception):
    """The topics that there are do not do."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configured(topology: Topology, topics: GroupTopics) -> ConfiguredTopology:
    """The topology as it can be run now. Raises `Refusal` where it can never be."""
    try:
        counts = _repartition_counts(topology, _source_counts(topology, topics))
        tasks = {one.subtopology_id: _task_count(one, counts) for one in topology.subtopologies}
        return _with_internal_topics(topology, topics, counts, tasks)
    except _Unfit as unfit:
        return ConfiguredTopology(problem=unfit.problem)


def _source_counts(topology: Topology, topics: GroupTopics) -> dict[str, int]:
    """Of all topics that are no internal ones. Raises `_Unfit`."""
    counts, missing = {}, []
    for name in sorted({name for one in topology.subtopologies for name in one.sources}):
        topic = topics.by_name(name)
        if topic is None:
            missing.append(name)
        else:
            counts[name] = topic.partition_count
    if missing:
        raise _Unfit(Status.MISSING_SOURCE_TOPICS, f"Source topics {', '.join(missing)} are missing.")
    return counts


# -- repartition topics ----------------------------------------------------------------------------------------------


def _repartition_counts(topology: Topology, sources: Mapping[str, int]) -> dict[str, int]:
    """The number of partitions of all that is read. Raises `_Unfit` and `Refusal`."""
    counts = dict(sources)
    repartition = {topic.name: topic for one in topology.subtopologies for topic in one.repartition_sources}
    counts.update((name, topic.partitions) for name, topic in repartition.items() if topic.partitions > 0)
    waiting = [name for name in repartition if name not in counts]
    writers = {name: [one for one in topology.subtopologies if name in one.repartition_sinks] for name in waiting}
    if not all(writers.values()):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    while waiting:
        found = {}
        for name in waiting:
            read = {topic for writer in writers[name] for topic in _read_by(writer)}
            if all(topic in counts for topic in read):
                found[name] = max((counts[topic] for topic in read), default=0)
        if not found:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved."
            )
        counts |= found
        waiting = [name for name in waiting if name not in found]
    for one in topology.subtopologies:
        for names in one.copartitioned_names():
            _copartition(names, repartition, counts)
    return counts


def _read_by(subtopology: Subtopology) -> list[str]:
    return [*subtopology.sources, *(topic.name for topic in subtopology.repartition_sources)]


def _copartition(names: Iterable[str], repartition: Mapping[str, InternalTopic], counts: dict[str, int]) -> None:
    """Topics of one group have as many partitions; those of repartition topics that say none are free."""
    names = sorted(set(names))
    internal = [name for name in names if name in repartition]
    sources = {name: counts[name] for name in names if name not in repartition}
    if len(set(sources.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sources.items())
        raise _Unfit(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    fixed = {name: repartition[name].partitions for name in internal if repartition[name].partitions > 0}
    if sources:
        wanted = next(iter(sources.values()))
        for name, count in fixed.items():
            if count != wanted:
                raise _Unfit(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{count}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{wanted}] of the source topic.",
                )
    elif len(set(fixed.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in fixed.items())
        raise _Unfit(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    else:
        wanted = next(iter(fixed.values()), max((counts[name] for name in internal), default=0))
    counts.update(dict.fromkeys(internal, wanted))


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)


# -- tasks and internal topics ---------------------------------------------------------------------------------------


def _task_count(subtopology: Subtopology, counts: Mapping[str, int]) -> int:
    read = _read_by(subtopology)
    if not read:
        raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts[name] for name in read)


def _with_internal_topics(
    topology: Topology, topics: GroupTopics, counts: Mapping[str, int], tasks: Mapping[str, int]
) -> ConfiguredTopology:
    """Raises `_Unfit` where one has another number of partitions than it must."""
    internal: dict[str, InternalTopic] = {}
    wanted: dict[str, int] = {}
    for one in topology.subtopologies:
        for topic in one.repartition_sources:
            internal[topic.name], wanted[topic.name] = topic, counts[topic.name]
        for topic in one.changelogs:
            internal[topic.name], wanted[topic.name] = topic, tasks[one.subtopology_id]
    to_create = []
    for name in sorted(internal):
        present = topics.by_name(name)
        if present is None:
            topic = internal[name]
            to_create.append(InternalTopic(name, wanted[name], topic.replication_factor, topic.configs))
        elif present.partition_count != wanted[name]:
            raise _Unfit(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted[name]}, "
                f"found {present.partition_count}",
            )
    if not to_create:
        return ConfiguredTopology(tasks, wanted)
    named = ", ".join(topic.name for topic in to_create[:SHOWN])
    more = f" and {len(to_create) - SHOWN} additional topics" if len(to_create) > SHOWN else ""
    problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {named}{more}")
    return ConfiguredTopology({}, {}, tuple(to_create), problem)
