"""The rules for the ends of transactions: every marker was wanted by somebody, and all partitions have the same.

A marker of the epoch that the data has is of a classic client (TV0); one of the next epoch is of a client of the new
protocol (TV2) or of the broker, which only aborts.
"""

from collections import defaultdict
from collections.abc import Iterable

from protocol.errors import ErrorCode
from tests.opinion.evidence import Evidence, Place
from tests.opinion.partition_log import Transaction
from tests.opinion.trace import Exchange

NEW_PROTOCOL = 5
"""From this version of EndTxn on, each transaction has an epoch of its own (KIP-890)."""
EXHAUSTED = 32766
"""The last epoch that a client is given."""


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    requests: dict[tuple[int, int], list[Exchange]] = defaultdict(list)
    for exchange in evidence.of("EndTxn"):
        requests[exchange.request.producer_id, exchange.request.producer_epoch].append(exchange)
    found: dict[tuple[int, int], list[tuple[Place, Transaction]]] = defaultdict(list)
    for place, log in evidence.logs.items():
        for one in log.transactions:
            if one.producer_id not in evidence.operated:
                found[one.producer_id, one.epoch].append((place, one))
    for producer, transactions in found.items():
        for place, one in transactions:
            if one.marker is not None:
                _check_marker(evidence, place, one, requests[producer])
        _check_together(evidence, transactions, requests[producer])


def _check_marker(evidence: Evidence, place: Place, one: Transaction, requests: list[Exchange]) -> None:
    """Somebody asked for it."""
    assert one.marker is not None
    commit, epoch = bool(one.marker.commit), one.marker.header.producer_epoch
    wanted = [request for request in requests if request.request.committed == commit]
    classic = any(request.version < NEW_PROTOCOL for request in wanted)
    new = any(request.version >= NEW_PROTOCOL for request in wanted)
    word = "commits" if commit else "aborts"
    source = _any_source(evidence)
    if epoch == one.epoch < EXHAUSTED and not classic:
        evidence.object("end.unwanted", source, f"{place}: a marker at {one.end} {word} what no classic client did")
    if epoch > one.epoch and commit and not new:
        evidence.object("end.unwanted", source, f"{place}: a marker at {one.end} commits what no client did")


def _check_together(
    evidence: Evidence, transactions: list[tuple[Place, Transaction]], requests: Iterable[Exchange]
) -> None:
    """By the new protocol: as EndTxn was answered, in every partition."""
    answered = {
        bool(one.request.committed): one
        for one in requests
        if one.version >= NEW_PROTOCOL and one.response is not None and one.response.error_code == ErrorCode.NONE
    }
    later = [(place, one) for place, one in transactions
             if one.marker is None or one.marker.header.producer_epoch > one.epoch]  # fmt: skip
    ends = {one.marker.commit for _, one in later if one.marker is not None}
    if len(ends) > 1:
        evidence.object("end.torn", _any_source(evidence), f"{later[0][1].producer_id}: committed here, aborted there")
    if len(answered) != 1:
        return
    ((commit, exchange),) = answered.items()
    if ends - {commit}:
        evidence.object("end.otherwise", exchange, f"answered {'commit' if commit else 'abort'}, the markers differ")
    if any(one.marker is None and _was_read_to_its_end(evidence, place) for place, one in later):
        evidence.object("end.missing", exchange, "a partition of it never got a marker")


def _was_read_to_its_end(evidence: Evidence, place: Place) -> bool:
    """Whether somebody read it when no transaction was open any more."""
    last = max((one.sent for one in evidence.of("EndTxn", "InitProducerId", "Produce")), default=0)
    return evidence.circumstances.settled and evidence.bounds[place].looked > last


def _any_source(evidence: Evidence) -> Exchange:
    return evidence.trace.exchanges[-1]
