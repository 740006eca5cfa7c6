"""Metrics of topics and partitions: looked at on the broker's loop, a few at a time.

There are as many lines as `MOST_TOPICS` and `MOST_PARTITIONS` say, of the first by name; all together are told
in any case, and how many are not told one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.api.services import Services
from broker.http.metrics.metric import Family, Kind, Metric
from broker.partitions.measured_partition import MeasuredPartition
from broker.partitions.partition import Partition
from coordinator.cluster.leaders import NOBODY

MOST_TOPICS = 500
MOST_PARTITIONS = 2000

_TOPIC, _PARTITION = ("topic",), ("topic", "partition")
_OF_ALL = "; without a topic: of all, of those that were deleted, too."
MESSAGES_IN = Metric(
    "kafka_server_brokertopicmetrics_messagesin_total", Kind.COUNTER, f"Records written{_OF_ALL}", _TOPIC
)
BYTES_IN = Metric(
    "kafka_server_brokertopicmetrics_bytesin_total", Kind.COUNTER, f"Bytes of batches written{_OF_ALL}", _TOPIC
)
BYTES_OUT = Metric(
    "kafka_server_brokertopicmetrics_bytesout_total", Kind.COUNTER, f"Bytes of batches read{_OF_ALL}", _TOPIC
)
START = Metric("kafka_log_log_logstartoffset", Kind.GAUGE, "The first offset of a partition.", _PARTITION)
END = Metric("kafka_log_log_logendoffset", Kind.GAUGE, "The offset that the next record gets.", _PARTITION)
SIZE = Metric("kafka_log_log_size", Kind.GAUGE, "Bytes of a partition's segments.", _PARTITION)
SEGMENTS = Metric("kafka_log_log_numlogsegments", Kind.GAUGE, "Segments of a partition.", _PARTITION)
STABLE_LAG = Metric(
    "tallystick_last_stable_offset_lag",
    Kind.GAUGE,
    "How many offsets open transactions keep from read_committed readers: high watermark less last stable offset.",
    _PARTITION,
)
UNSYNCED = Metric(
    "tallystick_uncommitted_offsets", Kind.GAUGE, "Offsets that are written and not acknowledged yet.", _PARTITION
)
ALL_BYTES = Metric("tallystick_log_bytes", Kind.GAUGE, "Bytes of all segments of all topics.")
WORST_LAG = Metric("tallystick_last_stable_offset_lag_max", Kind.GAUGE, "The largest lag of a last stable offset.")
HELD = Metric("tallystick_held_partitions", Kind.GAUGE, "Partitions with an open transaction.")
PRODUCERS = Metric("tallystick_producer_states", Kind.GAUGE, "Producers that partitions remember, counted in each.")
NOT_TOLD = Metric("tallystick_partitions_not_told", Kind.GAUGE, "Partitions that have no lines of their own here.")
PARTITIONS = Metric("kafka_server_replicamanager_partitioncount", Kind.GAUGE, "Partitions that are open.")
LEADERS = Metric(
    "kafka_server_replicamanager_leadercount", Kind.GAUGE, "The same: a node has none but those that it leads."
)
OFFLINE_REPLICAS = Metric(
    "kafka_server_replicamanager_offlinereplicacount",
    Kind.GAUGE,
    "Partitions that this node leads and whose log is damaged or not open yet.",
)
OFFLINE = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    Kind.GAUGE,
    "The same, and those that no node leads, as this one knows it.",
)
ALL_TOPICS = Metric("kafka_controller_kafkacontroller_globaltopiccount", Kind.GAUGE, "Topics of the cluster.")
ALL_PARTITIONS = Metric(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    Kind.GAUGE,
    "Partitions of all topics, whichever node leads them.",
)

METRICS = (
    *(MESSAGES_IN, BYTES_IN, BYTES_OUT, START, END, SIZE, SEGMENTS, STABLE_LAG, UNSYNCED, ALL_BYTES, WORST_LAG, HELD),
    *(PRODUCERS, NOT_TOLD, PARTITIONS, LEADERS, OFFLINE_REPLICAS, OFFLINE, ALL_TOPICS, ALL_PARTITIONS),
)
_COUNTERS = (MESSAGES_IN, BYTES_IN, BYTES_OUT)


@dataclass(slots=True)
class Line:
    """One partition, as it was when it was looked at."""

    topic: str
    index: int
    start: int
    end: int
    size: int
    segments: int
    stable_lag: int
    unsynced: int


@dataclass(slots=True)
class Look:
    """All of them."""

    lines: list[Line] = field(default_factory=list)
    by_topic: dict[tuple[str, bytes], tuple[int, int, int]] = field(default_factory=dict)
    """Records in, bytes in, bytes out."""
    topics: int = 0
    partitions: int = 0
    open: int = 0
    elsewhere: int = 0
    """Led by other nodes, or by none."""
    led_by_nobody: int = 0
    held: int = 0
    producers: int = 0
    size: int = 0
    worst_lag: int = 0


async def look(services: Services) -> Look:
    """On the loop, with turns for the others."""
    seen, slice_ = Look(), services.environment.time_slice()
    for topic in services.topics.all():
        seen.topics += 1
        seen.partitions += len(topic.partitions)
        counted = [0, 0, 0]
        for partition in topic.partitions.opened():
            _take(seen, partition, counted)
            if slice_.spent():
                await slice_.wait_for_turn()
        for index in topic.partitions.elsewhere():
            seen.elsewhere += 1
            seen.led_by_nobody += services.nodes.leader(topic.topic_id, index)[0] == NOBODY
            if slice_.spent():
                await slice_.wait_for_turn()
        seen.by_topic[topic.name, topic.topic_id] = (counted[0], counted[1], counted[2])
    return seen


def _take(seen: Look, partition: Partition, counted: list[int]) -> None:
    log, producers = partition.log, partition.derived.producers
    size, lag = log.size_bytes, partition.high_watermark - partition.last_stable_offset
    seen.open += 1
    seen.size += size
    seen.producers += len(producers)
    seen.held += bool(producers.open_transactions())
    seen.worst_lag = max(seen.worst_lag, lag)
    if isinstance(partition, MeasuredPartition):
        counted[0] += partition.records_in
        counted[1] += log.bytes_written
        counted[2] += partition.bytes_out
    if len(seen.lines) < MOST_PARTITIONS:
        end, segments = log.end_offset, len(log.segment_bases())
        unsynced = end - partition.high_watermark
        place = partition.topic, partition.index
        seen.lines.append(Line(*place, log.start_offset, end, size, segments, lag, unsynced))


class Totals:
    """Counters of all topics together, which do not fall when one is deleted."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, bytes], tuple[int, int, int]] = {}
        self._gone = [0, 0, 0]

    def of(self, seen: Look) -> list[int]:
        """What was counted of a topic after the last scrape before it was deleted is lost."""
        for gone in self._last.keys() - seen.by_topic.keys():
            for number, value in enumerate(self._last[gone]):
                self._gone[number] += value
        self._last = dict(seen.by_topic)
        return [gone + sum(counts[number] for counts in self._last.values()) for number, gone in enumerate(self._gone)]


