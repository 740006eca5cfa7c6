"""Metrics of groups: what they have committed and how far they are behind, in the names of the common exporter for
Kafka. Looked at on the broker's loop, a few at a time.

There are as many lines as `MOST_PARTITIONS` and `MOST_NAME_BYTES` say, and no more partitions are looked at than
`MOST_LOOKED_AT`: how many have no lines is told. Of several nodes, those that lead partitions are asked where these
end, `MOST_ASKED` of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.api.services import Services
from broker.coordination.across_nodes.peer_ends import Wanted
from broker.http.metrics.metric import Family, Kind, Metric
from broker.http.metrics.records_behind import CountedRecords, Key
from broker.partitions.topic import Topic
from broker.process.time_slice import TimeSlice
from coordinator.groups.offsets import OffsetsOfGroup

MOST_PARTITIONS = 2000
"""Of groups, each of which counts its own."""
MOST_NAME_BYTES = 256 << 10
"""Of groups and topics in those lines: a group may be called by 32 KB."""
MOST_LOOKED_AT = 50_000
MOST_ASKED = 10_000
"""Of other nodes."""
PATIENCE_S = 2.0
"""With other nodes: a scrape does not wait for one that stands still."""

_PLACE = ("consumergroup", "topic", "partition")
OFFSET = Metric("kafka_consumergroup_current_offset", Kind.GAUGE, "The offset that a group has committed.", _PLACE)
LAG = Metric(
    "kafka_consumergroup_lag", Kind.GAUGE, "How many offsets a group is behind: high watermark less committed.", _PLACE
)
RECORDS = Metric(
    "tallystick_consumergroup_lag_records",
    Kind.GAUGE,
    "How many records that is for a reader of committed records: without control records, aborted and open "
    "transactions, as `tallystick explain lag` counts them. Not told beyond 100 000 offsets.",
    _PLACE,
)
LAG_SUM = Metric(
    "kafka_consumergroup_lag_sum",
    Kind.GAUGE,
    "The same as kafka_consumergroup_lag, of all partitions of a topic that the group has committed offsets of and "
    "whose ends are known.",
    ("consumergroup", "topic"),
)
WORST = Metric("tallystick_consumergroup_lag_max", Kind.GAUGE, "The largest lag of a group in a partition, in offsets.")
NOT_TOLD = Metric(
    "tallystick_consumergroup_partitions_not_told",
    Kind.GAUGE,
    "Committed offsets of groups that this node coordinates, which have no lines of their own here: there are more "
    "than are told, or nobody says where their partitions end.",
)
METRICS = (OFFSET, LAG, RECORDS, LAG_SUM, WORST, NOT_TOLD)


@dataclass(slots=True)
class Line:
    """A partition of a group, as it was when it was looked at."""

    key: Key
    committed: int
    lag: int
    records: int | None = None


@dataclass(slots=True)
class Look:
    """All of them."""

    lines: list[Line] = field(default_factory=list)
    elsewhere: list[tuple[Key, int]] = field(default_factory=list)
    """Partitions of groups that other nodes lead, and what was committed."""
    wanted: dict[tuple[str, int], Wanted] = field(default_factory=dict)
    """Those partitions."""
    sums: dict[tuple[str, str], int] = field(default_factory=dict)
    names_bytes: int = 0
    looked_at: int = 0
    offsets: int = 0
    worst: int = 0


async def look(services: Services, counted: CountedRecords) -> Look:
    """On the loop, with turns for the others."""
    seen, slice_ = Look(), services.environment.time_slice()
    for shard in services.groups.all():
        for group, offsets in list(shard.machine.ledger.offsets.committed.items()):
            seen.offsets += len(offsets)
            if seen.looked_at + len(offsets) <= MOST_LOOKED_AT:
                await _of_group(services, seen, group, offsets, slice_)
            if slice_.spent():
                await slice_.wait_for_turn()
    await _ask_others(services, seen, slice_)
    await _count_all(services, seen.lines, counted, slice_)
    return seen


async def _ask_others(services: Services, seen: Look, slice_: TimeSlice) -> None:
    if services.peer_ends is None or not seen.elsewhere:
        return
    ends = await services.peer_ends.of_many(seen.wanted.values(), PATIENCE_S)
    for key, committed in seen.elsewhere:
        end = ends.get(key[1:])
        if end is not None:
            note(seen, key, committed, max(0, end - committed))
        if slice_.spent():
            await slice_.wait_for_turn()


async def _count_all(services: Services, lines: list[Line], counted: CountedRecords, slice_: TimeSlice) -> None:
    counted.begin()
    first = counted.first % len(lines) if lines else 0
    for number in range(len(lines)):
        at = (first + number) % len(lines)
        had_bytes = counted.left_bytes > 0
        await _count(services, lines[at], counted, slice_)
        if had_bytes and counted.left_bytes <= 0:
            counted.first = at + 1


async def _of_group(services: Services, seen: Look, group: str, offsets: OffsetsOfGroup, slice_: TimeSlice) -> None:
    seen.looked_at += len(offsets)
    for (topic, index), stored in list(offsets.items()):
        found = services.topics.by_name(topic)
        if found is not None and stored.is_of(found.topic_id):
            _of_partition(services, seen, (group, topic, index), stored.offset, found)
        if slice_.spent():
            await slice_.wait_for_turn()


def _of_partition(services: Services, seen: Look, key: Key, committed: int, topic: Topic) -> None:
    """One whose topic is still the one that it was committed of. It may not be open here."""
    partition = services.topics.partition(topic.name, key[2])
    if not services.nodes.leads(topic.topic_id, key[2]):
        if len(seen.elsewhere) < MOST_ASKED:
            seen.elsewhere.append((key, committed))
            seen.wanted[key[1:]] = topic, key[2]
    elif partition is not None and not partition.refusal:
        note(seen, key, committed, max(0, partition.high_watermark - committed))


def note(seen: Look, key: Key, committed: int, lag: int) -> None:
    """A partition of a group, as far as there is room for it."""
    seen.worst = max(seen.worst, lag)
    group, topic, _ = key
    size = len(group.encode()) + len(topic)
    if (group, topic) in seen.sums:
        seen.sums[group, topic] += lag
    elif len(seen.sums) < MOST_PARTITIONS and seen.names_bytes + size <= MOST_NAME_BYTES:
        seen.sums[group, topic] = lag
        seen.names_bytes += size
    if len(seen.lines) < MOST_PARTITIONS and seen.names_bytes + size <= MOST_NAME_BYTES:
        seen.lines.append(Line(key, committed, lag))
        seen.names_bytes += size


async def _count(services: Services, line: Line, counted: CountedRecords, slice_: TimeSlice) -> None:
    """Whatever happens to the partition between two reads: it is looked up anew for each."""
    records: int | None = None
    _, topic, index = line.key
    while records is None:
        found, partition = services.topics.by_name(topic), services.topics.partition(topic, index)
        if found is None or partition is None or partition.refusal:
            return
        records = counted.step(line.key, found.topic_id, partition, line.committed)
        if slice_.spent():
            await slice_.wait_for_turn()
    line.records = records if records >= 0 else None


def families(seen: Look) -> Iterator[Family]:
    """See the head of this file."""
    offsets, lags, records, sums = Family(OFFSET), Family(LAG), Family(RECORDS), Family(LAG_SUM)
    for line in seen.lines:
        group, topic, index = line.key
        labels = group, topic, str(index)
        offsets.add(line.committed, *labels)
        lags.add(line.lag, *labels)
        if line.records is not None:
            records.add(line.records, *labels)
    for (group, topic), lag in seen.sums.items():
        sums.add(lag, group, topic)
    yield from (offsets, lags, records, sums)
    for metric, value in ((WORST, seen.worst), (NOT_TOLD, seen.offsets - len(seen.lines))):
        family = Family(metric)
        family.add(value)
        yield family
