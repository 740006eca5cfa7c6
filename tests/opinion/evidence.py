"""The partitions of a trace: what was in them, and how much of it at any moment.

Every batch that a Fetch returns or a Produce with acks=-1 is acknowledged for is part of a log. Of that log there was,
when a request was sent, at least what responses had shown by then; and there was, when it was answered, nothing that
had not yet been sent.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader, CorruptRecords
from tests.opinion.batches import Batch, batches_in, joined, sound_batch
from tests.opinion.partition_log import PartitionLog
from tests.opinion.trace import NEVER, Circumstances, Exchange, Objection, Trace

Place = tuple[str, int]
LARGEST = 1_048_588
"""Bytes of a batch, by default."""
MOVES_THE_START = ("retention.ms", "retention.bytes", "cleanup.policy")


@dataclass(slots=True)
class Bounds:
    """Lengths of one log over time."""

    shown: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(received, length, high watermark, sent) of responses."""
    looked: int = -1
    """When the last request was sent that showed that nothing lies behind what is known. A marker may, that nobody read
    before the log was emptied: then the high watermark is farther on."""
    _ticks: list[int] = field(default_factory=list)
    _lengths: list[tuple[int, int]] = field(default_factory=list)
    _first_sent: list[int] = field(default_factory=list)
    _bases: list[int] = field(default_factory=list)

    def close(self, log: PartitionLog, first_sent: list[int], *, behind: bool = False) -> None:
        """`first_sent`: of each batch of the log, when it was sent first; `behind`: what shows where the log ends may
        be old."""
        self.shown.sort()
        self._ticks = [one[0] for one in self.shown]
        lengths = accumulate((one[1] for one in self.shown), max)
        self._lengths = list(zip(lengths, accumulate((one[2] for one in self.shown), max), strict=True))
        self.looked = max((one[3] for one in self.shown if one[2] == log.end and not behind), default=-1)
        self._bases = [*log.bases, log.end]
        self._first_sent = list(accumulate(first_sent, max))

    def shortest(self, tick: int) -> int:
        """The log was at least so long then."""
        found = bisect_left(self._ticks, tick)
        return self._lengths[found - 1][0] if found else 0

    def least_watermark(self, tick: int) -> int:
        """The high watermark was at least there."""
        found = bisect_left(self._ticks, tick)
        return self._lengths[found - 1][1] if found else 0

    def longest(self, tick: int) -> int:
        """The log was at most so long then; NEVER where nobody looked afterwards."""
        index = bisect_left(self._first_sent, tick)
        return NEVER if index == len(self._first_sent) and tick > self.looked else self._bases[index]


class Production(NamedTuple):
    """One partition of a Produce."""

    exchange: Exchange
    place: Place
    batch: Batch | None
    """None where it is no sound batch."""
    result: Any
    """None where there is no response."""


class Written(NamedTuple):
    """A sound batch of a Produce, and the result of its partition."""

    exchange: Exchange
    header: BatchHeader
    result: Any


