"""The rules for Fetch: the records of the log, what is stable, what was aborted, how many bytes, in which order.

Whoever names a rack may be answered by a node that follows the leader (KIP-392): what it says is of one moment, which
may be past. Or he is told of that node, and nothing else.
"""

from typing import Any, NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch import HEADER_SIZE, read_header
from tests.opinion.batches import Batch, joined
from tests.opinion.evidence import Evidence, Place, fetched, latest_start
from tests.opinion.partition_log import PartitionLog
from tests.opinion.trace import NEVER, Exchange

CLOCK_SLACK_S = 0.005


class Asked(NamedTuple):
    """One partition of a fetch, as the request or its session says."""

    offset: int
    max_bytes: int
    read_epoch: int = -1
    """The leader epoch that it read last, if it says so (KIP-320): then it may be out of range by that."""


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    sessions: dict[int, dict[Place, Asked]] = {}
    for exchange in sorted(evidence.of("Fetch"), key=lambda one: one.received):
        if exchange.response is None:
            break
        if not exchange.response.error_code and exchange.request.replica_id < 0:
            _check_fetch(evidence, exchange, _asked(evidence, exchange, sessions))


def _asked(evidence: Evidence, exchange: Exchange, sessions: dict[int, dict[Place, Asked]]) -> dict[Place, Asked]:
    """The partitions in the order in which they are to be answered (KIP-227)."""
    request, response = exchange.request, exchange.response
    asked: dict[Place, Asked] = {}
    if request.session_id and request.session_epoch > 0:
        asked = sessions.get(request.session_id, {})
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            if (place := evidence.place(topic, index)) is not None:
                asked.pop(place, None)
    for topic in request.topics:
        for one in topic.partitions:
            if (place := evidence.place(topic, one.partition)) is not None:
                asked[place] = Asked(one.fetch_offset, one.partition_max_bytes, one.last_fetched_epoch)
    if response.session_id:
        sessions[response.session_id] = asked
    return dict(asked)


def _check_fetch(evidence: Evidence, exchange: Exchange, asked: dict[Place, Asked]) -> None:
    total, first = 0, True
    answered = [place for place, found in fetched(evidence, exchange) if not found.error_code]
    in_order = [place for place in asked if place in answered]
    if not exchange.request.session_id and answered != in_order:
        evidence.object("fetch.order", exchange, f"{answered}, where {in_order} were asked for")
    for place, found in fetched(evidence, exchange):
        log, data = evidence.log(place), joined(found.records)
        wanted = asked.get(place)
        if wanted is None:
            evidence.object("fetch.order", exchange, f"{place}: nobody asked for it")
            continue
        if found.error_code:
            _check_error(evidence, exchange, place, wanted, found.error_code)
            continue
        _check_offsets(evidence, exchange, place, found)
        batches = _check_records(evidence, exchange, place, wanted, found, data)
        _check_aborted(evidence, exchange, place, wanted, found, batches)
        room = min(wanted.max_bytes, exchange.request.max_bytes - total)
        if data and len(data) > room and not (first and len(batches) == 1):
            evidence.object("fetch.bytes", exchange, f"{place}: {len(data)} bytes where {max(room, 0)} are allowed")
        if not data and first and not exchange.request.rack_id and _has_data(evidence, exchange, place, wanted, log):
            evidence.object("fetch.nothing", exchange, f"{place}: there was something behind {wanted.offset}")
        first = first and not data
        total += len(data)
    _check_wait(evidence, exchange, total)


def _check_error(evidence: Evidence, exchange: Exchange, place: Place, wanted: Asked, code: int) -> None:
    bounds = evidence.bounds.get(place)
    if code != ErrorCode.OFFSET_OUT_OF_RANGE or bounds is None or wanted.read_epoch >= 0:
        return
    start = latest_start(evidence, exchange, place)
    if start <= wanted.offset <= bounds.least_watermark(exchange.sent):
        evidence.object("fetch.range", exchange, f"{place}: {wanted.offset} is in the log")


def _check_offsets(evidence: Evidence, exchange: Exchange, place: Place, found: Any) -> None:
    """The high watermark is a length of the log at that time, and the last stable offset follows from it."""
    log, bounds = evidence.log(place), evidence.bounds[place]
    high, stable = found.high_watermark, found.last_stable_offset
    least = 0 if exchange.request.rack_id else bounds.least_watermark(exchange.sent)
    most = bounds.longest(exchange.received)
    if not least <= high <= most:
        evidence.object("fetch.watermark", exchange, f"{place}: high watermark {high}, not within {least}..{most}")
    elif (problem := wrong_stable(log, high, stable, found.log_start_offset)) and high <= log.end:
        evidence.object("fetch.stable", exchange, f"{place}: {problem}")


