"""What the journal knows, as JSON can say it. Times are milliseconds since 1970, by the broker's clock.

`timeline(journal, "tx")`, drawn as a line of events or told as a scenario:

    {"transactionalId": "tx", "now": 1790000009000,
     "began": 1790000000000,        the journal knows nothing from before: a restart forgets
     "known": true,                 false: nothing was heard of the id since then, or it was forgotten for others
     "dropped": 12,                 older events of this id that had to go
     "clients": [{"clientId": "copier", "host": "10.0.0.7", "port": 51234, "software": "librdkafka", "version": "2.5.0",
                  "principal": "User:ANONYMOUS", "listener": "PLAINTEXT", "connection": 17}],
     "events": [
       {"is": "request", "at": …, "number": 7, "client": 0, "api": "InitProducerId", "version": 4, "says": {…},
        "answeredAt": …, "error": "NONE", "gives": {…}},    not answered yet: null in the place of both
       {"is": "state", "at": …, "state": "Ongoing", "producerId": 1, "epoch": 0, "partitions": 1, "timeoutMs": 60000,
        "because": "partitions", "request": 7},             null where no request of a client was the reason
       {"is": "records", "at": …, "until": …, "client": 0, "version": 12, "topic": "t", "partition": 0,
        "baseOffset": 5, "lastOffset": 9, "producerId": 1, "epoch": 0, "batches": 2, "records": 5, "bytes": 512,
        "error": "NONE"},                                   topic and partition null: several, beyond the first 64
       {"is": "markers", "at": …, "until": …, "commit": true, "producerId": 1, "epoch": 1, "byOperator": false,
        "error": "NONE", "places": [["t", 0, 10]], "count": 1}]}    offset -1: in a coordinator's log

What `says` and `gives` hold: InitProducerId `timeoutMs`, `producerId`, `epoch`, gives `producerId`, `epoch`;
AddPartitionsToTxn `producerId`, `epoch`, `places`, `count`, `verifies`; AddOffsetsToTxn and TxnOffsetCommit `group`,
the latter also `generation`, `member`, `places` with offsets, `count`; EndTxn `commit`, gives an identity under version
5; WriteTxnMarkers `commit`, `places`, and `level`, the transaction version of the markers.

`fences(journal, "tx")`: the same head and `clients`, and

    "raised": [{"at": …, "from": [1, 0], "to": [1, 1], "because": "InitProducerId, the next epoch", "own": false,
                "times": 1, "api": "InitProducerId", "request": 7, "client": 0}]
    "refused": [{"at": …, "until": …, "client": 1, "api": "EndTxn", "error": "PRODUCER_FENCED", "claimed": [1, 0],
                 "times": 1}]

`own`: the producer did so itself, by ending transactions (`times` of them in a row).
"""

from broker.journal.events import Event, Json, Marked, Wrote
from broker.journal.journal import ENDS, Journal, OfId
from broker.journal.peers import Peer


class _Numbers:
    """Each client of an answer once."""

    def __init__(self) -> None:
        self.peers: dict[Peer, int] = {}

    def __call__(self, peer: Peer) -> int:
        return self.peers.setdefault(peer, len(self.peers))

    @property
    def as_json(self) -> list[Json]:
        return [peer.as_json for peer in self.peers]


def _head(journal: Journal, transactional_id: str, of: OfId | None) -> Json:
    return {
        "transactionalId": transactional_id,
        "now": journal.now_ms(),
        "began": journal.began_ms,
        "known": of is not None,
        "dropped": 0 if of is None else of.dropped,
    }


def timeline(journal: Journal, transactional_id: str, *, at_ms: int | None = None) -> Json:
    """Everything that is noted of an id; with `at_ms` the transaction that was under way then, else the one before."""
    of, numbers = journal.find(transactional_id), _Numbers()
    events = [] if of is None else list(of.events)
    if at_ms is not None:
        events = _around(events, at_ms)
    said = [event.as_json(numbers) for event in events]
    return {**_head(journal, transactional_id, of), "clients": numbers.as_json, "events": said}


def _around(events: list[Event], at_ms: int) -> list[Event]:
    """From behind the end of one transaction to the end of the next."""
    parts: list[list[Event]] = [[]]
    ended = False
    for event in events:
        state = getattr(event, "state", "")
        # Whatever belongs to the end still comes: only what begins something new opens a part.
        if ended and not isinstance(event, Marked) and state not in ENDS:
            parts.append([])
            ended = False
        parts[-1].append(event)
        ended = ended or state in ENDS
    begun = [part for part in parts if part and part[0].at_ms <= at_ms]
    return begun[-1] if begun else []


def fences(journal: Journal, transactional_id: str) -> Json:
    """Who raised the epoch, and who was turned away for it."""
    of, numbers = journal.find(transactional_id), _Numbers()
    raised = [] if of is None else [one.as_json(numbers) for one in of.fences.raised]
    refused = [] if of is None else [one.as_json(numbers) for one in of.fences.refused]
    head = _head(journal, transactional_id, of)
    return {**head, "clients": numbers.as_json, "raised": raised, "refused": refused}


def holder(journal: Journal, transactional_id: str) -> Json | None:
    """The client that has the identity of an id, or wrote with it last; None where that is not known."""
    of = journal.find(transactional_id)
    return None if of is None or of.holder is None else of.holder.as_json


def written(journal: Journal, transactional_id: str) -> Json:
    """What was written in the transaction that is open: batches, records and bytes, as far as they are noted."""
    of = journal.find(transactional_id)
    began = None if of is None else of.beginning
    runs: list[Wrote] = []
    if of is not None and began is not None:
        for event in reversed(of.events):
            if event is began:
                break
            if isinstance(event, Wrote) and event.error == "NONE":
                runs.append(event)
    return {
        "batches": sum(run.batches for run in runs),
        "records": sum(run.records for run in runs),
        "bytes": sum(run.bytes for run in runs),
    }
