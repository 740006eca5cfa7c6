"""What the clients of a run did and saw. Checkers read it; its digest shows whether two runs were the same.

Every record that is ever written carries a number of its own as its value, so that all can be distinguished.
`time` in here counts what was noted, so that "before" has one meaning.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.opinion.trace import Circumstances, Trace

Place = tuple[str, int]
"""A topic (with its incarnation, where topics are made again) and a partition."""


@dataclass(slots=True)
class Transaction:
    """A transaction as its client knows it."""

    number: int
    client: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int
    writes: list["Write"] = field(default_factory=list)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """(group, topic, partition) → the offset that was sent in it; acknowledged or not."""
    offsets_sure: bool = True
    decision: bool | None = None
    """What EndTxn requested."""
    decided_at: int | None = None
    outcome: bool | None = None
    """The result of EndTxn: True committed, False aborted, None unknown."""


@dataclass(slots=True)
class Write:
    """One record."""

    number: int
    client: str
    place: Place
    sent_at: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transaction: Transaction | None = None
    source: tuple[Place, int] | None = None
    """The place and offset of the record it was made from."""
    key: bytes | None = None
    acked: bool = False
    offset: int | None = None
    refused: int = 0
    """The last error it got."""
    overtaken: bool = False
    """It was refused, for the partition had let in a later one of its producer first."""
    acks: int = -1
    tombstone: bool = False
    padding: int = 0
    """How many spaces stand behind its number."""
    sends: int = 0
    """How often it was sent, or delivered by a network that repeats."""
    first_sent_s: float = 0.0
    last_sent_s: float = 0.0
    """When it was last seen on the way, on the clock of the clients."""
    topic_ids: set[bytes] = field(default_factory=set)
    """The topics that it was sent to, where that was by id: one that is made again has another."""

    @property
    def idempotent(self) -> bool:
        return self.producer_id >= 0

    def seen_on_the_way(self, now_s: float, *, sent: bool) -> None:
        self.last_sent_s = now_s
        if sent:
            self.first_sent_s = self.first_sent_s or now_s
            self.sends += 1


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as a reader was shown it."""

    time: int
    place: Place
    offset: int
    number: int


@dataclass(slots=True)
class Look:
    """What one fetch said of a partition. Records lie in [position, next_position)."""

    time: int
    sent_at: int
    place: Place
    position: int
    next_position: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    reset: bool
    """The reader had lost its position before this one."""
    near: int = 0
    """The node that has said it, where it may follow what another leads; 0 where only the leader is read."""


@dataclass(frozen=True, slots=True)
class CameBack:
    """Offsets reported to a reader as gone, and brought back by a crash before its request for the log start.
    A reader that goes to the earliest offset then reads again what it had read."""

    time: int
    place: Place
    offsets: range


@dataclass(slots=True)
class Reading:
    """All that one reader saw."""

    reader: str
    committed_only: bool
    seen: list[Seen] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    came_back: list[CameBack] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ownership:
    """A member of a group got its assignment."""

    group: str
    generation: int
    member: str
    places: tuple[Place, ...]
    asked_at: int
    """When it sent its SyncGroup."""


@dataclass(slots=True)
class Holding:
    """A member of a consumer group took a partition for its own, or one of a streams group a task, on the clock of the
    clients."""

    group: str
    member: str
    place: Place
    """By the id of the topic, or the name of the subtopology."""
    begin_s: float
    end_s: float
    """It gave it back then, or had to reckon with the end of its session."""


@dataclass(frozen=True, slots=True)
class EpochCommit:
    """A member of a consumer group committed, and was not refused."""

    group: str
    member: str
    place: Place
    sent_s: float


@dataclass(frozen=True, slots=True)
class Handing:
    """A member of a share group was handed records, by a request that it sent at `sent_at`."""

    member: str
    place: Place
    offsets: range
    records: frozenset[int]
    """Those of them that are records."""
    deliveries: int
    sent_at: int
    heard_at: int


@dataclass(slots=True)
class Saying:
    """What a member of a share group said of what it was handed."""

    handing: Handing
    offset: int
    kind: int
    sent_at: int
    kept_at: int | None = None
    """When it was told that it is so."""
    refused: bool = False
    """It was told that it is not."""


@dataclass(frozen=True, slots=True)
class Claim:
    """InitProducerId was answered: from now on, whatever is sent by an older epoch of the id must come to nothing."""

    time: int
    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Commit:
    """What a client without a group committed: the last offset that was acknowledged, and the last it sent."""

    acked: int = -1
    sent: int = -1


