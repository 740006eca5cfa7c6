"""One worker of a chaos run, a process of its own: `python -m tests.chaos.worker '{"client": "java", ...}'`.

A producer makes transactions (or plain idempotent writes) until the file `stop` appears, a reader reads. In half of its
transactions a producer consumes, too, and sends the offsets. All write down the results, and never believe anything
else. A worker that is fenced ends: another one has its id.
"""

import json
import logging
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.consuming import Consuming
from tests.chaos.drivers.driver import (
    ABORTABLE,
    RETRIABLE,
    TRANSACTION_VERSION,
    Driver,
    Failed,
    Place,
    make_driver,
    make_member,
    make_reader,
)
from tests.chaos.recording import NUMBERS_PER_WORKER, Recorder

TIMEOUT_MS = 30_000
PAUSE_S = 0.005


@dataclass(frozen=True)
class Assignment:
    """The arguments of a worker, from its command line."""

    name: str
    kind: str
    """transactional, idempotent or reader"""
    client: str
    bootstrap: str
    folder: str
    number: int
    seed: int
    partitions: int
    transactional_id: str = ""
    timeout_ms: int = TIMEOUT_MS

    @property
    def topic(self) -> str:
        return "plain" if self.kind == "idempotent" else "transactional"


class Worker:
    """See the head of this file."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.random = random.Random(assignment.seed)
        self.recorder = Recorder(Path(assignment.folder) / f"{assignment.name}.jsonl")
        self._stop = Path(assignment.folder) / "stop"
        self._next_number = assignment.number * NUMBERS_PER_WORKER
        self._transaction = 0
        self._incarnation = 0
        self._driver: Driver | None = None
        self._consuming: Consuming | None = None

    @property
    def process(self) -> str:
        """The client instance that is at work, which is what a history calls a process."""
        return f"{self.assignment.name}/{self._incarnation}"

    @property
    def stopping(self) -> bool:
        return self._stop.exists()

    def note(self, event: str, **fields: Any) -> None:
        self.recorder.note(event, worker=self.assignment.name, **fields)

    # -- producers ---------------------------------------------------------------------------------------------

    def produce(self) -> None:
        while not self.stopping:
            try:
                if self._driver is None:
                    self._driver = self._made()
                if self._consuming is not None:
                    self._one_transaction(self._driver, self._consuming)
                else:
                    self._plain_writes(self._driver)
                time.sleep(PAUSE_S)
            except Failed as failed:
                self.note("troubled", reason=str(failed))
                self._let_go()
                if "enced" in str(failed):
                    return
                time.sleep(0.1)
        self._let_go()

    def _let_go(self) -> None:
        if self._consuming is not None:
            try:
                self._consuming.member.close()
            except Failed as failed:
                self.note("troubled", reason=str(failed))
            self._consuming = None
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _made(self) -> Driver:
        transactional_id = self.assignment.transactional_id or None
        self._incarnation += 1
        named = {"id": transactional_id, "incarnation": self._incarnation}
        if transactional_id is not None:
            self.note("claiming-began", **named)
        driver = make_driver(
            self.assignment.client, self.assignment.bootstrap, transactional_id, self.assignment.timeout_ms
        )
        try:
            self._patiently(driver.init)
        except Failed:
            driver.close()
            raise
        if transactional_id is not None:
            self.note("claimed", **named)
            self._driver = driver  # if the next step fails it is closed
            # What was decided of the id's transactions is done now, its offsets with it.
            places = [(self.assignment.topic, index) for index in range(self.assignment.partitions)]
            member = make_member(self.assignment.client, self.assignment.bootstrap, transactional_id, places)
            self._consuming = Consuming(member, self.process, self.note)
        return driver

    def _patiently(self, call: Any) -> None:
        """As long as the client says that a call may be repeated."""
        while True:
            try:
                return call()
            except Failed as failed:
                if failed.kind != RETRIABLE:
                    raise
                self.note("troubled", reason=str(failed))

    def _one_transaction(self, driver: Driver, consuming: Consuming) -> None:
        self._transaction += 1
        named = {
            "id": self.assignment.transactional_id,
            "incarnation": self._incarnation,
            "transaction": self._transaction,
        }
        polls_at = self.random.choice(("first", "last", "never", "never"))
        commit = self.random.random() < 0.8
        self.note("begin", version=TRANSACTION_VERSION[self.assignment.client], **named)
        try:
            if polls_at == "first":
                consuming.poll(**named)
            driver.begin()
            self._write(driver, self.random.choice((1, 3, 6)))
            if polls_at == "last":
                consuming.poll(**named)
            self._send_offsets(driver, consuming, named)
            self.note("decide", commit=commit, **named)
            self._patiently(driver.commit if commit else driver.abort)
            self.note("end", outcome=commit, **named)
        except Failed as failed:
            if failed.kind != ABORTABLE:
                raise
            self.note("troubled", reason=str(failed))
            commit = False
            self.note("decide", commit=commit, **named)
            self._patiently(driver.abort)
            self.note("end", outcome=commit, **named)
        if commit:
            consuming.committed()
        else:
            consuming.aborted()

    def _send_offsets(self, driver: Driver, consuming: Consuming, named: dict[str, Any]) -> None:
        group, positions = self.assignment.transactional_id, consuming.positions()
        if positions:
            self.note("offsets", offsets=[(group, *place, offset) for place, offset in positions.items()], **named)
            self._patiently(lambda: driver.send_offsets(group, positions, consuming.member))

    def _plain_writes(self, driver: Driver) -> None:
        self._transaction += 1
        self._write(driver, 20)

    def _write(self, driver: Driver, count: int) -> None:
        """Some records at random places; waits until each was answered. In a transaction a lost one is a failure."""
        places = [(self.assignment.topic, self.random.randrange(self.assignment.partitions)) for _ in range(count)]
        numbers = [self._number(place) for place in places]
        for place, number in zip(places, numbers, strict=True):
            driver.send(place, b"%d" % number, self.assignment.name.encode())
        answers = driver.sent()
        for number, offset in zip(numbers, answers, strict=False):
            if offset is not None:
                self.note("acked", number=number, offset=offset)
        self.note("answered", incarnation=self._incarnation, transaction=self._transaction)
        if None in answers:
            raise Failed(ABORTABLE if self.assignment.transactional_id else "fatal", "a record was not taken")

    def _number(self, place: Place) -> int:
        number = self._next_number
        self._next_number += 1
        self.note(
            "write",
            number=number,
            topic=place[0],
            partition=place[1],
            id=self.assignment.transactional_id or None,
            incarnation=self._incarnation,
            transaction=self._transaction,
            key=self.assignment.name,
        )
        return number

    # -- readers -----------------------------------------------------------------------------------------------

    def read(self) -> None:
        places = [(topic, index) for topic in ("plain", "transactional") for index in range(self.assignment.partitions)]
        times = 0
        while not self.stopping:
            times += 1
            name = f"{self.assignment.name}-{times}"
            try:
                reader = make_reader(self.assignment.client, self.assignment.bootstrap, places)
                self.note("assigned", process=name, positions=[(*place, 0) for place in places])
                while not self.stopping:
                    invoked = time.monotonic_ns()
                    records = [(*place, offset, int(value)) for place, offset, value in reader.poll(0.2)]
                    if records:
                        self.note("read", reader=name, invoked=invoked, records=records)
            except Failed as failed:
                self.note("troubled", reason=str(failed))
                time.sleep(0.2)


class FirstWords(logging.StreamHandler[Any]):
    """What a client's library says in its log, a few times: one that is in trouble may say it for ever."""

    left = 100

    def emit(self, record: logging.LogRecord) -> None:
        if self.left:
            self.left -= 1
            super().emit(record)


def main(assignment: str) -> None:
    logging.basicConfig(level=logging.ERROR, handlers=[FirstWords()])
    worker = Worker(Assignment(**json.loads(assignment)))
    if worker.assignment.kind == "reader":
        worker.read()
    else:
        worker.produce()


if __name__ == "__main__":
    main(sys.argv[1])
    # Threads of clients that were let go may be at work still: an interpreter that is taken down under them may crash.
    sys.stderr.flush()
    os._exit(0)
