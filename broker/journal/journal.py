"""Notes what happens to transactional ids, and forgets in time.

Rule 1. Each id has a ring of its own: a busy one pushes out what was noted of itself, never of another.
Rule 2. All of them together weigh no more than `budget_bytes`: what was quiet for longest goes, whole.
Rule 3. To note is a few assignments: no record is looked into, batches into one partition are one event.
Rule 4. Nothing in the broker depends on what is noted here.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from sys import getsizeof

from broker.journal.events import MOST_PLACES, PLACE_BYTES, Asked, Changed, Event, Json, Marked, Wrote
from broker.journal.fences import TURNED_AWAY, Fences
from broker.journal.groups import MOST_GROUPS, MOST_PROGRAMS, GroupHabits, Latest, NameHabits
from broker.journal.peers import Clients, Peer
from protocol.records.batch import BatchHeader

MOST_EVENTS = 256
"""Of one id: some forty transactions."""
ID_BYTES = 1500
"""What an id weighs of which nothing is noted yet, beside its name."""
CLIENT_BYTES = 4
"""A character of a client id, at most; each event may be of another client."""
MOST_PRODUCER_IDS = 4
"""By which an id is found; a rotation gives it a new one."""
OWN_RAISE = "EndTxn"
ENDS = ("CompleteCommit", "CompleteAbort")
"""States in which a transaction is over."""


class OfId:
    """What is noted of one transactional id."""

    __slots__ = ("beginning", "dropped", "events", "fences", "holder", "producer_ids", "runs", "timeout_ms", "weight")

    def __init__(self, transactional_id: str) -> None:
        self.events: deque[Event] = deque()
        self.dropped = 0
        self.fences = Fences()
        self.holder: Peer | None = None
        """Who was last given its identity, or wrote with it."""
        self.beginning: Changed | None = None
        """Of the transaction that is open."""
        self.runs: dict[tuple[str, int] | None, Wrote] = {}
        """Batches since the last event of another kind, by partition."""
        self.producer_ids: list[int] = []
        self.timeout_ms: int | None = None
        """Of its transactions, as the coordinator wrote it down last."""
        self.weight = ID_BYTES + 2 * getsizeof(transactional_id)


class Journal:
    """See the head of this file. `now_ms` is the broker's clock."""

    def __init__(self, now_ms: Callable[[], int], budget_bytes: int) -> None:
        self.now_ms = now_ms
        self.began_ms = now_ms()
        """Nothing from before is known."""
        self.budget_bytes = budget_bytes
        self.weight = 0
        self.current: Asked | None = None
        """The request whose handler is at work in this very moment."""
        self.on_ended: Callable[[str, OfId], None] | None = None
        """Told of each transaction that is over; its last event is the one that says so."""
        self.clients = Clients()
        self.groups: Latest[GroupHabits] = Latest(MOST_GROUPS)
        self.names: Latest[NameHabits] = Latest(MOST_PROGRAMS)
        self._ids: OrderedDict[str, OfId] = OrderedDict()
        self._by_producer: dict[int, str] = {}
        self._requests = 0

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, transactional_id: str) -> OfId | None:
        """What is noted of an id; None for what was never heard of, or is forgotten."""
        return self._ids.get(transactional_id)

    def id_of(self, producer_id: int) -> str | None:
        """Whose a producer id is, as far as is noted."""
        return self._by_producer.get(producer_id)

    # -- noting ----------------------------------------------------------------------------------------------

    def asked(self, transactional_id: str, peer: Peer, api: str, version: int, says: Json, *, places: int = 0) -> Asked:
        """A request about an id; `places` how many partitions `says` names."""
        self._requests += 1
        asked = Asked(self.now_ms(), self._requests, peer, api, version, says)
        self._add(transactional_id, asked, places * PLACE_BYTES + _names_in(says) + CLIENT_BYTES * len(peer.client_id))
        return asked

    def answered(self, transactional_id: str, asked: Asked, error: str, gave: Json, claimed: tuple[int, int]) -> None:
        """Its answer; `claimed` the identity that the request had."""
        asked.answered_ms, asked.error, asked.gave = self.now_ms(), error, gave
        of = self._ids.get(transactional_id)
        if of is None:
            return
        if error in TURNED_AWAY:
            self._grow(of, of.fences.turn_away(asked.answered_ms, asked.peer, asked.api, error, claimed))
        elif error == "NONE" and (asked.api == "InitProducerId" or of.holder is None):
            of.holder = asked.peer

    def goes_on(self, transactional_id: str, producer_id: int, epoch: int, partitions: int) -> bool:
        """The open transaction has more partitions: that is counted, and no event. False where it is not known."""
        of = self._ids.get(transactional_id)
        begun = None if of is None else of.beginning
        if begun is None or begun.epoch != epoch or begun.producer_id != producer_id:
            return False
        begun.partitions = partitions
        return True

    def changed(
        self,
        transactional_id: str,
        now_ms: int,
        *,
        state: str,
        producer_id: int,
        epoch: int,
        partitions: int,
        timeout_ms: int,
        because: str,
        is_open: bool,
    ) -> None:
        """A record of the coordinator was written."""
        by = self.current
        event = Changed(now_ms, state, producer_id, epoch, partitions, timeout_ms, because, by)
        of = self._add(transactional_id, event, 0)
        of.timeout_ms = timeout_ms
        if producer_id not in of.producer_ids:
            self._take_producer(transactional_id, of, producer_id)
        if not is_open:
            of.beginning = None
        elif of.beginning is None:
            of.beginning = event
        grown = of.fences.take(event.at_ms, (producer_id, epoch), because, by, own=because.startswith(OWN_RAISE))
        if grown:
            self._grow(of, grown)
        if self.on_ended is not None and state in ENDS:
            self.on_ended(transactional_id, of)

    def wrote(
        self,
        transactional_id: str,
        peer: Peer,
        version: int,
        place: tuple[str, int],
        base_offset: int,
        header: BatchHeader,
        error: str,
        now_ms: int,
    ) -> None:
        """A batch into a partition; of its header the offsets, the identity, and how much there is."""
        of, last_offset, epoch = (
            self._ids.get(transactional_id),
            base_offset + header.last_offset_delta,
            header.producer_epoch,
        )
        run = None if of is None else of.runs.get(place) or (of.runs.get(None) if len(of.runs) > MOST_PLACES else None)
        if run is None or run.peer is not peer or run.epoch != epoch or run.error != error:
            known = place if of is None or len(of.runs) < MOST_PLACES else None
            producer_id, count, size = header.producer_id, header.records_count, header.batch_length
            run = Wrote(
                now_ms,
                now_ms,
                peer,
                version,
                known,
                base_offset,
                last_offset,
                producer_id,
                epoch,
                error,
                1,
                count,
                size,
            )
            weight = PLACE_BYTES + getsizeof(place[0]) + CLIENT_BYTES * len(peer.client_id)
            of = self._add(transactional_id, run, weight, is_run=True)
            of.runs[known] = run
        else:
            run.until_ms, run.last_offset = now_ms, last_offset
            run.batches += 1
            run.records += header.records_count
            run.bytes += header.batch_length
        assert of is not None
        if error == "NONE":
            of.holder = peer
        elif error in TURNED_AWAY:
            self._grow(of, of.fences.turn_away(now_ms, peer, "Produce", error, (header.producer_id, epoch)))

    def marked(
        self,
        producer_id: int,
        epoch: int,
        place: tuple[str, int, int],
        *,
        commit: bool,
        by_operator: bool,
        error: str,
        now_ms: int,
    ) -> None:
        """A marker was appended, or refused; of an id that is not known there is nothing to add to."""
        transactional_id = self._by_producer.get(producer_id)
        of = None if transactional_id is None else self._ids.get(transactional_id)
        if transactional_id is None or of is None:
            return
        last = of.events[-1] if of.events else None
        if (
            not isinstance(last, Marked)
            or last.commit is not commit
            or last.epoch != epoch
            or last.by_operator is not by_operator
            or last.error != error
        ):
            last = Marked(now_ms, now_ms, commit, producer_id, epoch, by_operator, error)
            self._add(transactional_id, last, 0)
        last.until_ms, last.count = now_ms, last.count + 1
        if len(last.places) < MOST_PLACES:
            last.places.append(place)
            weight = PLACE_BYTES + getsizeof(place[0])
            last.weight += weight
            self._grow(of, weight)

    def forgotten(self, transactional_id: str) -> None:
        """The coordinator has forgotten an id that was not used for long."""
        of = self._ids.pop(transactional_id, None)
        if of is not None:
            self._let_go(of)

    # -- bounds ----------------------------------------------------------------------------------------------

    def _add(self, transactional_id: str, event: Event, more: int, *, is_run: bool = False) -> OfId:
        of = self._ids.get(transactional_id)
        if of is None:
            of = self._ids[transactional_id] = OfId(transactional_id)
            self.weight += of.weight
        else:
            self._ids.move_to_end(transactional_id)
        if not is_run and of.runs:
            of.runs = {}
        event.weight += more
        weight, events = event.weight, of.events
        events.append(event)
        if len(events) > MOST_EVENTS:
            weight -= events.popleft().weight
            of.dropped += 1
        of.weight += weight
        self.weight += weight
        if self.weight > self.budget_bytes:
            self._grow(of, 0)
        return of

    def _grow(self, of: OfId, weight: int) -> None:
        of.weight += weight
        self.weight += weight
        while self.weight > self.budget_bytes and len(self._ids) > 1:
            self._let_go(self._ids.popitem(last=False)[1])

    def _let_go(self, of: OfId) -> None:
        self.weight -= of.weight
        for producer_id in of.producer_ids:
            self._by_producer.pop(producer_id, None)

    def _take_producer(self, transactional_id: str, of: OfId, producer_id: int) -> None:
        if len(of.producer_ids) == MOST_PRODUCER_IDS:
            self._by_producer.pop(of.producer_ids.pop(0), None)
        of.producer_ids.append(producer_id)
        self._by_producer[producer_id] = transactional_id


def _names_in(says: Json) -> int:
    """What the names weigh that a request says: of groups, members and topics."""
    weight = sum(getsizeof(one) for one in says.values() if isinstance(one, str))
    return weight + sum(map(getsizeof, {place[0] for place in says.get("places", ())}))