@dataclass(slots=True)
class Evidence:
    """See the head of this file. `gather` makes it."""

    trace: Trace
    circumstances: Circumstances
    logs: dict[Place, PartitionLog] = field(default_factory=dict)
    bounds: dict[Place, Bounds] = field(default_factory=dict)
    productions: list[Production] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)
    """Topics that are deleted or compacted."""
    moving: set[str] = field(default_factory=set)
    """Topics of which something else than DeleteRecords may delete records."""
    largest: dict[str, int] = field(default_factory=dict)
    """Topic → the most bytes of a batch, where it is not the default."""
    operated: set[int] = field(default_factory=set)
    """Producer ids for which a client sent WriteTxnMarkers."""
    objections: list[Objection] = field(default_factory=list)
    read: dict[bytes, Batch] = field(default_factory=dict)
    """Sound batches of fetches, by their bytes: many readers are shown the same."""
    _by_api: dict[str, list[Exchange]] = field(default_factory=dict)
    _written: dict[tuple[Place, int], list[Written]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for exchange in self.trace.exchanges:
            self._by_api.setdefault(exchange.api, []).append(exchange)

    def of(self, *apis: str) -> list[Exchange]:
        """The exchanges of these APIs, in the order in which they were sent."""
        if len(apis) == 1:
            return self._by_api.get(apis[0], [])
        return sorted((one for api in apis for one in self._by_api.get(api, ())), key=lambda one: one.sent)

    def place(self, topic: Any, index: int) -> Place | None:
        """Of an entry of a request or response; None where it is not judged."""
        name = getattr(topic, "name", "") or getattr(topic, "topic", "")
        name = name or self.names.get(getattr(topic, "topic_id", b""), "")
        return None if not name or name in self.unjudged or name.startswith("__") else (name, index)

    def log(self, place: Place) -> PartitionLog:
        found = self.logs.get(place)
        if found is None:
            found = self.logs[place] = PartitionLog()
        return found

    def written(self, place: Place, producer_id: int) -> list[Written]:
        """The sound batches of a producer for a partition, in the order of sending. Asked for when all are known."""
        if not self._written:
            for exchange, where, batch, result in self.productions:
                if batch is not None:
                    one = Written(exchange, batch.header, result)
                    self._written.setdefault((where, batch.header.producer_id), []).append(one)
        return self._written.get((place, producer_id), [])

    def object(self, rule: str, exchange: Exchange, text: str) -> None:
        self.objections.append(Objection(rule, exchange, text))


def gather(trace: Trace, circumstances: Circumstances) -> Evidence:
    """Read the whole trace. Contradictions are objections already."""
    evidence = Evidence(trace, circumstances)
    _topics(evidence)
    sources: dict[Batch, Exchange] = {}
    for exchange in evidence.of("Fetch", "Produce", "ListOffsets", "WriteTxnMarkers"):
        if exchange.api == "Fetch":
            _fetched(evidence, exchange, sources)
        elif exchange.api == "WriteTxnMarkers":
            evidence.operated |= {marker.producer_id for marker in exchange.request.markers}
    for exchange in evidence.of("Produce"):
        evidence.productions += _productions(evidence, exchange)
    for production in evidence.productions:
        _produced(evidence, production, sources)
    for place, log in evidence.logs.items():
        for batch, text in log.close():
            evidence.object("log.overlap", sources[batch], f"{place}: {text}")
    first_sent = _first_sent(evidence)
    for place, log in evidence.logs.items():
        bounds = evidence.bounds.setdefault(place, Bounds())
        sent = [first_sent.get((place, _key(log.batches[base])), -1) for base in log.bases]
        bounds.close(log, sent, behind=circumstances.reads_behind)
    return evidence


def _topics(evidence: Evidence) -> None:
    for exchange in evidence.trace.exchanges:
        api, request, response = exchange.api, exchange.request, exchange.response
        if api == "CreateTopics":
            for topic in request.topics:
                _configured(evidence, topic.name, {one.name: one.value for one in topic.configs})
        elif api == "DeleteTopics":
            named = [
                *request.topic_names,
                *(one.name or evidence.names.get(one.topic_id, "") for one in request.topics),
            ]
            evidence.unjudged |= set(named)
        elif api in ("IncrementalAlterConfigs", "AlterConfigs"):
            for one in request.resources:
                _configured(evidence, one.resource_name, {config.name: config.value or "" for config in one.configs})
        if response is not None and api in ("CreateTopics", "Metadata"):
            evidence.names |= {one.topic_id: one.name for one in response.topics if any(one.topic_id) and one.name}


def _configured(evidence: Evidence, topic: str, configs: dict[str, Any]) -> None:
    if "compact" in (configs.get("cleanup.policy") or ""):
        evidence.unjudged.add(topic)
    if "max.message.bytes" in configs:
        evidence.largest[topic] = int(configs["max.message.bytes"] or LARGEST)
    if any(name in configs for name in MOVES_THE_START):
        evidence.moving.add(topic)


def _fetched(evidence: Evidence, exchange: Exchange, sources: dict[Batch, Exchange]) -> None:
    for place, found in fetched(evidence, exchange):
        if found.error_code:
            continue
        bounds = evidence.bounds.setdefault(place, Bounds())
        bounds.shown.append((exchange.received, found.high_watermark, found.high_watermark, exchange.sent))
        try:
            batches = list(batches_in(joined(found.records), evidence.read))
        except CorruptRecords as error:
            if evidence.circumstances.damages_records:
                evidence.unjudged.add(place[0])
            else:
                evidence.object("fetch.bytes", exchange, f"{place}: {error}")
            continue
        for batch in batches:
            sources.setdefault(batch, exchange)
            if text := evidence.log(place).learn(batch):
                evidence.object("log.changed", exchange, f"{place}: {text}")


def fetched(evidence: Evidence, exchange: Exchange) -> Iterator[tuple[Place, Any]]:
    """The judged partitions of a Fetch's response."""
    for topic in exchange.response.responses if exchange.response is not None else ():
        for partition in topic.partitions:
            if (place := evidence.place(topic, partition.partition_index)) is not None:
                yield place, partition


def _productions(evidence: Evidence, exchange: Exchange) -> Iterator[Production]:
    results = {}
    for topic in exchange.response.responses if exchange.response is not None else ():
        for one in topic.partition_responses:
            results[evidence.place(topic, one.index), one.index] = one
    for topic in exchange.request.topic_data:
        for partition in topic.partition_data:
            if (place := evidence.place(topic, partition.index)) is not None:
                batch = sound_batch(joined(partition.records))
                yield Production(exchange, place, batch, results.get((place, partition.index)))


def _produced(evidence: Evidence, production: Production, sources: dict[Batch, Exchange]) -> None:
    """What is acknowledged is in the log."""
    exchange, place, batch, result = production
    if batch is None or result is None or result.error_code != ErrorCode.NONE or result.base_offset < 0:
        return
    if exchange.request.acks == -1 or not evidence.circumstances.restarts:
        placed = batch.at(result.base_offset)
        sources.setdefault(placed, exchange)
        evidence.log(place).learn(placed)  # a contradiction is the matter of `producing`
        durable = placed.next if exchange.request.acks == -1 else 0
        evidence.bounds.setdefault(place, Bounds()).shown.append((exchange.received, placed.next, durable, -1))


def latest_start(evidence: Evidence, exchange: Exchange, place: Place) -> int:
    """The log began at most there when the response came."""
    if place[0] in evidence.moving or evidence.circumstances.deletes_old_records:
        return NEVER
    farthest = 0
    for other in evidence.of("DeleteRecords"):
        if other.sent >= exchange.received:
            break
        for topic in other.request.topics:
            for one in topic.partitions:
                if evidence.place(topic, one.partition_index) == place:
                    to_the_end = evidence.bounds[place].longest(exchange.received)
                    farthest = max(farthest, one.offset if one.offset >= 0 else to_the_end)
    return farthest


def _key(batch: Batch) -> Any:
    header = batch.header
    if header.is_control:
        return "marker", header.producer_id, header.producer_epoch, batch.commit
    if header.producer_id < 0:
        return batch.body
    return header.producer_id, header.producer_epoch, header.base_sequence


def _first_sent(evidence: Evidence) -> dict[tuple[Place, Any], int]:
    """When each batch, and the request for each marker that commits, was sent first."""
    found: dict[tuple[Place, Any], int] = {}
    commits: dict[Any, int] = {}
    for exchange, place, batch, _ in evidence.productions:
        if batch is not None:
            found.setdefault((place, _key(batch)), exchange.sent)
    for exchange in evidence.of("EndTxn"):
        request = exchange.request
        if request.committed:
            epoch = request.producer_epoch + (exchange.version >= 5)
            commits.setdefault(("marker", request.producer_id, epoch, True), exchange.sent)
    for place, log in evidence.logs.items():
        found |= {(place, _key(log.batches[base])): commits.get(_key(log.batches[base]), -1)
                  for base in log.bases if log.batches[base].commit and
                  log.batches[base].header.producer_id not in evidence.operated}  # fmt: skip
    return found