def wrong_stable(log: PartitionLog, high: int, stable: int, start: int) -> str:
    """What is wrong with a last stable offset, if anything."""
    if stable > high:
        return f"last stable offset {stable} beyond the high watermark {high}"
    expected = max(log.last_stable(high), start)
    if stable == expected or log.may_be_held_back(stable, start):
        return ""
    return f"last stable offset {stable} with high watermark {high}; the log says {expected}"


def _check_records(
    evidence: Evidence, exchange: Exchange, place: Place, wanted: Asked, found: Any, data: bytes
) -> list[Batch]:
    """Batches as they stand in the log, without a gap, from the one that holds the offset, up to what may be seen."""
    log = evidence.log(place)
    limit = found.last_stable_offset if exchange.request.isolation_level else found.high_watermark
    batches: list[Batch] = []
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        known = log.batches.get(header.base_offset)
        if known is None or known.size != header.size:
            evidence.object("fetch.records", exchange, f"{place}: the batch at {header.base_offset} is not of the log")
            return batches
        batches.append(known)
        position += header.size
    due = wanted.offset
    for batch in batches:
        begins = batch.base <= due < batch.next if batch is batches[0] else batch.base == due
        if not begins:
            evidence.object("fetch.records", exchange, f"{place}: {batch.base}..{batch.next} where {due} is due")
        due = batch.next
    if batches and due > limit:
        evidence.object("fetch.beyond", exchange, f"{place}: up to {due}, where {limit} is the end")
    return batches


def _check_aborted(
    evidence: Evidence, exchange: Exchange, place: Place, wanted: Asked, found: Any, batches: list[Batch]
) -> None:
    """All aborted transactions that a reader has to know, and none that ends in front of it."""
    if not exchange.request.isolation_level:
        if found.aborted_transactions:
            evidence.object("fetch.aborted", exchange, f"{place}: a list for a reader of everything")
        return
    log = evidence.log(place)
    listed = {(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()}
    aborted = {(one.producer_id, one.first): one for one in log.aborted(wanted.offset)}
    end = batches[-1].next if batches else wanted.offset
    early = {producer_id for producer_id, first in listed if first < log.begin}  # it began in front of what is known
    missing = [
        one
        for one in aborted.values()
        if one.first < end and (one.producer_id, one.first) not in listed and one.producer_id not in early
    ]
    if batches and missing:
        evidence.object("fetch.aborted", exchange, f"{place}: lacks {missing[0].producer_id} at {missing[0].first}")
    unread = {(one.producer_id, one.first) for one in log.transactions if one.marker is None}
    if found.last_stable_offset <= log.end:
        unread = set()  # all markers up to there are known
    for producer_id, first in sorted(listed - aborted.keys() - unread):
        if first >= log.begin:
            evidence.object("fetch.aborted", exchange, f"{place}: {producer_id} at {first} was not aborted behind it")


def _has_data(evidence: Evidence, exchange: Exchange, place: Place, wanted: Asked, log: PartitionLog) -> bool:
    """Whether something to be seen lay behind the position when the request was sent."""
    bounds = evidence.bounds[place]
    least = bounds.least_watermark(exchange.sent)
    if least > log.end or wanted.offset < log.begin or wanted.max_bytes <= 0 or exchange.request.max_bytes <= 0:
        return False
    start = latest_start(evidence, exchange, place)
    if exchange.request.isolation_level and log.may_be_held_back(wanted.offset, start):
        return False
    seen = log.last_stable(least) if exchange.request.isolation_level else least
    return wanted.offset < seen and exchange.received < NEVER


def _check_wait(evidence: Evidence, exchange: Exchange, total: int) -> None:
    """An answer that comes early has something in it; but for a broker that stops, and lets everybody go."""
    request = exchange.request
    if evidence.circumstances.restarts:
        return
    early = exchange.received_s - exchange.sent_s < request.max_wait_ms / 1000 - CLOCK_SLACK_S
    if not early or total or request.min_bytes <= 0 or request.session_id or not request.topics:
        return
    found = [one for topic in exchange.response.responses for one in topic.partitions]
    plain = all(not one.error_code and one.preferred_read_replica < 0 and not joined(one.records) for one in found)
    if found and plain and len(list(fetched(evidence, exchange))) == len(found):
        evidence.object("fetch.early", exchange, f"nothing, {request.max_wait_ms} ms before they are over")
