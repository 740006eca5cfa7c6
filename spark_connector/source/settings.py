"""The options of the source, read once: a table with the stock connector's names, and the values as one object."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connector.access import Access, access_of
from spark_connector.errors import BadOption
from spark_connector.formats.registry import FORMATS
from spark_connector.options import CLUSTER, Option, int32, number, one_of, read_options, text
from spark_connector.source.ranges import TopicPartition
from spark_connector.stock_settings import OF_THE_SOURCE, REFUSED_BY_THE_SOURCE

EARLIEST_OR_LATEST = {"earliest": -2, "latest": -1}


def flag(given: str) -> int:
    return int(one_of("true", "false")(given) == "true")


def count(given: str) -> int:
    value = int(given)
    if value < 0:
        raise ValueError("below zero")
    return value


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(given: str) -> int:
    """`90s`, `15m`; a bare number is milliseconds, as in Spark."""
    digits = given.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = given.strip()[len(digits) :] or "ms"
    if unit not in _UNITS_MS:
        raise ValueError(f"not one of {', '.join(_UNITS_MS)}")
    return int(digits) * _UNITS_MS[unit]


SOURCE = (
    *CLUSTER,
    Option("subscribe", None, text, "topics, with commas between"),
    Option("subscribePattern", None, text, "a regular expression that whole names of topics match"),
    Option("assign", None, text, '{"topic": [0, 1]}: these partitions and no others'),
    Option("startingOffsets", None, text, 'earliest, latest or {"topic": {"0": 5, "1": -2}}; -2 earliest, -1 latest'),
    Option("startingTimestamp", None, count, "the first record of this time (ms) or later, in all partitions"),
    Option("startingOffsetsByTimestamp", None, text, '{"topic": {"0": 1700000000000}}'),
    Option("startingOffsetsByTimestampStrategy", "error", one_of("error", "latest"), "where no record is that late"),
    Option("endingOffsets", "latest", text, "batch only: as startingOffsets, without earliest"),
    Option("endingTimestamp", None, count, "batch only: just before the first record of this time (ms) or later"),
    Option("endingOffsetsByTimestamp", None, text, "batch only: the same by partition"),
    Option("failOnDataLoss", 1, flag, "whether offsets that are gone end the query"),
    Option("maxOffsetsPerTrigger", 0, number, "stream only: offsets per micro-batch, shared by backlog"),
    Option("maxBytesPerTrigger", 0, number, "stream only: bytes of record batches per micro-batch, about"),
    Option("minOffsetsPerTrigger", 0, number, "stream only: wait until there are so many, or maxTriggerDelay is over"),
    Option("maxTriggerDelay", 900_000, duration, "how long minOffsetsPerTrigger may wait"),
    Option("minPartitions", 0, number, "tasks at least; ranges are cut between record batches"),
    Option("maxRecordsPerPartition", 0, number, "offsets per task at most, give or take a record batch"),
    Option("includeHeaders", 0, flag, "a column headers"),
    Option("includeTransactions", 0, flag, "columns producerId, producerEpoch, sequence, transactional"),
    Option("includeBytes", 0, flag, "columns keyBytes and valueBytes: key and value as they came"),
    Option("reportGaps", 0, flag, "batch only: what offsets without records were, in place of the records"),
    Option("valueFormat", "binary", one_of("binary", *FORMATS), "what values are; the column value is typed then"),
    Option("keyFormat", "binary", one_of("binary", *FORMATS), "the same for keys"),
    Option("schema.registry.url", None, text, "http://host:8081, several with commas between"),
    Option("schema.registry.basic.auth.user.info", None, text, "name:password"),
    Option("valueSubject", None, text, "the subject whose latest schema values are read as; <topic>-value by default"),
    Option("keySubject", None, text, "the same for keys; <topic>-key by default"),
    Option("valueMessage", None, text, "Protobuf: full name of the message; the file's first by default"),
    Option("keyMessage", None, text, "the same for keys"),
    Option(
        "decodeErrors", "fail", one_of("fail", "null"), "what becomes of a key or value that is not what it should be"
    ),
    Option("kafkaConsumer.pollTimeoutMs", 120_000, number, "how long a read without progress is waited for"),
    Option("kafka.isolation.level", "read_committed", one_of("read_committed", "read_uncommitted"), "what is shown"),
    Option("kafka.max.partition.fetch.bytes", 4 << 20, int32, "bytes per fetch"),
    Option("kafka.fetch.max.wait.ms", 500, int32, "how long a broker may wait for records that are not there"),
    Option("kafka.check.crcs", 1, flag, "compare checksums"),
)

_STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger")
_BATCH_ONLY = ("endingTimestamp", "endingOffsetsByTimestamp", "reportGaps")

_FORMAT_OPTIONS = (
    *(f"{column}{what}" for column in ("key", "value") for what in ("Format", "Subject", "Message")),
    "schema.registry.url",
    "schema.registry.basic.auth.user.info",
    "decodeErrors",
)

ByPartition = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: one offset or time for all partitions, or one for each."""

    by_time: bool
    everywhere: int | None = None
    by_partition: ByPartition | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All options, as values."""

    access: Access
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[TopicPartition, ...] | None
    begin: Bound
    end: Bound
    late_begin_is_latest: bool
    fail_on_data_loss: bool
    max_offsets: int
    max_bytes: int
    min_offsets: int
    max_delay_ms: int
    min_partitions: int
    max_records: int
    headers: bool
    transactions: bool
    bytes_too: bool
    report_gaps: bool
    formats: Mapping[str, str | None]
    """Those of the options that say how keys and values are read."""
    patience_ms: int
    read_committed: bool
    fetch_bytes: int
    fetch_wait_ms: int
    check_crcs: bool


def settings_of(given: Mapping[str, str], *, stream: bool | None = None) -> Settings:
    """Read the options of a source; `stream` says what for, None where that is not known yet. Raises `BadOption`."""
    read: dict[str, Any] = read_options(SOURCE, given, without_effect=OF_THE_SOURCE, refused=REFUSED_BY_THE_SOURCE)
    misplaced = _BATCH_ONLY if stream else _STREAM_ONLY if stream is not None else ()
    for name in misplaced:
        if read[name]:
            raise BadOption(f"option {name} is of no use in a {'stream' if stream else 'batch'}: leave it out")
    topics, assigned = _subscription(read)
    return Settings(
        access=access_of(read),
        topics=topics,
        pattern=read["subscribePattern"],
        assigned=assigned,
        begin=_begin(read, stream),
        end=_bound(read, "ending", "endingOffsets", forbidden="earliest"),
        late_begin_is_latest=read["startingOffsetsByTimestampStrategy"] == "latest",
        fail_on_data_loss=bool(read["failOnDataLoss"]),
        max_offsets=read["maxOffsetsPerTrigger"],
        max_bytes=read["maxBytesPerTrigger"],
        min_offsets=read["minOffsetsPerTrigger"],
        max_delay_ms=read["maxTriggerDelay"],
        min_partitions=read["minPartitions"],
        max_records=read["maxRecordsPerPartition"],
        headers=bool(read["includeHeaders"]),
        transactions=bool(read["includeTransactions"]),
        bytes_too=bool(read["includeBytes"]),
        report_gaps=bool(read["reportGaps"]),
        formats={name: read[name] for name in _FORMAT_OPTIONS},
        patience_ms=read["kafkaConsumer.pollTimeoutMs"],
        read_committed=read["kafka.isolation.level"] == "read_committed",
        fetch_bytes=read["kafka.max.partition.fetch.bytes"],
        fetch_wait_ms=read["kafka.fetch.max.wait.ms"],
        check_crcs=bool(read["kafka.check.crcs"]),
    )


def _subscription(read: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[TopicPartition, ...] | None]:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if read[name]]
    if len(chosen) != 1:
        raise BadOption(f"one of subscribe, subscribePattern and assign says what is read; given: {chosen or 'none'}")
    if read["assign"]:
        try:
            named = json.loads(read["assign"])
            assigned = sorted({(str(topic), int(one)) for topic, partitions in named.items() for one in partitions})
        except (ValueError, TypeError, AttributeError):
            raise BadOption(f'option assign={read["assign"]}: wanted is {{"topic": [0, 1]}}') from None
        return tuple(dict.fromkeys(topic for topic, _partition in assigned)), tuple(assigned)
    if read["subscribePattern"]:
        try:
            re.compile(read["subscribePattern"])
        except re.error as error:
            raise BadOption(f"option subscribePattern={read['subscribePattern']}: {error}") from None
    names = [name.strip() for name in (read["subscribe"] or "").split(",")]
    return tuple(dict.fromkeys(name for name in names if name)), None


def _begin(read: dict[str, Any], stream: bool | None) -> Bound:
    if stream:
        return _bound(read | {"startingOffsets": read["startingOffsets"] or "latest"}, "starting", "startingOffsets")
    offsets = read["startingOffsets"] or "earliest"
    return _bound(
        read | {"startingOffsets": offsets}, "starting", "startingOffsets", forbidden="" if stream is None else "latest"
    )


def _bound(read: Mapping[str, Any], side: str, name: str, *, forbidden: str = "") -> Bound:
    """Precedence as in the stock source: one time for all, then times by partition, then offsets."""
    if read[f"{side}Timestamp"] is not None:
        return Bound(by_time=True, everywhere=read[f"{side}Timestamp"])
    if read[f"{name}ByTimestamp"]:
        return Bound(by_time=True, by_partition=_by_partition(f"{name}ByTimestamp", read[f"{name}ByTimestamp"]))
    given = str(read[name]).strip()
    if given.lower() == forbidden:
        raise BadOption(f"option {name}={given} would read nothing: leave it out, or name offsets")
    if given.lower() in EARLIEST_OR_LATEST:
        return Bound(by_time=False, everywhere=EARLIEST_OR_LATEST[given.lower()])
    return Bound(by_time=False, by_partition=_by_partition(name, given))


def _by_partition(name: str, given: str) -> ByPartition:
    try:
        read = json.loads(given)
        return {
            (str(topic), int(partition)): int(value)
            for topic, partitions in read.items()
            for partition, value in partitions.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise BadOption(f'option {name}={given}: wanted is {{"topic": {{"0": 5}}}}') from None
