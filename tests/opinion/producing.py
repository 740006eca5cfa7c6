"""The rules for Produce, and for what stands in a log: sequences, epochs, markers.

A log that was written by the rules obeys them batch by batch; a refusal is judged at every length the log may have had
when the request took place. Requests with a transactional id are judged with the state of their id (`possible`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader
from tests.opinion.batches import same_records, same_sequences
from tests.opinion.evidence import LARGEST, Evidence, Place, Production
from tests.opinion.partition_log import SEQUENCES, PartitionLog, Producer
from tests.opinion.trace import NEVER, PASSING, Exchange

IMPLICIT = 12
"""From this version of Produce on a partition is added to the transaction by its first batch (KIP-890)."""
REFUSALS = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
)


class Verdict(NamedTuple):
    """What a partition says of a batch."""

    code: int
    ongoing: bool
    """A transaction of this very producer and epoch is open: the coordinator is not asked."""
    offset: int = -1
    """Of a repetition: where the first one stands."""
    of_an_older: bool = False
    """Of a repetition: others of the producer stand behind the first one."""


def verdict(known: Producer | None, header: BatchHeader, *, implicit: bool) -> Verdict:
    """Of a log in which the producer has this state. `implicit`: a transaction by the new protocol."""
    if known is None:
        wrong = implicit and header.base_sequence != 0
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if wrong else ErrorCode.NONE, ongoing=False)
    same = header.producer_epoch == known.epoch
    ongoing = known.open and same
    if same:
        for first, last, base in known.batches:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return Verdict(ErrorCode.NONE, ongoing, base, base != known.batches[-1][2])
    if header.producer_epoch < known.epoch:
        return Verdict(ErrorCode.INVALID_PRODUCER_EPOCH, ongoing)
    if header.base_sequence != (known.next_sequence() if same else 0):
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ongoing)
    if known.open and not header.is_transactional:
        return Verdict(ErrorCode.INVALID_TXN_STATE, ongoing)
    return Verdict(ErrorCode.NONE, ongoing)


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    for place, log in evidence.logs.items():
        _check_log(evidence, place, log)
    for production in evidence.productions:
        exchange, place, batch, result = production
        if result is None:
            continue
        if batch is None:
            if result.error_code == ErrorCode.NONE:
                evidence.object("produce.unsound", exchange, f"{place}: what is no sound batch was taken")
        elif result.error_code == ErrorCode.NONE:
            _check_taken(evidence, production)
        elif not batch.header.is_transactional:
            _check_refused(evidence, production)


def _check_taken(evidence: Evidence, production: Production) -> None:
    """It stands where the response says, and did not stand there before it was sent."""
    exchange, place, batch, result = production
    offset, log = result.base_offset, evidence.log(place)
    if batch is None or exchange.request.acks == 0 or (exchange.request.acks == 1 and evidence.circumstances.restarts):
        return
    found = log.batches.get(offset)
    was_there = offset < evidence.bounds[place].shortest(exchange.sent)
    if found is None or not (same_sequences(found, batch) if was_there else same_records(found, batch)):
        evidence.object("produce.offset", exchange, f"{place}: something else is at {offset}")
    if log.begin <= offset and offset >= evidence.bounds[place].longest(exchange.received):
        evidence.object("produce.offset", exchange, f"{place}: {offset} is behind what had been sent by then")


def refusals(evidence: Evidence, production: Production) -> list[Verdict] | None:
    """What the partition may say at any moment between sending and receiving; None where that is unknown."""
    exchange, place, batch, result = production
    log, bounds, circumstances = evidence.log(place), evidence.bounds.get(place), evidence.circumstances
    if batch is None or bounds is None or log.begin > 0 or circumstances.forgets_producers:
        return None
    shortest, longest = bounds.shortest(exchange.sent), bounds.longest(exchange.received)
    found: list[Verdict] = []
    if result is not None and result.error_code == ErrorCode.NONE and result.base_offset >= shortest:
        shortest = longest = result.base_offset  # whatever was in front of it then is there still
        if _was_sent_before(evidence, production):  # and is there since, though nobody was shown it
            found.append(Verdict(ErrorCode.NONE, ongoing=False, offset=longest))
    elif longest == NEVER or (circumstances.restarts and _may_be_lost(evidence, production)):
        return None
    implicit = batch.header.is_transactional and exchange.version >= IMPLICIT
    states = log.states_of(batch.header.producer_id, shortest, max(shortest, longest))
    found += [verdict(state, batch.header, implicit=implicit) for state in states]
    if batch.size > evidence.largest.get(place[0], LARGEST):
        return [Verdict(ErrorCode.MESSAGE_TOO_LARGE, one.ongoing) for one in found]
    if _is_waited_for(evidence, production):
        found += [Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, one.ongoing) for one in found if not one.ongoing]
    if circumstances.restarts:  # behind one, a broker may remember no more than the last batch of a producer
        found += [Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, one.ongoing) for one in found if one.of_an_older]
    return found


def _was_sent_before(evidence: Evidence, production: Production) -> bool:
    """Whether it is repeated, and the first one was not refused."""
    assert production.batch is not None
    mine = production.batch.header
    return any(
        exchange.sent < production.exchange.sent
        and (header.producer_epoch, header.base_sequence) == (mine.producer_epoch, mine.base_sequence)
        and (result is None or result.error_code in (ErrorCode.NONE, *PASSING))
        for exchange, header, result in evidence.written(production.place, mine.producer_id)
    )


def _is_waited_for(evidence: Evidence, production: Production) -> bool:
    """Whether an earlier batch was refused or is missing: a partition lets in none behind it (KAFKA-14920)."""
    assert production.batch is not None
    mine = production.batch.header
    for exchange, header, result in evidence.written(production.place, mine.producer_id):
        if exchange.sent >= production.exchange.received:
            return False
        lower = header.is_transactional and header.base_sequence < mine.base_sequence
        if lower and (result is None or result.error_code):
            return True
    return False


def _may_be_lost(evidence: Evidence, production: Production) -> bool:
    """Whether a batch of the producer was sent that the log does not have: it may have been in there for a while."""
    assert production.batch is not None
    log, producer_id = evidence.log(production.place), production.batch.header.producer_id
    kept = {(state.epoch, first) for _, state in log.producers.get(producer_id, []) for first, _, _ in state.batches}
    for exchange, header, result in evidence.written(production.place, producer_id):
        if exchange.sent >= production.exchange.received:
            return False
        refused = result is not None and result.error_code not in (ErrorCode.NONE, *PASSING)
        in_log = (header.producer_epoch, header.base_sequence) in kept
        if not refused and not in_log and exchange is not production.exchange:
            return True
    return False


def _check_refused(evidence: Evidence, production: Production) -> None:
    assert production.batch is not None
    code = production.result.error_code
    if code in PASSING or production.batch.header.producer_id < 0:
        return
    found = refusals(evidence, production)
    if found is not None and code not in {one.code for one in found}:
        allowed = sorted({ErrorCode(one.code).name for one in found})
        text = f"{production.place}: {ErrorCode(code).name}; allowed: {allowed}"
        evidence.object("produce.refused", production.exchange, text)


def _check_log(evidence: Evidence, place: Place, log: PartitionLog) -> None:
    source = _sources(evidence, place)
    for producer_id, states in log.producers.items():
        before: Producer | None = None
        for length, state in states:
            batch = log.batches[log.bases[log.index_of(length) - 1]]
            unread = log.begin > 0 and before is not None and not before.batches
            forgetful = unread or evidence.circumstances.forgets_producers
            for rule, text in _wrong(before, batch.header, forgetful):
                evidence.object(rule, source, f"{place}: producer {producer_id} at {batch.base}: {text}")
            before = state


def _wrong(before: Producer | None, header: BatchHeader, forgetful: bool) -> Iterator[tuple[str, str]]:
    """What must not stand behind a producer's batches."""
    if before is None:
        return
    if forgetful and not before.open:  # it may be a stranger by then
        return
    if header.producer_epoch < before.epoch:
        yield "log.epoch", f"epoch {header.producer_epoch} behind {before.epoch}"
        return
    if header.is_control or forgetful:
        return
    same = header.producer_epoch == before.epoch
    expected = before.next_sequence() if same else 0
    if header.base_sequence % SEQUENCES != expected:
        yield "log.sequence", f"sequence {header.base_sequence} where {expected} was due"
    if before.open and not header.is_transactional:
        yield "log.sequence", "a batch outside the open transaction"
    if before.open and not same:
        yield "log.epoch", f"epoch {header.producer_epoch} in an open transaction of {before.epoch}"


def _sources(evidence: Evidence, place: Place) -> Exchange:
    """An exchange that shows the log."""
    shown = [one for one in evidence.of("Fetch", "Produce") if one.response is not None]
    return shown[-1]
