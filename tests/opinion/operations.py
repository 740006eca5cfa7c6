"""From an exchange to what it does to a transactional id, and which answers it may get.

An operation gives (answer, state behind it) for a state in front of it. Error codes are those of the wire: what the
coordinator calls PRODUCER_FENCED is INVALID_PRODUCER_EPOCH in older versions and to whoever writes (KAFKA-10687).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from protocol.errors import ErrorCode
from tests.opinion import transitions
from tests.opinion.evidence import Evidence, Place, Production
from tests.opinion.identity import IDLE, PREPARED, Identity, Kind
from tests.opinion.operation import Operation, Results
from tests.opinion.trace import Exchange
from tests.opinion.transitions import FENCED, Answer, Result
from tests.opinion.writing import produces

OFFSETS = "__consumer_offsets"
MEMBERSHIP = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
ABOUT_TOPICS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
NOT_ANY = ErrorCode.OPERATION_NOT_ATTEMPTED
"""A code that no request as a whole is answered with: its partitions have several."""


def _wire(results: Iterable[Result], fenced_as: int) -> Iterator[Result]:
    for answer, after in results:
        yield (Answer(fenced_as) if answer == FENCED else answer), after


def operations_on(evidence: Evidence) -> dict[str, list[Operation]]:
    """Transactional id → what was requested of it, in the order of sending."""
    found: dict[str, list[Operation]] = {}
    by_exchange: dict[tuple[int, Place], Production] = {
        (one.exchange.sent, one.place): one for one in evidence.productions
    }
    for exchange in evidence.trace.exchanges:
        if (make := MAKERS.get(exchange.api)) is not None:
            for name, operation in make(evidence, exchange):
                if name:
                    found.setdefault(name, []).append(operation)
        elif exchange.api == "Produce" and exchange.request.transactional_id:
            made = produces(evidence, exchange, by_exchange)
            found.setdefault(exchange.request.transactional_id, []).extend(made)
    return found


Made = Iterator[tuple[str, Operation]]


def _init(evidence: Evidence, exchange: Exchange) -> Made:
    request, response, circumstances = exchange.request, exchange.response, evidence.circumstances
    seen = response and Answer(response.error_code, response.producer_id, response.producer_epoch)
    expected = (request.producer_id, request.producer_epoch)
    fresh = response.producer_id if response is not None else -1

    def results(known: Identity) -> Iterator[Result]:
        if (expected[0] == -1) != (expected[1] == -1):
            return iter([(Answer(ErrorCode.INVALID_REQUEST), known)])
        if not 0 < request.transaction_timeout_ms <= circumstances.longest_timeout_ms:
            return iter([(Answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT), known)])
        found = transitions.initialized(known, expected, request.transaction_timeout_ms, fresh, circumstances)
        return _wire(found, ErrorCode.INVALID_PRODUCER_EPOCH if exchange.version <= 3 else ErrorCode.PRODUCER_FENCED)

    if request.transactional_id and not request.enable_2pc:
        yield request.transactional_id, Operation(exchange, seen, results, claims=expected)


def _add(evidence: Evidence, exchange: Exchange) -> Made:
    request, response = exchange.request, exchange.response
    if exchange.version >= 4:
        yield from _add_as_a_broker(exchange)
        return
    partitions = frozenset((topic.name, one) for topic in request.v3_and_below_topics for one in topic.partitions)
    codes = {one.partition_error_code for topic in (response.results_by_topic_v3_and_below if response else ())
             for one in topic.results_by_partition}  # fmt: skip
    seen = None if response is None else Answer(_one_of(codes - {ErrorCode.OPERATION_NOT_ATTEMPTED}))
    producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    yield request.v3_and_below_transactional_id, _adding(exchange, seen, producer, partitions)


def _adding(
    exchange: Exchange, seen: Answer | None, producer: tuple[int, int], partitions: frozenset[tuple[str, int]]
) -> Operation:
    fenced_as = ErrorCode.INVALID_PRODUCER_EPOCH if exchange.version <= 1 else ErrorCode.PRODUCER_FENCED
    return Operation(
        exchange,
        seen,
        lambda known: _wire(transitions.added(known, producer, partitions, exchange.sent_s), fenced_as),
    )


def _one_of(codes: set[int]) -> int:
    """The code that all partitions have; partitions that nobody knows make the others fail too."""
    if codes <= ABOUT_TOPICS:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return codes.pop() if len(codes) == 1 else NOT_ANY


def _add_as_a_broker(exchange: Exchange) -> Made:
    """Versions 4 and up: several ids at once, to ask or to add."""
    response = exchange.response
    answered = {
        (one.transactional_id, topic.name, result.partition_index): result.partition_error_code
        for one in (response.results_by_transaction if response else ())
        for topic in one.topic_results
        for result in topic.results_by_partition
    }
    unknown = {(name, code) for (name, _, _), code in answered.items() if code in ABOUT_TOPICS}
    for one in exchange.request.transactions:
        producer = (one.producer_id, one.producer_epoch)
        for topic in one.topics:
            for index in topic.partitions:
                code = answered.get((one.transactional_id, topic.name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if code == NOT_ANY and any(name == one.transactional_id for name, _ in unknown):
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                seen = None if response is None else Answer(code)
                results = _asking(exchange, producer, (topic.name, index), one.verify_only)
                yield one.transactional_id, Operation(exchange, seen, results)


def _asking(exchange: Exchange, producer: tuple[int, int], partition: tuple[str, int], verify_only: bool) -> Results:
    if verify_only:
        return lambda known: transitions.verified(known, producer, partition)
    return lambda known: transitions.added(known, producer, frozenset([partition]), exchange.sent_s)


def _add_offsets(evidence: Evidence, exchange: Exchange) -> Made:
    request, response = exchange.request, exchange.response
    partitions = frozenset([offsets_partition(request.group_id, evidence.circumstances.offsets_partitions)])
    producer = (request.producer_id, request.producer_epoch)
    seen = None if response is None else Answer(response.error_code)
    yield request.transactional_id, _adding(exchange, seen, producer, partitions)


def _end(evidence: Evidence, exchange: Exchange) -> Made:
    request, response = exchange.request, exchange.response
    producer = (request.producer_id, request.producer_epoch)
    seen = None
    if response is not None:
        seen = Answer(response.error_code, response.producer_id, response.producer_epoch)
    fresh = response.producer_id if response is not None else -1
    fenced_as = ErrorCode.INVALID_PRODUCER_EPOCH if exchange.version <= 1 else ErrorCode.PRODUCER_FENCED

    def results(known: Identity) -> Iterator[Result]:
        if exchange.version < 5:
            return _wire(transitions.ended_classic(known, producer, request.committed), fenced_as)
        return transitions.ended(known, producer, request.committed, fresh)

    yield request.transactional_id, Operation(exchange, seen, results)


def _commit_offsets(evidence: Evidence, exchange: Exchange) -> Made:
    request, response = exchange.request, exchange.response
    place = offsets_partition(request.group_id, evidence.circumstances.offsets_partitions)
    producer = (request.producer_id, request.producer_epoch)
    codes = {one.error_code for topic in (response.topics if response else ()) for one in topic.partitions}
    codes -= ABOUT_TOPICS if len(codes) > 1 else set()
    seen = Answer(_one_of(codes)) if response is not None and codes else None
    is_member = request.generation_id_or_member_epoch >= 0 or request.member_id or request.group_instance_id

    def results(known: Identity) -> Iterator[Result]:
        taken = [ErrorCode.NONE, *(MEMBERSHIP if is_member else ())]
        ends = known.kind in PREPARED
        epochs = (known.epoch, known.epoch - 1) if ends else (known.epoch,)
        inside = known.kind not in IDLE and place in known.possible
        if inside and producer[0] == known.producer_id and producer[1] in epochs:
            yield from ((Answer(code), known) for code in taken)
        if ends and producer == (known.producer_id, known.epoch - 1):  # it was aborted while the commit was looked at
            yield Answer(ErrorCode.CONCURRENT_TRANSACTIONS), known
        if ends or producer[0] != known.producer_id:  # the offsets' log has a later marker of it, or not yet
            yield Answer(ErrorCode.INVALID_PRODUCER_EPOCH), known
        if exchange.version >= 5:
            asked = transitions.added(known, producer, frozenset([place]), exchange.sent_s)
        else:
            asked = transitions.verified(known, producer, place)
        for answer, after in asked:
            if answer.code == ErrorCode.NONE:
                yield from ((Answer(code), after) for code in taken)
                if exchange.received_s >= after.started_s + after.timeout_ms / 1000:  # and was aborted meanwhile
                    yield Answer(ErrorCode.CONCURRENT_TRANSACTIONS), after
            elif answer.code == ErrorCode.TRANSACTION_ABORTABLE and exchange.version <= 3:
                yield Answer(ErrorCode.INVALID_TXN_STATE), after
            else:
                fenced = answer.code == ErrorCode.PRODUCER_FENCED
                yield Answer(ErrorCode.INVALID_PRODUCER_EPOCH if fenced else answer.code), after

    yield request.transactional_id, Operation(exchange, seen, results)


def _describe(evidence: Evidence, exchange: Exchange) -> Made:
    for one in exchange.response.transaction_states if exchange.response is not None else ():
        yield one.transactional_id, Operation(exchange, Answer(one.error_code), _described(one))


def _described(one: Any) -> Results:
    listed = frozenset((topic.topic, index) for topic in one.topics for index in topic.partitions)

    def results(known: Identity) -> Iterator[Result]:
        if known.kind == Kind.UNKNOWN:
            yield Answer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), known
            return
        told = (known.kind.value, known.producer_id, known.epoch)
        if told == (one.transaction_state, one.producer_id, one.producer_epoch) and listed <= known.possible:
            if known.kind != Kind.ONGOING:
                yield Answer(ErrorCode.NONE), known
            elif known.certain <= listed:
                yield Answer(ErrorCode.NONE), known._replace(certain=listed)

    return results


def _aged(evidence: Evidence, exchange: Exchange) -> Made:
    request = exchange.request

    def results(known: Identity) -> Iterator[Result]:
        yield Answer(ErrorCode.NONE), known.to(known.kind, epoch=request.epoch, last_epoch=-1)

    yield request.transactional_id, Operation(exchange, Answer(ErrorCode.NONE), results)


def offsets_partition(group: str, count: int) -> tuple[str, int]:
    """The partition of `__consumer_offsets` that a group lies in: Java's hash of its UTF-16 units."""
    found = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        found = (31 * found + int.from_bytes(encoded[index : index + 2])) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >= 1 << 31 else found
    return OFFSETS, (0 if signed == -(1 << 31) else abs(signed)) % count


MAKERS: dict[str, Callable[[Evidence, Exchange], Made]] = {
    "Aged": _aged,
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "AddOffsetsToTxn": _add_offsets,
    "EndTxn": _end,
    "TxnOffsetCommit": _commit_offsets,
    "DescribeTransactions": _describe,
}