@dataclass(slots=True)
class FinalPartition:
    """A partition as it is found when all is over."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    committed: list[tuple[int, int]]
    """(offset, number) of what a read_committed reader is shown."""
    everything: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Forgetting:
    """How the broker forgets producers in a silence, before which it came back with another age for them."""

    since_s: float
    """When it served with that age, on the clock of the clients."""
    expiration_ms: int
    age_ms: Callable[[float, float], int]
    """How old the broker takes a producer to be that was used at the first of two moments, at the second: by its own
    clock, which may have been set in between."""


class History:
    """See the head of this file."""

    ids_grow = True
    """Producer ids do. Where several nodes hand them out, each has its own."""
    loses = False
    """See `Plan`. Then no promise is kept for certain."""
    record_bytes = 0

    def __init__(self) -> None:
        self.time = 0
        self.events: list[tuple[object, ...]] = []
        self.writes: list[Write] = []
        self.transactions: list[Transaction] = []
        self.readings: list[Reading] = []
        self.ownerships: list[Ownership] = []
        self.holdings: list[Holding] = []
        self.epoch_commits: list[EpochCommit] = []
        self.handings: list[Handing] = []
        self.sayings: list[Saying] = []
        self.shares: str = ""
        """What a share group reads: "committed" or "everything"; "" where there is none."""
        self.claims: list[Claim] = []
        self.trims: dict[Place, int] = {}
        """The highest offset ever requested by DeleteRecords."""
        self.unknown_trims: dict[Place, int] = {}
        """The highest offset of those that were not answered, or refused."""
        self.starts: dict[Place, list[int]] = {}
        """The results of requests for the earliest offset."""
        self.forgotten: set[str] = set()
        """Topics that were deleted, at the end or in between."""
        self.compacted: set[str] = set()
        self.ends: list[int] = []
        """When the broker ended, in order or not."""
        self.ended_at = 0
        """When it last did, or began to in order."""
        self.serves: list[int] = []
        """When it served again after that."""
        self.crashes: list[int] = []
        """When the broker ended otherwise than in order."""
        self.losses: list[int] = []
        """When what was not synced could be lost: the power was cut, or the disk had failed."""
        self.commits: dict[tuple[str, str, int], Commit] = {}
        self.forgets_producers_ms: int | None = None
        self.forgets_offsets = False
        """See `Plan`; these three."""
        self.silence: Forgetting | None = None  # until it begins
        self.steps_ahead: list[int] = []
        """When the clock was set so far forward that the broker looks at once for groups that nobody needs, or when so
        much time was over."""
        self.vanished: list[tuple[Place, int]] = []
        """Segments that the disk had spoilt, by their first offset, and that are gone."""
        self.final: dict[Place, FinalPartition] = {}
        self.final_offsets: dict[tuple[str, str, int], int] = {}
        self.violations: list[str] = []
        self.trace = Trace()
        """Every request and response, for the second opinion."""
        self.circumstances = Circumstances(restarts=True)

    def note(self, *event: object) -> int:
        """Write something down; returns its time."""
        self.time += 1
        self.events.append(event)
        return self.time

    def violation(self, text: str, *, of_promise: bool = False) -> None:
        """A client saw with its own eyes what must not be; `of_promise`: after what it was told."""
        if of_promise and self.loses:
            return
        self.note("violation", text)
        self.violations.append(text)

    def write(
        self,
        client: str,
        place: Place,
        *,
        producer: tuple[int, int],
        sequence: int,
        transaction: Transaction | None = None,
        source: tuple[Place, int] | None = None,
        key: bytes | None = None,
        tombstone: bool = False,
        acks: int = -1,
    ) -> Write:
        """A record that is about to be sent for the first time."""
        number = len(self.writes)
        time = self.note("write", client, place, number, producer, sequence)
        made = Write(number, client, place, time, *producer, sequence, transaction, source, key)
        made.tombstone, made.acks = tombstone, acks
        made.padding = self.record_bytes if number % 10 == 0 else 0
        self.writes.append(made)
        if transaction is not None:
            transaction.writes.append(made)
        return made

    def begin(self, client: str, transactional_id: str, producer: tuple[int, int], version: int) -> Transaction:
        made = Transaction(len(self.transactions), client, transactional_id, *producer, version)
        self.note("begin", client, made.number, producer)
        self.transactions.append(made)
        return made

    def told_start(self, place: Place) -> int:
        """The farthest log start in any response; after a crash the log may begin earlier again."""
        looks = (look.log_start_offset for reading in self.readings for look in reading.looks if look.place == place)
        return max(self.trims.get(place, 0), *self.starts.get(place, [0]), *looks, 0)

    def discard(self) -> None:
        """Nobody reads it any more. What is left of a run refers to it, and so would keep all that is in it until the
        collector has looked at each piece."""
        vars(self).clear()

    def digest(self) -> str:
        """The same for the same run, and for no other."""
        found = hashlib.sha256()
        for event in self.events:
            found.update(repr(event).encode())
        return found.hexdigest()[:16]
