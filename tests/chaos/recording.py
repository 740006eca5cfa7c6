"""What workers and readers write down, and how it becomes the history that the simulation's checkers read.

One line of JSON per event, in a file per process, with the machine's monotonic clock: so that the files of all of them
can be put into one order. A line is written out before the process goes on. The value of every record is a number that
no other record has.
"""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.simulation.history import Claim, History, Reading, Seen, Transaction, Write

NUMBERS_PER_WORKER = 10_000_000


class Recorder:
    """Appends to one file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def note(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"at": time.monotonic_ns(), "event": event, **fields}) + "\n")


def events_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Every event, in order. The last line of a process that was killed may be cut."""
    found = [event for path in sorted(paths) for event in _lines(path)]
    return sorted(found, key=lambda event: int(event["at"]))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


class Loaded:
    """A history, and which record of it bears which number."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.history = History()
        self.index: dict[int, int] = {}
        self.steps = 0
        self._ids: dict[str, int] = {}
        self._epochs: dict[tuple[str, str, int], int] = {}
        """(id, worker, incarnation) → a number that grows with each claim of the id."""
        self._claiming: dict[tuple[str, str, int], int] = {}
        self._claims: list[tuple[str, int, int, int, int]] = []
        self._transactions: dict[tuple[str, int], Transaction] = {}
        self._readings: dict[str, Reading] = {}
        self._sequences: dict[tuple[object, ...], int] = {}
        for event in events_of(paths):
            self.steps += 1
            getattr(self, "_" + event["event"].replace("-", "_"))(event)
        self._claims_that_are_certain()

    def write_of(self, number: int) -> Write | None:
        found = self.index.get(number)
        return None if found is None else self.history.writes[found]

    # -- events of workers -------------------------------------------------------------------------------------

    def _claiming_began(self, event: dict[str, Any]) -> None:
        key = (event["id"], event["worker"], event["incarnation"])
        self._claiming.setdefault(key, self.history.note("claiming", *key))

    def _claimed(self, event: dict[str, Any]) -> None:
        key = (event["id"], event["worker"], event["incarnation"])
        number = self._ids.setdefault(event["id"], len(self._ids))
        self._epochs[key] = 1 + sum(known[0] == event["id"] for known in self._epochs)
        self._claims.append(
            (event["id"], number, self._epochs[key], self._claiming[key], self.history.note("claimed", *key))
        )

    def _begin(self, event: dict[str, Any]) -> None:
        producer = self._producer_of(event)
        made = self.history.begin(event["worker"], event["id"], producer, event["version"])
        self._transactions[event["worker"], event["transaction"]] = made

    def _producer_of(self, event: dict[str, Any]) -> tuple[int, int]:
        """Clients do not expose their producer id and epoch; which of them is the newer one is known anyhow."""
        if event.get("id") is None:
            number = self._ids.setdefault(event["worker"], len(self._ids))
            return number, int(event["incarnation"])
        return self._ids[event["id"]], self._epochs[event["id"], event["worker"], event["incarnation"]]

    def _write(self, event: dict[str, Any]) -> None:
        place = (event["topic"], event["partition"])
        transaction = self._transactions.get((event["worker"], event["transaction"]))
        producer = self._producer_of(event)
        # A sequence per transaction would do; one that only grows is as good.
        line = (producer, event["worker"], place)
        sequence = self._sequences[line] = self._sequences.get(line, -1) + 1
        made = self.history.write(event["worker"], place, producer=producer, sequence=sequence, transaction=transaction)
        self.index[event["number"]] = made.number

    def _acked(self, event: dict[str, Any]) -> None:
        write = self.history.writes[self.index[event["number"]]]
        write.acked, write.offset = True, event["offset"]

    def _offsets(self, event: dict[str, Any]) -> None:
        transaction = self._transactions[event["worker"], event["transaction"]]
        transaction.offsets |= {
            (group, topic, partition): offset for group, topic, partition, offset in event["offsets"]
        }

    def _decide(self, event: dict[str, Any]) -> None:
        transaction = self._transactions[event["worker"], event["transaction"]]
        if transaction.decision is None or event["commit"]:
            transaction.decision = event["commit"]
            transaction.decided_at = self.history.note("decides", event["worker"], event["commit"])

    def _end(self, event: dict[str, Any]) -> None:
        self._transactions[event["worker"], event["transaction"]].outcome = event["outcome"]

    def _troubled(self, event: dict[str, Any]) -> None:
        """For people reading the file."""

    def _answered(self, event: dict[str, Any]) -> None:
        """For the history of operations (`tests.chaos.operations`)."""

    _assigned = _answered

    def _claims_that_are_certain(self) -> None:
        """A claim fences the ones before it; the order of two that overlap is unknown."""
        for name, number, epoch, began, ended in self._claims:
            overlapping = [
                other
                for other in self._claims
                if other[0] == name and other[2] != epoch and began < other[4] and other[3] < ended
            ]
            if not overlapping:
                self.history.claims.append(Claim(ended, name, number, epoch))

    # -- events of readers -------------------------------------------------------------------------------------

    def _read(self, event: dict[str, Any]) -> None:
        reading = self._readings.get(event["reader"])
        if reading is None:
            reading = self._readings[event["reader"]] = Reading(event["reader"], committed_only=True)
            self.history.readings.append(reading)
        time_seen = self.history.note("read", event["reader"])
        for topic, partition, offset, number in event["records"]:
            index = self.index.get(number)
            if index is None:
                self.history.violation(f"{event['reader']} was shown {number}, which nobody wrote before")
            else:
                reading.seen.append(Seen(time_seen, (topic, partition), offset, index))
