"""Produce on a transactional id: one operation for each of its partitions."""

from collections.abc import Iterator

from protocol.errors import ErrorCode
from protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from tests.opinion import transitions
from tests.opinion.batches import joined
from tests.opinion.evidence import Evidence, Place, Production
from tests.opinion.identity import Identity, Kind
from tests.opinion.operation import Operation, Results
from tests.opinion.producing import IMPLICIT, Verdict, refusals
from tests.opinion.trace import Exchange
from tests.opinion.transitions import Answer, Result

BY_ID = 13
"""From this version of Produce on topics have no names."""


def produces(
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
            if not one.ongoing:
                for answer, after in asked(known):
                    code = one.code if answer.code == ErrorCode.NONE else _told(answer.code, exchange.version)
                    yield Answer(code), after
            yield from ((Answer(code), known) for code in _by_the_partition(evidence, producer, one, known))
        if _ended_meanwhile(verdicts):
            yield Answer(ErrorCode.INVALID_TXN_STATE), known

    return results


def _by_the_partition(evidence: Evidence, producer: tuple[int, int], one: Verdict, known: Identity) -> Iterator[int]:
    """What its leader answers without the coordinator. Where the transaction is decided under a later epoch, it may
    have appended the marker, and have ended before that was there for good."""
    if one.ongoing or one.offset >= 0 or one.code == ErrorCode.INVALID_PRODUCER_EPOCH:
        yield one.code
    is_decided = producer[0] == known.producer_id and producer[1] < known.epoch and known.kind != Kind.ONGOING
    if one.ongoing and is_decided and evidence.circumstances.restarts:
        yield ErrorCode.INVALID_PRODUCER_EPOCH


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
