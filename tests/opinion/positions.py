"""The rules for ListOffsets and DeleteRecords."""

from typing import Any

from protocol.errors import ErrorCode
from tests.opinion.evidence import Evidence, Place, latest_start
from tests.opinion.fetching import wrong_stable
from tests.opinion.partition_log import PartitionLog
from tests.opinion.trace import NEVER, Exchange

LATEST, EARLIEST = -1, -2
CONSUMER = -1


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    for exchange in evidence.of("ListOffsets", "DeleteRecords"):
        if exchange.response is None:
            continue
        asked = {
            (evidence.place(topic, one.partition_index), one.partition_index): one
            for topic in exchange.request.topics
            for one in topic.partitions
        }
        for topic in exchange.response.topics:
            for found in topic.partitions:
                place = evidence.place(topic, found.partition_index)
                if place is None or place not in evidence.bounds:
                    continue
                wanted = asked[place, found.partition_index]
                if exchange.api == "DeleteRecords":
                    _check_deleted(evidence, exchange, place, wanted.offset, found)
                elif not found.error_code:
                    _check_listed(evidence, exchange, place, wanted.timestamp, found)


def _check_listed(evidence: Evidence, exchange: Exchange, place: Place, timestamp: int, found: Any) -> None:
    log, bounds = evidence.log(place), evidence.bounds[place]
    least, most = bounds.least_watermark(exchange.sent), bounds.longest(exchange.received)
    if most == NEVER or log.begin > 0:
        return
    committed = _is_committed_only(exchange)
    if timestamp == LATEST and not committed:
        if not least <= found.offset <= most:
            evidence.object("list.latest", exchange, f"{place}: {found.offset}, not within {least}..{most}")
    elif timestamp == LATEST:
        start = latest_start(evidence, exchange, place)
        lengths = [length for length in [*log.bases, log.end] if least <= length <= most]
        if all(wrong_stable(log, length, found.offset, 0) for length in lengths) and found.offset > start:
            evidence.object("list.stable", exchange, f"{place}: {found.offset} was never the last stable offset")
    elif timestamp == EARLIEST:
        if found.offset > latest_start(evidence, exchange, place):
            evidence.object("list.earliest", exchange, f"{place}: the log begins at {found.offset}")
    elif timestamp >= 0:
        _check_at_time(evidence, exchange, place, timestamp, found)


def _is_committed_only(exchange: Exchange) -> bool:
    """Whether it asks for what is stable; who is no consumer is told the high watermark all the same."""
    return bool(exchange.request.isolation_level == 1 and exchange.request.replica_id == CONSUMER)


def _check_at_time(evidence: Evidence, exchange: Exchange, place: Place, timestamp: int, found: Any) -> None:
    """The first record that is not older, of what the reader may see."""
    log, bounds = evidence.log(place), evidence.bounds[place]
    if latest_start(evidence, exchange, place) > 0:
        return
    least, most = bounds.least_watermark(exchange.sent), bounds.longest(exchange.received)
    committed = _is_committed_only(exchange)
    allowed = {
        _first_not_older(log, timestamp, log.last_stable(length) if committed else length)
        for length in [*log.bases, log.end]
        if least <= length <= most
    }
    if allowed and found.offset not in allowed:
        evidence.object("list.time", exchange, f"{place}: {found.offset} for {timestamp}; allowed: {sorted(allowed)}")


def _first_not_older(log: PartitionLog, timestamp: int, end: int) -> int:
    for base in log.bases:
        batch = log.batches[base]
        if base >= end:
            break
        if batch.header.max_timestamp < timestamp:
            continue
        first = batch.header.base_offset
        for record in batch.records():
            if record.timestamp_ms >= timestamp:
                offset = base + record.offset - first
                return offset if offset < end else -1
    return -1


def _check_deleted(evidence: Evidence, exchange: Exchange, place: Place, offset: int, found: Any) -> None:
    bounds = evidence.bounds[place]
    least, most = bounds.least_watermark(exchange.sent), bounds.longest(exchange.received)
    if found.error_code == ErrorCode.NONE:
        wanted = offset if offset >= 0 else least
        if not wanted <= found.low_watermark <= most:
            evidence.object("delete.start", exchange, f"{place}: {found.low_watermark}, not within {wanted}..{most}")
    elif found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and 0 <= offset <= least:
        evidence.object("delete.range", exchange, f"{place}: {offset} is no farther than the high watermark {least}")
