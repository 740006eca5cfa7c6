"""What must hold in every state. Each looks at the broker and at Spark's notes, and says what it sees wrong.

"Visible" is what a reader with read_committed gets once every end marker that is decided on has been written: between
the decision and the last of them a reader may see a part, as with any Kafka transaction over several partitions.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.sink_model.explore import Broken, Sentence
from tests.sink_model.faults import new_try, without_faults
from tests.sink_model.kafka import CONTROL, MARKER, Broker, Phase, Request, Row, committed, fence, settled
from tests.sink_model.requests import task_request, without_the_void
from tests.sink_model.settings import Setting
from tests.sink_model.steps import OLDER_COPY
from tests.sink_model.world import Left, Noted, World

Brokers = tuple[Broker, ...]
Property = Callable[[Setting, Brokers, Noted], str | None]

_RESTARTS = 3
_STEPS = 200
_WEDGE = "I6 no wedge"


def visible(brokers: Brokers) -> list[Row]:
    """All that readers see of all sink ids."""
    return [row for broker in brokers for partition in settled(broker).partitions for row in committed(partition.log)]


def _batches(setting: Setting) -> Iterator[tuple[int, int]]:
    for query, batches in enumerate(setting.queries):
        for batch in range(len(batches)):
            yield query, batch


def no_duplicates(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """I1: no row of a batch, and no marker, is visible twice."""
    counts = Counter((row.query, row.batch, max(row.number, MARKER)) for row in visible(brokers))
    for row, count in counts.items():
        if count > 1:
            return f"{_words(row)} is visible {count} times"
    return None


def no_loss(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """I2: what Spark has noted as done is visible."""
    shown = {(row.query, row.batch, row.number) for row in visible(brokers)}
    for query, batch in _batches(setting):
        if query < len(noted) and batch < len(noted[query]):
            for row in sorted(setting.content(query, batch, noted[query][batch])):
                is_row = row.number > MARKER
                if is_row and (row.query, row.batch, row.number) not in shown:
                    return f"{_words(row)} is not visible, and Spark has noted the batch as done"
    return None


def markers_in_order(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """I3: the visible markers of a query are 0, 1, 2 and so on."""
    by_sink = [committed(settled(broker).partitions[CONTROL].log) for broker in brokers]
    for query in range(len(setting.queries)):
        batches = sorted(row.batch for rows in by_sink for row in rows if row.query == query)
        if any(rows != tuple(sorted(rows, key=lambda row: row.batch)) for rows in _of_query(by_sink, query)):
            return f"the visible markers of a sink are not in order: {by_sink}"
        if batches != list(range(len(batches))):
            return f"the visible markers are those of the batches {batches}"
    return None


def _of_query(by_sink: Sequence[tuple[Row, ...]], query: int) -> list[tuple[Row, ...]]:
    return [tuple(row for row in rows if row.query == query) for rows in by_sink]


def the_fenced_add_nothing(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """I4: what was appended under an epoch that was over never becomes visible."""
    for row in visible(brokers):
        if row.late:
            return f"{_words((row.query, row.batch, row.number))} was written by a fenced writer and is visible"
    return None


def all_or_nothing(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """I5: a batch is visible with all its rows and its marker, or not at all."""
    shown = {(row.query, row.batch, row.number) for row in visible(brokers)}
    for query, batch in _batches(setting):
        seen = {row for row in shown if row[:2] == (query, batch)}
        plan = next((MARKER - row[2] for row in seen if row[2] <= MARKER), 0)
        missing = {(row.query, row.batch, row.number) for row in setting.content(query, batch, plan)} - shown
        if seen and missing:
            return f"{_words(min(missing))} is missing, the rest of its batch is visible"
    return None


def no_wedge(setting: Setting, brokers: Brokers, noted: Noted, plan: int = 0) -> str | None:
    """I6: wherever things stand, drivers that are left in peace bring the query to its end."""
    said: Sentence = ("there is nothing to do",)
    quiet = replace(setting, drivers=0, attempts=0, repeats=0, timeouts=0)
    for _ in range(_RESTARTS):
        world = new_try(World(brokers, noted, Left(0, 0, 0, 0), plan=plan), quiet, 9)
        for _ in range(_STEPS):
            move = next((move for move in without_faults(world, quiet) if move[1] != world), None)
            if move is None:
                break
            said, world = move[0], without_the_void(move[1], quiet)
        brokers, noted = world.brokers, world.noted
        if len(noted[-1]) == len(setting.queries[len(noted) - 1]):
            return None
    last = str(said[0]).format(*said[1:])
    if plan and OLDER_COPY in last:
        return None  # Somebody has put an older copy there, and is told.
    return (
        f"{_RESTARTS} drivers in a row, undisturbed, do not get past batch {len(noted[-1])}; the last one ends: {last}"
    )


def nothing_stays_open(setting: Setting, brokers: Brokers, noted: Noted) -> str | None:
    """L1: if every driver died now, the timeout alone would free the readers of all partitions."""
    for broker in brokers:
        after = settled(fence(broker)) if broker.phase is Phase.ONGOING else settled(broker)
        for number, partition in enumerate(after.partitions):
            if partition.is_open:
                where = "the control topic" if number == CONTROL else f"partition {number}"
                return f"{where} holds a row of a transaction that nobody will end"
    return None


PROPERTIES: Mapping[str, Property] = {
    "I1 no duplicates": no_duplicates,
    "I2 no loss": no_loss,
    "I3 markers in order": markers_in_order,
    "I4 the fenced add nothing": the_fenced_add_nothing,
    "I5 all or nothing": all_or_nothing,
    _WEDGE: no_wedge,
    "L1 nothing stays open": nothing_stays_open,
}
SEQUENCES = "I7 one task per sequence"
"""Looks at what is under way, too."""


class Checker:
    """All properties of a state. What two states have in common is looked at once."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._right: set[tuple[Brokers, Noted, int]] = set()

    def __call__(self, world: World) -> Broken | None:
        wrong = one_task_per_sequence(self._setting, world)
        if wrong is not None:
            return Broken(SEQUENCES, wrong)
        seen = (world.brokers, world.noted, world.plan)
        if seen in self._right:
            return None
        for name, holds in PROPERTIES.items():
            wrong = holds(self._setting, *seen[:2]) if name != _WEDGE else no_wedge(self._setting, *seen)
            if wrong is not None:
                return Broken(name, wrong)
        self._right.add(seen)
        return None


