"""What workers wrote down becomes a history of operations, and an anomaly in it is found."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.operations import Operations, last_look
from tests.histories.checker import check
from tests.histories.operation import FAIL, INFO, OK, TXN
from tests.simulation.history import FinalPartition, History

PLACE = ("transactional", 0)
NAMED = {"id": "x", "incarnation": 1, "transaction": 1}


class Book:
    """The file of one worker: a transaction that polled a record, wrote two, and sent offsets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a.jsonl"
        self.now = 0

    def note(self, event: str, **fields: Any) -> None:
        self.now += 1
        with self.path.open("a") as file:
            file.write(json.dumps({"at": self.now, "event": event, "worker": "a", **fields}) + "\n")

    def plain(self, number: int) -> None:
        batch = {"id": None, "incarnation": 1, "transaction": 0}
        self.note("write", number=number, topic=PLACE[0], partition=PLACE[1], key="a", **batch)
        self.note("acked", number=number, offset=number)
        self.note("answered", **batch)

    def transaction(self, *ending: tuple[str, dict[str, Any]]) -> None:
        self.note("claiming-began", id="x", incarnation=1)
        self.note("claimed", id="x", incarnation=1)
        self.note("begin", version=2, **NAMED)
        self.note("assigned", process="a/1", positions=[[*PLACE, None]])
        self.note("read", reader="a/1#1", invoked=self.now, records=[[*PLACE, 0, 0]], **NAMED)
        for number in (1, 2):
            self.note("write", number=number, topic=PLACE[0], partition=PLACE[1], key="a", **NAMED)
        for number in (1, 2):
            self.note("acked", number=number, offset=number)
        self.note("answered", **NAMED)
        self.note("offsets", offsets=[["x", *PLACE, 1]], **NAMED)
        for event, fields in ending:
            self.note(event, **fields, **NAMED)

    def found(self, committed: list[int], offset: int) -> set[str]:
        """What is wrong if a last look is shown these records, and that offset."""
        history = History()
        everything = [(number, number) for number in range(3)]
        history.final[PLACE] = FinalPartition(0, 4, 4, [(number, number) for number in committed], everything)
        history.final_offsets["x", *PLACE] = offset
        operations = Operations([self.path]).all
        return set(check([*operations, *last_look(history, self.now + 1, self.now + 2)]).wrong)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    made = Book(tmp_path)
    made.plain(0)
    return made


COMMIT, ABORT = ("decide", {"commit": True}), ("decide", {"commit": False})
COMMITTED, ABORTED = ("end", {"outcome": True}), ("end", {"outcome": False})


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ([COMMIT, COMMITTED], OK),
        ([COMMIT], INFO),
        ([], FAIL),
        ([ABORT], FAIL),
        ([COMMIT, ABORT], INFO),
        ([COMMIT, ABORT, ABORTED], FAIL),
    ],
)
def test_an_outcome_is_what_a_client_was_told(book: Book, ending: list[Any], outcome: str) -> None:
    book.transaction(*ending)
    (one,) = (one for one in Operations([book.path]).all if one.kind == TXN)
    assert (one.outcome, one.transactional_id, one.process) == (outcome, "x", "a/1")
    assert [(send.value, send.offset, send.key) for send in one.sends] == [(1, 1, "a"), (2, 2, "a")]
    assert one.offsets == {("x", PLACE): 1}
    assert [poll.records for poll in one.polls] == [[(PLACE, 0, 0)]]


def test_a_history_as_it_should_be_passes(book: Book) -> None:
    book.transaction(COMMIT, COMMITTED)
    assert book.found([0, 1, 2], 1) == set()


def test_each_wrong_ending_is_found(book: Book) -> None:
    book.transaction(COMMIT, COMMITTED)
    assert book.found([0, 1, 2], -1) == {"lost offsets"}
    assert book.found([0, 2], 1) >= {"lost write", "torn transaction", "intermediate read (G1b)"}
    assert book.found([0], 1) == {"lost write"}


def test_records_and_offsets_come_together_or_not_at_all(book: Book) -> None:
    """Of a commit that was not answered."""
    book.transaction(COMMIT)
    assert book.found([0, 1, 2], 1) == set() == book.found([0], -1)
    assert book.found([0], 1) == {"aborted offsets"}
    assert book.found([0, 1, 2], -1) == {"lost offsets"}


def test_what_was_aborted_is_not_to_be_seen(book: Book) -> None:
    book.transaction(COMMIT, ABORT, ABORTED)
    assert book.found([0], -1) == set()
    assert book.found([0, 1], -1) == {"aborted read (G1a)"}
    assert book.found([0], 1) == {"aborted offsets"}
