"""A transaction that has ended, as spans: what was asked, written, decided and marked, each with its times.

Names of attributes are those of OpenTelemetry's semantic conventions (messaging, client, error, user agent), where it
has one; ours begin with `tallystick.`. Times are milliseconds, as the journal has them. A root lasts from the earliest
to the latest of its children, so they nest whatever the clock did.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.journal.events import Asked, Changed, Event, Json, Marked, Wrote
from broker.journal.peers import Peer
from broker.tracing.waiting_transactions import Ended

Attributes: TypeAlias = Mapping[str, str | int | bool]
LONGEST_ID = 1000
MOST_BEFORE = 5
TIMED_OUT = "timed out"
"""As `noted_transactions` calls it."""
KAFKA: Attributes = {"messaging.system": "kafka"}


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """One span; a request is one of the kind SERVER, all else happened inside of the broker."""

    name: str
    start_ms: int
    end_ms: int
    attributes: Attributes
    error: str = ""
    is_request: bool = False


@dataclass(frozen=True, slots=True)
class TransactionTrace:
    """A root with its children, and the requests by which its producer came to its identity before it began."""

    root: TracedSpan
    children: list[TracedSpan]
    states: list[tuple[str, int]]
    before: list[TracedSpan]


@dataclass(slots=True)
class _Parts:
    """The events of a transaction by kind."""

    asked: list[Asked] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    wrote: list[Wrote] = field(default_factory=list)
    marked: list[Marked] = field(default_factory=list)

    def state(self, *beginnings: str) -> Changed | None:
        return next((one for one in self.changed if one.state.startswith(beginnings)), None)


def trace_of(ended: Ended) -> TransactionTrace:
    """See the head of this file. The last state in `ended` is the one that ended it."""
    start = _start(ended.events)
    parts = _sorted(ended.events[start:])
    done = parts.changed[-1]
    children = [
        *(_request(ended.transactional_id, one, done.at_ms) for one in parts.asked),
        *_produced(parts.wrote),
        *_decided(parts, done),
    ]
    children.sort(key=lambda span: (span.start_ms, span.end_ms))
    times = [done.at_ms, parts.changed[0].at_ms]
    times += [span.start_ms for span in children] + [span.end_ms for span in children]
    attributes, error = _said_of_all(ended, parts, done)
    root = TracedSpan(
        f"transaction {ended.transactional_id[:LONGEST_ID]}", min(times), max(times), attributes, error, False
    )
    before = [
        _request(ended.transactional_id, event, event.at_ms)
        for event in ended.events[:start]
        if isinstance(event, Asked) and event.api == "InitProducerId"
    ]
    states = [(one.state, one.at_ms) for one in parts.changed]
    return TransactionTrace(root, children, states, before[-MOST_BEFORE:])


def _start(events: list[Event]) -> int:
    """Where it begins: with the request that opened it. What came before is of no transaction; where its beginning is
    forgotten, all that is left is its."""
    for position, event in enumerate(events):
        if isinstance(event, Changed) and event.state == "Ongoing":
            return next((at for at in range(position) if events[at] is event.by), position)
    return 0


def _sorted(events: Iterable[Event]) -> _Parts:
    parts = _Parts()
    for event in events:
        match event:
            case Asked():
                parts.asked.append(event)
            case Changed():
                parts.changed.append(event)
            case Wrote():
                parts.wrote.append(event)
            case Marked():
                parts.marked.append(event)
    return parts


def _said_of_all(ended: Ended, parts: _Parts, done: Changed) -> tuple[Attributes, str]:
    begun, prepared = parts.state("Ongoing"), parts.state("Prepare")
    of = begun or prepared or done
    reason = (prepared or done).because
    outcome = "commit" if done.state == "CompleteCommit" else "timeout" if reason == TIMED_OUT else "abort"
    written = [run for run in parts.wrote if run.error == "NONE"]
    peers = [one.peer for one in written] + [one.peer for one in parts.asked]
    return {
        **KAFKA,
        **(_client(peers[0]) if peers else {}),
        "messaging.batch.message_count": sum(run.records for run in written),
        "tallystick.transaction.id": ended.transactional_id[:LONGEST_ID],
        "tallystick.transaction.outcome": outcome,
        "tallystick.transaction.reason": reason,
        "tallystick.transaction.timeout_ms": of.timeout_ms,
        "tallystick.transaction.partitions": max(one.partitions for one in parts.changed),
        "tallystick.transaction.bytes": sum(run.bytes for run in written),
        "tallystick.transaction.is_whole": ended.is_whole,
        "tallystick.producer.id": of.producer_id,
        "tallystick.producer.epoch": of.epoch,
    }, {"commit": "", "abort": f"aborted: {reason}", "timeout": TIMED_OUT}[outcome]


def _client(peer: Peer) -> Attributes:
    said: dict[str, str | int] = {
        "messaging.client.id": peer.client_id,
        "client.address": peer.host,
        "client.port": peer.port,
        "user_agent.name": peer.software_name,
        "user_agent.version": peer.software_version,
        "tallystick.principal": peer.principal,
    }
    return {name: value for name, value in said.items() if value}


def _failed(error: str) -> Attributes:
    return {} if error in ("", "NONE") else {"error.type": error}


def _error(error: str) -> str:
    return "" if error == "NONE" else error


# -- requests ------------------------------------------------------------------------------------------------------


def _request(transactional_id: str, asked: Asked, unanswered_ms: int) -> TracedSpan:
    is_answered = asked.answered_ms is not None
    end_ms = unanswered_ms if asked.answered_ms is None else asked.answered_ms
    attributes = {
        **KAFKA,
        "messaging.operation.name": asked.api,
        "tallystick.api.version": asked.version,
        "tallystick.transaction.id": transactional_id[:LONGEST_ID],
        **_client(asked.peer),
        **_what_it_says(asked.says),
        **_failed(asked.error),
        **({} if is_answered else {"tallystick.unanswered": True}),
    }
    return TracedSpan(asked.api, asked.at_ms, max(asked.at_ms, end_ms), attributes, _error(asked.error), True)


_SAID = {
    "producerId": "tallystick.producer.id",
    "epoch": "tallystick.producer.epoch",
    "timeoutMs": "tallystick.transaction.timeout_ms",
    "count": "tallystick.partitions",
    "group": "messaging.consumer.group.name",
    "commit": "tallystick.commit",
}


def _what_it_says(says: Json) -> Attributes:
    return {name: says[key] for key, name in _SAID.items() if key in says}


def _produced(runs: Iterable[Wrote]) -> Iterator[TracedSpan]:
    """One span for each partition, client and answer, from the first batch to the last."""
    by_place: dict[tuple[object, ...], list[Wrote]] = {}
    for run in runs:
        by_place.setdefault((run.place, run.peer, run.error, run.epoch), []).append(run)
    for same in by_place.values():
        first, last = same[0], same[-1]
        place: dict[str, str | int] = {}
        if first.place is not None:
            place["messaging.destination.name"] = first.place[0]
            place["messaging.destination.partition.id"] = str(first.place[1])
            if first.error == "NONE":
                place["tallystick.offset.first"], place["tallystick.offset.last"] = first.base_offset, last.last_offset
        attributes = {
            **KAFKA,
            "messaging.operation.name": "Produce",
            "messaging.operation.type": "send",
            "messaging.batch.message_count": sum(run.records for run in same),
            "tallystick.api.version": first.version,
            "tallystick.batches": sum(run.batches for run in same),
            "tallystick.bytes": sum(run.bytes for run in same),
            "tallystick.producer.id": first.producer_id,
            "tallystick.producer.epoch": first.epoch,
            **place,
            **_client(first.peer),
            **_failed(first.error),
        }
        name = "Produce" if first.place is None else f"Produce {first.place[0]}"
        end_ms = max(run.until_ms for run in same)
        yield TracedSpan(name, first.at_ms, max(first.at_ms, end_ms), attributes, _error(first.error), True)


# -- what the broker does ------------------------------------------------------------------------------------------


def _decided(parts: _Parts, done: Changed) -> Iterator[TracedSpan]:
    """PREPARE until it is durable: its answer and the first marker wait for that. Then the markers, until COMPLETE,
    which waits until the last of them is durable."""
    prepared = parts.state("Prepare")
    if prepared is not None:
        followed = [done.at_ms, *(one.at_ms for one in parts.marked[:1])]
        by = prepared.by
        if by is not None and by.answered_ms is not None:
            followed.append(by.answered_ms)
        durable_ms = max(prepared.at_ms, min(followed))
        yield TracedSpan(prepared.state, prepared.at_ms, durable_ms, {"tallystick.partitions": prepared.partitions})
    for run in parts.marked:
        end_ms = done.at_ms if run is parts.marked[-1] else run.until_ms
        attributes = {"tallystick.markers": run.count, "tallystick.by_operator": run.by_operator, **_failed(run.error)}
        name = "COMMIT markers" if run.commit else "ABORT markers"
        yield TracedSpan(name, run.at_ms, max(run.at_ms, end_ms), attributes, _error(run.error))
