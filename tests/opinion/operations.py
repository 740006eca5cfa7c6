"""From an exchange to what it does to a transactional id, and which answers it may get.

An operation gives (answer, state behind it) for a state in front of it. Error codes are those of the wire: what the
coordinator calls PRODUCER_FENCED is INVALID_PRODUCER_EPOCH in older versions and to whoever writes (KAFKA-10687).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from tests.opinion import transitions
from tests.opinion.batches import joined
from tests.opinion.evidence import Evidence, Place, Production
from tests.opinion.identity import ANYTHING, IDLE, PREPARED, Identity, Kind
from tests.opinion.producing import IMPLICIT, Verdict, refusals
from tests.opinion.trace import PASSING, Exchange
from tests.opinion.transitions import FENCED, Answer, Result

Results = Callable[[Identity], Iterable[Result]]
OFFSETS = "__consumer_offsets"
NO_OPINION = PASSING | {ErrorCode.INVALID_GROUP_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
BY_ID = 13
"""From this version of Produce on topics have no names."""
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


@dataclass(slots=True, eq=False)
class Operation:
    """One request on an id; of a Produce, one partition of it."""

    exchange: Exchange
    observed: Answer | None
    """None where there was no response."""
    results: Results
    claims: tuple[int, int] | None = None
    """Of InitProducerId: the identity that it names."""
    contended: bool = False
    """Another request on the id was under way."""
    _known: dict[Identity, tuple[Identity, ...]] = field(default_factory=dict)

    def after(self, known: Identity) -> Iterator[Identity]:
        """The states behind it, if it was answered as it was."""
        seen = self.observed
        assert seen is not None
        if known.kind == Kind.ANYTHING:
            yield self._adopted(seen)
            return
        if seen.code in NO_OPINION:
            yield known
            yield from self.unanswered(known)
            return
        if seen.code == ErrorCode.CONCURRENT_TRANSACTIONS and self.contended:
            yield known
        for answer, after in self.results(known):
            if answer == seen or (answer.code == seen.code and -1 in (answer.producer_id, seen.producer_id)):
                yield after

    def unanswered(self, known: Identity) -> tuple[Identity, ...]:
        """The states behind it, if nobody knows what it was answered. Partitions are then only possible."""
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = tuple(self._behind(known))
        return found

    def _behind(self, known: Identity) -> Iterator[Identity]:
        if known.kind == Kind.ANYTHING:
            return
        for answer, after in self.results(known):
            if after is ANYTHING or answer.code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
                if after != known:
                    yield after
            elif after.kind == Kind.ONGOING:
                certain = known.certain if known.kind == Kind.ONGOING else frozenset()
                yield after._replace(certain=certain)
            elif after != known:
                yield after

    def _adopted(self, seen: Answer) -> Identity:
        if seen.code != ErrorCode.NONE or seen.producer_id < 0:
            return ANYTHING
        if self.exchange.api == "InitProducerId":
            timeout_ms = self.exchange.request.transaction_timeout_ms
            return Identity(Kind.EMPTY, seen.producer_id, seen.epoch, timeout_ms=timeout_ms)
        return ANYTHING


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
            made = _produces(evidence, exchange, by_exchange)
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
    fenced_as = ErrorCode.INVALID_PRODUCER_EPOCH if exchange.version <= 1 else ErrorCode.PRODUCER_FENCED
    yield (
        request.v3_and_below_transactional_id,
        Operation(
            exchange,
            seen,
            lambda known: _wire(transitions.added(known, producer, partitions, exchange.sent_s), fenced_as),
        ),
    )


def _one_of(codes: set[int]) -> int:
    """The code that all partitions have; partitions that nobody knows make the others fail too."""
    if codes & ABOUT_TOPICS or not codes:
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
    fenced_as = ErrorCode.INVALID_PRODUCER_EPOCH if exchange.version <= 1 else ErrorCode.PRODUCER_FENCED
    yield (
        request.transactional_id,
        Operation(
            exchange,
            None if response is None else Answer(response.error_code),
            lambda known: _wire(transitions.added(known, producer, partitions, exchange.sent_s), fenced_as),
        ),
    )


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


def _produces(
    evidence: Evidence, exchange: Exchange, productions: dict[tuple[int, Place], Production]
) -> Iterator[Operation]:
    headers = [
        read_header(joined(partition.records))
        for topic in exchange.request.topic_data
        for partition in topic.partition_data
        if len(joined(partition.records)) >= HEADER_SIZE
    ]
    producers = {(one.producer_id, one.producer_epoch) for one in headers if one.is_transactional}
    for topic in exchange.request.topic_data:
        name = topic.name or evidence.names.get(topic.topic_id, topic.topic_id.hex())
        for partition in topic.partition_data:
            production = productions.get((exchange.sent, (name, partition.index)))
            data = joined(partition.records)
            if len(data) >= HEADER_SIZE and not _asks_the_coordinator(read_header(data)):
                continue
            codes = [
                one.error_code
                for answered in (exchange.response.responses if exchange.response is not None else ())
                for one in answered.partition_responses
                if one.index == partition.index
                and (answered.name == topic.name if exchange.version < BY_ID else answered.topic_id == topic.topic_id)
            ]
            seen = Answer(codes[0]) if codes else None
            results = _writing(evidence, exchange, production, (name, partition.index), data, seen)
            yield Operation(exchange, seen, _refused_as_a_whole if len(producers) > 1 else results)


def _asks_the_coordinator(header: BatchHeader) -> bool:
    return header.is_transactional and header.producer_id >= 0


def _refused_as_a_whole(known: Identity) -> Iterator[Result]:
    """The transactional batches of a request are of one producer."""
    yield Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING), known


def _writing(
    evidence: Evidence,
    exchange: Exchange,
    production: Production | None,
    place: Place,
    data: bytes,
    seen: Answer | None,
) -> Results:
    """A transactional batch: the coordinator first, unless the transaction is open there; then the partition."""
    if len(data) < HEADER_SIZE:
        return lambda known: [(seen, known)] if seen is not None else []
    header = read_header(data)
    verdicts = refusals(evidence, production) if production is not None else None
    producer = (header.producer_id, header.producer_epoch)

    def asked(known: Identity) -> Iterator[Result]:
        if exchange.version >= IMPLICIT:
            return transitions.added(known, producer, frozenset([place]), exchange.sent_s)
        return transitions.verified(known, producer, place)

    def results(known: Identity) -> Iterator[Result]:
        if verdicts is None:
            if seen is not None:
                yield seen, known
                yield from ((seen, after) for answer, after in asked(known) if answer.code == ErrorCode.NONE)
            else:
                yield from asked(known)
            return
        for one in verdicts:
            if one.ongoing or one.offset >= 0 or one.code == ErrorCode.INVALID_PRODUCER_EPOCH:
                yield Answer(one.code), known
            if not one.ongoing:
                for answer, after in asked(known):
                    code = one.code if answer.code == ErrorCode.NONE else _told(answer.code, exchange.version)
                    yield Answer(code), after
        if _ended_meanwhile(verdicts):
            yield Answer(ErrorCode.INVALID_TXN_STATE), known

    return results


def _ended_meanwhile(verdicts: list[Verdict]) -> bool:
    """The producer's state changed while the request was under way: what was verified may not hold any more."""
    return len(verdicts) > 1


