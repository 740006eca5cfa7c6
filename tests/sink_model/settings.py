"""What is searched: how many drivers, batches and faults, under which rules, and with which flaw, if any.

A flaw is the protocol with one thing wrong. The model is worth its name only if each is noticed.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from tests.sink_model.kafka import MARKER, TV2, Row, Rules

Batch = tuple[tuple[int, ...], ...]
"""For each partition of rows, the numbers of the rows that a batch has for it."""

FULL: Batch = ((0,), (1,))
EMPTY: Batch = ((), ())
ONE_ROW: Batch = ((0,),)
NO_ROW: Batch = ((),)
ROWS_IN_A_ROW: Batch = ((0, 1), (2,))
"""Two rows for the first partition: their order may differ from attempt to attempt."""


class Mode(Enum):
    ONE_WRITER = "A1"
    MANY_WRITERS = "An"
    ALL_TASKS = "format"
    """`kafka-eos` with all tasks: as An, but only Spark can run a task again, and not one that it has the result of."""


class Flaw(Enum):
    """What is done wrong."""

    NONE = "nothing"
    MARKER_BEFORE_FENCE = "the marker is read before the lease is taken"
    LEASE_IN_STREAM_WRITER = "streamWriter() takes a lease, and so the commit worker does, too"
    ABORT_UNDECIDED = "abort() is taken although the batch is decided"
    SKIP_BY_SINK = "the marker's key is the sinkId alone, without the query"
    END_WHEN_EMPTY = "an empty batch writes no marker, and its empty transaction is ended"
    TWO_ATTEMPTS = "two attempts of a task may write"
    MARKER_UP_TO_STABLE = "the marker is read only up to the last stable offset"
    NO_MARKER = "there is no marker: every batch is written whenever Spark asks"
    NOTE_BEFORE_END = "the driver does not wait for EndTxn's answer"
    RETRY_UNDER_SAME_LEASE = "a failed batch is tried again under the lease it has"
    RETRY_WITHOUT_LOOKING = "a batch is tried again without reading the marker anew"
    ABORT_BEFORE_RETRY = "a batch that is tried again is aborted by EndTxn, and then the lease is taken"
    ABORT_UNDER_OLD_RULES = "a driver that gives up sends EndTxn(abort) under the old rules, too"
    KEYED_BY_PATH = "the sink's id is made of the checkpoint's path"
    NOT_COMPARED = "a marker of the same batch is believed, whatever the checkpoint has planned for it"
    OLD_NAME_FORGOTTEN = "a newer build does not look for markers under the name that the older one made of the path"
    PASSED_ON = "a turn that its task does not give back is handed to another one"
    BACK_TOO_SOON = "a turn is given back when its rows are sent, before they are acknowledged"
    FROM_ZERO = "each turn begins with sequence number 0"
    REFUSED_IS_DONE = "an attempt that is refused counts as its task's result"
    LEASES_NOT_COMPARED = "results of several leases are committed as if they were of one"


@dataclass(frozen=True, slots=True)
class Setting:
    """One search."""

    mode: Mode = Mode.ONE_WRITER
    rules: Rules = TV2
    flaw: Flaw = Flaw.NONE
    queries: tuple[tuple[Batch, ...], ...] = ((FULL, EMPTY),)
    """The batches of each query; a later query begins when the user starts from an empty checkpoint."""
    drivers: int = 2
    """How many driver processes may be started, dead or alive."""
    attempts: int = 1
    """How often an attempt may be given up for another one, though it lives."""
    repeats: int = 1
    """How often a request may be sent again while its first copy is under way."""
    timeouts: int = 1
    """How often the coordinator finds a transaction too old."""
    stops: int = 0
    """How often Spark may give a batch up, so that its driver aborts."""
    moves: int = 0
    """How often a driver may start on the checkpoint in another place: moved, or copied while another uses it."""
    restores: int = 0
    """How often the checkpoint may be replaced by a copy that is one batch older, which plans that batch anew."""
    tasks: int = 2
    """How many tasks a batch has, and its rows are dealt out to (An)."""
    is_upgrade: bool = False
    """Whether the first driver is of an older build, which names its sink after the path; dead when others start."""

    @property
    def sinks(self) -> int:
        """How many sink ids there are."""
        if self.flaw is Flaw.KEYED_BY_PATH:
            return 1 + self.moves
        return 1 + self.is_upgrade

    @lru_cache(maxsize=1 << 12)  # noqa: B019
    def rows(self, query: int, batch: int, plan: int = 0) -> tuple[tuple[int, ...], ...]:
        """By partition. A later plan of a batch has a row more: the source has gone on."""
        first, *others = self.queries[query][batch]
        return (*((*first, 10 + plan),), *others) if plan else self.queries[query][batch]

    def rows_of_task(self, number: int, query: int, batch: int, plan: int = 0) -> tuple[tuple[int, int], ...]:
        """Partition and number of each row of a task (An). Rows of a partition are dealt out to the tasks."""
        dealt = enumerate(self.rows(query, batch, plan))
        return tuple((at, row) for at, rows in dealt for place, row in enumerate(rows) if place % self.tasks == number)

    def partitions(self) -> int:
        """Without the control topic's."""
        return len(self.queries[0][0])

    def content(self, query: int, batch: int, plan: int) -> frozenset[Row]:
        """Everything that must be seen of a batch: its rows and its marker."""
        numbers = [number for rows in self.rows(query, batch, plan) for number in rows]
        return frozenset(Row(query, batch, number) for number in (*numbers, MARKER - plan))