def one_task_per_sequence(setting: Setting, world: World) -> str | None:
    """I7: what is under way for a sequence number of a partition is what the log has there, and the same row.

    The broker takes whatever comes second for a repetition, and drops it without a word.
    """
    used: dict[tuple[int, int, int, int], int] = {}
    for request in _under_way(setting, world):
        assert request.row is not None
        key = (request.sink, request.epoch, request.partition, request.sequence)
        number = used.setdefault(key, request.row.number)
        at = world.brokers[request.sink].partitions[request.partition]
        written = [row for row in at.log if isinstance(row, Row)]
        if at.epoch == request.epoch and request.sequence < at.next_sequence:
            number = written[request.sequence - at.next_sequence].number
        if number != request.row.number:
            where = f"sequence {request.sequence} of partition {request.partition}"
            return f"{where} is used for row {number} and for row {request.row.number}"
    return None


def _under_way(setting: Setting, world: World) -> Iterator[Request]:
    for task in world.tasks:
        request = task_request(setting, task)
        if request is not None and request.kind == "produce":
            yield request
    yield from (request for request in world.net if request.kind == "produce")


def _words(row: tuple[int, int, int] | Row) -> str:
    query, batch, number = row[:3]
    what = "the marker" if number <= MARKER else f"row {number}"
    return f"{what} of batch {batch}" + (" of the new checkpoint" if query else "")