def _told(code: int, version: int) -> int:
    """What the writer of a batch is told of the coordinator's refusal."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and version <= 10:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.CONCURRENT_TRANSACTIONS and version < IMPLICIT:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code


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
        if ends:  # the marker is in the offsets' log already, or not yet
            yield Answer(ErrorCode.INVALID_PRODUCER_EPOCH), known
        if exchange.version >= 5:
            asked = transitions.added(known, producer, frozenset([place]), exchange.sent_s)
        else:
            asked = transitions.verified(known, producer, place)
        for answer, after in asked:
            if answer.code == ErrorCode.NONE:
                yield from ((Answer(code), after) for code in taken)
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


def offsets_partition(group: str, count: int) -> tuple[str, int]:
    """The partition of `__consumer_offsets` that a group lies in: Java's hash of its UTF-16 units."""
    found = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        found = (31 * found + int.from_bytes(encoded[index : index + 2])) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >= 1 << 31 else found
    return OFFSETS, (0 if signed == -(1 << 31) else abs(signed)) % count


MAKERS: dict[str, Callable[[Evidence, Exchange], Made]] = {
    "InitProducerId": _init,
    "AddPartitionsToTxn": _add,
    "AddOffsetsToTxn": _add_offsets,
    "EndTxn": _end,
    "TxnOffsetCommit": _commit_offsets,
    "DescribeTransactions": _describe,
}