def families(seen: Look, totals: Totals) -> Iterator[Family]:
    """See the head of this file."""
    for number, (metric, total) in enumerate(zip(_COUNTERS, totals.of(seen), strict=True)):
        family = Family(metric)
        family.add(total, "")
        for (name, _), counts in list(seen.by_topic.items())[:MOST_TOPICS]:
            family.add(counts[number], name)
        yield family
    of_lines = [(START, "start"), (END, "end"), (SIZE, "size"), (SEGMENTS, "segments")]
    for metric, attribute in [*of_lines, (STABLE_LAG, "stable_lag"), (UNSYNCED, "unsynced")]:
        family = Family(metric)
        for line in seen.lines:
            family.add(getattr(line, attribute), line.topic, str(line.index))
        yield family
    closed = seen.partitions - seen.open - seen.elsewhere
    for metric, value in (
        *((ALL_BYTES, seen.size), (WORST_LAG, seen.worst_lag), (HELD, seen.held), (PRODUCERS, seen.producers)),
        *((NOT_TOLD, seen.open - len(seen.lines)), (PARTITIONS, seen.open), (LEADERS, seen.open)),
        *(
            (OFFLINE_REPLICAS, closed),
            (OFFLINE, closed + seen.led_by_nobody),
            (ALL_TOPICS, seen.topics),
            (ALL_PARTITIONS, seen.partitions),
        ),
    ):
        family = Family(metric)
        family.add(value)
        yield family
