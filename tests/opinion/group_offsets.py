"""The rules for the offsets of groups.

A committed offset is the one whose request came last into the log of the group, of those that count: plain ones, and
those of transactions that were committed (not the one whose transaction ended last). A fetch that requires stable
offsets is told UNSTABLE_OFFSET_COMMIT as long as a transaction may still end either way (KIP-447).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from protocol.errors import ErrorCode
from tests.opinion.evidence import Evidence
from tests.opinion.trace import NEVER, PASSING, Exchange

Key = tuple[str, str, int]
"""Group, topic, partition."""
NOTHING = -1
IDLE = ("Empty", "CompleteCommit", "CompleteAbort")


@dataclass(frozen=True, slots=True)
class Commit:
    """One offset that was sent."""

    offset: int
    metadata: str
    exchange: Exchange
    begun: int
    """It was not there before."""
    stands: int
    """From then on whoever requires stable offsets sees it, or a later one; NEVER where it may come to nothing."""
    placed: int
    """When its request had certainly taken place, if ever."""


def check(evidence: Evidence) -> None:
    """All rules of this file."""
    deletes = {one.request.group_id for one in evidence.of("OffsetDelete")}
    deletes |= {name for one in evidence.of("DeleteGroups") for name in one.request.groups_names}
    commits, pending = _commits(evidence)
    for exchange in evidence.of("OffsetFetch"):
        if exchange.response is None:
            continue
        for key, found in _fetched(evidence, exchange):
            if key[1] in evidence.unjudged or key[0] in deletes:
                continue
            if found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                _check_unstable(evidence, exchange, key, pending[key])
            elif found.error_code == ErrorCode.NONE:
                _check_offset(evidence, exchange, key, found, commits[key])
                if _is_stable(exchange) and any(_is_open(evidence, one, exchange) for one in pending[key]):
                    evidence.object("offsets.pending", exchange, f"{key}: an open transaction may still change it")


def _fetched(evidence: Evidence, exchange: Exchange) -> Iterator[tuple[Key, Any]]:
    request, response = exchange.request, exchange.response
    if exchange.version >= 8:
        groups = [(one.group_id, one.topics, one.error_code) for one in response.groups]
    else:
        groups = [(request.group_id, response.topics, response.error_code)]
    for group, topics, code in groups:
        for topic in topics if not code else ():
            name = topic.name or evidence.names.get(getattr(topic, "topic_id", b""), "")
            for one in topic.partitions:
                yield (group, name, one.partition_index), one


def _commits(evidence: Evidence) -> tuple[dict[Key, list[Commit]], dict[Key, list[Exchange]]]:
    """What was committed, and which transactional requests may leave something pending."""
    found: dict[Key, list[Commit]] = defaultdict(list)
    pending: dict[Key, list[Exchange]] = defaultdict(list)
    for exchange in evidence.of("OffsetCommit", "TxnOffsetCommit"):
        transactional = exchange.api == "TxnOffsetCommit"
        begun, stands = _end_of(evidence, exchange) if transactional else (exchange.sent, exchange.received)
        for key, one, code in _sent(evidence, exchange):
            if code is not None and code != ErrorCode.NONE and code not in PASSING:
                continue
            sure = code == ErrorCode.NONE
            if transactional:
                pending[key].append(exchange)
            if begun < NEVER:
                found[key].append(
                    Commit(
                        one.committed_offset,
                        one.committed_metadata or "",
                        exchange,
                        begun,
                        stands if sure else NEVER,
                        exchange.received if sure else NEVER,
                    )
                )
    return found, pending


def _sent(evidence: Evidence, exchange: Exchange) -> Iterator[tuple[Key, Any, int | None]]:
    codes = {}
    for topic in exchange.response.topics if exchange.response is not None else ():
        for one in topic.partitions:
            codes[topic.name, getattr(topic, "topic_id", b""), one.partition_index] = one.error_code
    for topic in exchange.request.topics:
        identity = getattr(topic, "topic_id", b"")
        for one in topic.partitions:
            name = topic.name or evidence.names.get(identity, "")
            code = codes.get((topic.name, identity, one.partition_index))
            yield (exchange.request.group_id, name, one.partition_index), one, code


def _end_of(evidence: Evidence, commit: Exchange) -> tuple[int, int]:
    """(when its transaction may have been committed first, when it certainly was)."""
    request = commit.request
    ends = [
        one
        for one in evidence.of("EndTxn")
        if one.received > commit.sent
        and (one.request.producer_id, one.request.producer_epoch) == (request.producer_id, request.producer_epoch)
    ]
    begun = min((one.sent for one in ends if one.request.committed), default=NEVER)
    if any(not one.request.committed or one.sent < commit.received for one in ends):
        return begun, NEVER
    done = [one.received for one in ends if one.response is not None and one.response.error_code == ErrorCode.NONE]
    return begun, min(done, default=NEVER)


def _check_offset(evidence: Evidence, exchange: Exchange, key: Key, found: Any, commits: list[Commit]) -> None:
    """It is one that was committed, and none that certainly came later was there already."""
    stable = _is_stable(exchange)
    standing = [
        one
        for one in commits
        if one.stands < exchange.sent and (stable or one.exchange.api == "OffsetCommit")
    ]  # fmt: skip
    if found.committed_offset == NOTHING and all(one.offset != NOTHING for one in commits):
        if standing and not evidence.circumstances.forgets_offsets:
            evidence.object("offsets.lost", exchange, f"{key}: nothing, where {standing[-1].offset} was committed")
        return
    value = (found.committed_offset, found.metadata or "")
    same = [one for one in commits if (one.offset, one.metadata) == value and one.begun < exchange.received]
    if not same:
        evidence.object("offsets.unknown", exchange, f"{key}: {value[0]} was not committed")
    elif all(any(later.exchange.sent > one.placed for later in standing) for one in same):
        evidence.object("offsets.old", exchange, f"{key}: {value[0]}, where {standing[-1].offset} came later")


def _check_unstable(evidence: Evidence, exchange: Exchange, key: Key, pending: list[Exchange]) -> None:
    """Some transaction may still end either way."""
    if not any(one.sent < exchange.received and not _is_over(evidence, one, exchange.sent) for one in pending):
        evidence.object("offsets.unstable", exchange, f"{key}: nothing is pending")


def _is_stable(exchange: Exchange) -> bool:
    return bool(exchange.request.require_stable and exchange.version >= 7)


def _is_open(evidence: Evidence, commit: Exchange, look: Exchange) -> bool:
    """Whether the transaction of this commit was certainly open as long as the look took: nobody ended it, by name or
    by coming back, and it was too young to time out."""
    if commit.received > look.sent or evidence.circumstances.transactions_time_out:
        return False
    request = commit.request
    if request.producer_id in evidence.operated or not _all_taken(commit):
        return False
    began_s, timeout_ms = 0.0, 0
    for other in evidence.of("InitProducerId", "EndTxn"):
        if other.request.transactional_id != request.transactional_id:
            continue
        if commit.sent < other.received and other.sent < look.received:
            return False
        if other.sent < commit.sent:
            began_s = other.sent_s
            timeout_ms = getattr(other.request, "transaction_timeout_ms", timeout_ms)
    return look.received_s < began_s + timeout_ms / 1000


def _all_taken(commit: Exchange) -> bool:
    """Not a repetition of one that was refused by some partition, or not answered."""
    return all(one.error_code == ErrorCode.NONE for topic in commit.response.topics for one in topic.partitions)


def _is_over(evidence: Evidence, commit: Exchange, tick: int) -> bool:
    """Whether the transaction of this commit had certainly ended by then: its id answered as only an idle one does."""
    if commit.response is None:
        return False
    for other in evidence.of("InitProducerId", "DescribeTransactions"):
        if other.sent > commit.received and other.received < tick and _idle(other, commit.request.transactional_id):
            return True
    return False


def _idle(exchange: Exchange, transactional_id: str) -> bool:
    if exchange.api == "InitProducerId":
        same = exchange.request.transactional_id == transactional_id
        return same and bool(exchange.response.error_code == ErrorCode.NONE)
    return any(
        one.transactional_id == transactional_id
        and one.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort")
        for one in exchange.response.transaction_states
    )
