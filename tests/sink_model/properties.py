"""What must hold in every state. Each looks at the broker and at Spark's notes, and says what it sees wrong.

"Visible" is what a reader with read_committed gets once every end marker that is decided on has been written: between
the decision and the last of them a reader may see a part, as with any Kafka transaction over several partitions.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.sink_model.explore import Broken, Sentence
from tests.sink_model.faults import new_try, without_faults
from tests.sink_model.kafka import CONTROL, MARKER, Broker, Phase, Row, committed, fence, settled
from tests.sink_model.requests import without_the_void
from tests.sink_model.settings import Setting
from tests.sink_model.world import Left, World

Property = Callable[[Setting, Broker, tuple[int, ...]], str | None]

_RESTARTS = 3
_STEPS = 200


def visible(broker: Broker) -> list[Row]:
    return [row for partition in settled(broker).partitions for row in committed(partition.log)]


def _batches(setting: Setting) -> Iterator[tuple[int, int]]:
    for query, batches in enumerate(setting.queries):
        for batch in range(len(batches)):
            yield query, batch


def no_duplicates(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I1: no row of a batch, and no marker, is visible twice."""
    counts = Counter((row.query, row.batch, row.number) for row in visible(broker))
    for row, count in counts.items():
        if count > 1:
            return f"{_words(row)} is visible {count} times"
    return None


def no_loss(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I2: what Spark has noted as done is visible."""
    shown = {(row.query, row.batch, row.number) for row in visible(broker)}
    for query, batch in _batches(setting):
        if query < len(noted) and batch < noted[query]:
            for row in sorted(setting.content(query, batch)):
                is_row = row.number != MARKER
                if is_row and (row.query, row.batch, row.number) not in shown:
                    return f"{_words(row)} is not visible, and Spark has noted the batch as done"
    return None


def markers_in_order(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I3: the visible markers of a query are 0, 1, 2 and so on."""
    markers = [row for row in committed(settled(broker).partitions[CONTROL].log) if row.number == MARKER]
    for query in range(len(setting.queries)):
        batches = [row.batch for row in markers if row.query == query]
        if batches != list(range(len(batches))):
            return f"the visible markers are those of the batches {batches}"
    return None


def the_fenced_add_nothing(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I4: what was appended under an epoch that was over never becomes visible."""
    for row in visible(broker):
        if row.late:
            return f"{_words((row.query, row.batch, row.number))} was written by a fenced writer and is visible"
    return None


def all_or_nothing(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I5: a batch is visible with all its rows and its marker, or not at all."""
    shown = {(row.query, row.batch, row.number) for row in visible(broker)}
    for query, batch in _batches(setting):
        content = {(row.query, row.batch, row.number) for row in setting.content(query, batch)}
        missing = content - shown
        if missing and missing != content:
            return f"{_words(min(missing))} is missing, the rest of its batch is visible"
    return None


def no_wedge(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """I6: wherever things stand, drivers that are left in peace bring the query to its end."""
    said: Sentence = ("there is nothing to do",)
    quiet = replace(setting, drivers=0, attempts=0, repeats=0, timeouts=0)
    for _ in range(_RESTARTS):
        world = new_try(World(broker, noted, Left(0, 0, 0, 0)), quiet, 9)
        for _ in range(_STEPS):
            move = next((move for move in without_faults(world, quiet) if move[1] != world), None)
            if move is None:
                break
            said, world = move[0], without_the_void(move[1], quiet)
        broker, noted = world.broker, world.noted
        if noted[-1] == len(setting.queries[len(noted) - 1]):
            return None
    last = str(said[0]).format(*said[1:])
    return f"{_RESTARTS} drivers in a row, undisturbed, do not get past batch {noted[-1]}; the last one ends so: {last}"


def nothing_stays_open(setting: Setting, broker: Broker, noted: tuple[int, ...]) -> str | None:
    """L1: if every driver died now, the timeout alone would free the readers of all partitions."""
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
    "I6 no wedge": no_wedge,
    "L1 nothing stays open": nothing_stays_open,
}


class Checker:
    """All properties of a state. What two states have in common is looked at once."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._right: set[tuple[Broker, tuple[int, ...]]] = set()

    def __call__(self, world: World) -> Broken | None:
        seen = (world.broker, world.noted)
        if seen in self._right:
            return None
        for name, holds in PROPERTIES.items():
            wrong = holds(self._setting, *seen)
            if wrong is not None:
                return Broken(name, wrong)
        self._right.add(seen)
        return None


def _words(row: tuple[int, int, int] | Row) -> str:
    query, batch, number = row[:3]
    what = "the marker" if number == MARKER else f"row {number}"
    return f"{what} of batch {batch}" + (" of the new checkpoint" if query else "")
