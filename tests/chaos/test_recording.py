"""What workers wrote down becomes a history, and an anomaly in it is found."""

import json
from pathlib import Path
from typing import Any

from tests.chaos.look import verdict
from tests.chaos.recording import Loaded
from tests.chaos.run import offsets_of_the_last
from tests.simulation.history import FinalPartition

PLACE = ("transactional", 0)


class Book:
    """Files of workers, one event per call, a tick apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0

    def note(self, worker: str, event: str, **fields: Any) -> None:
        self.now += 1
        with (self.folder / f"{worker}.jsonl").open("a") as file:
            file.write(json.dumps({"at": self.now, "event": event, "worker": worker, **fields}) + "\n")

    def claim(self, worker: str, incarnation: int = 1) -> None:
        for event in ("claiming-began", "claimed"):
            self.note(worker, event, id="x", incarnation=incarnation)

    def transaction(self, worker: str, number: int, *, outcome: bool | None, incarnation: int = 1) -> None:
        """Two acknowledged records and an offset, then EndTxn(commit)."""
        named = {"id": "x", "incarnation": incarnation, "transaction": number}
        self.note(worker, "begin", version=2, **named)
        for record in (10 * number, 10 * number + 1):
            self.note(worker, "write", number=record, topic=PLACE[0], partition=PLACE[1], key="k", **named)
            self.note(worker, "acked", number=record, offset=record)
        self.note(worker, "offsets", offsets=[("g", *PLACE, number)], **named)
        self.note(worker, "decide", commit=True, **named)
        if outcome is not None:
            self.note(worker, "end", outcome=outcome, **named)

    def loaded(self, visible: list[int], everything: list[int] | None = None) -> Loaded:
        loaded = Loaded(self.folder.glob("*.jsonl"))
        shown = [(number, loaded.index[number]) for number in visible]
        there = [(number, loaded.index[number]) for number in (visible if everything is None else everything)]
        loaded.history.final[PLACE] = FinalPartition(0, 100, 100, shown, there)
        return loaded


def kinds(loaded: Loaded) -> set[str]:
    return {text.partition(":")[0] for text in verdict(loaded.history)}


def test_a_clean_history_with_a_cut_last_line_passes(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.claim("a")
    book.transaction("a", 1, outcome=True)
    book.transaction("a", 2, outcome=None)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"at": 99, "eve')
    assert kinds(book.loaded([10, 11])) - {"torn transaction"} == {"lost write"}, "what was acknowledged is to be there"
    assert kinds(book.loaded([10, 11], [10, 11, 20, 21])) == set(), "of a commit that was not answered all or nothing"
    assert kinds(book.loaded([10, 11, 20, 21])) == set()


def test_each_kind_of_anomaly_is_found(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.claim("a")
    book.transaction("a", 1, outcome=True)
    book.transaction("a", 2, outcome=False)
    assert kinds(book.loaded([10], [10, 11, 20, 21])) == {"torn transaction", "lost commit"}
    assert "duplicate" in kinds(book.loaded([10, 11, 11], [10, 11, 11, 20, 21]))
    shown = book.loaded([10, 11], [10, 11, 20, 21])
    assert kinds(shown) == set()
    book.note("r", "read", reader="r-1", records=[[*PLACE, 20, 20]])
    assert kinds(book.loaded([10, 11], [10, 11, 20, 21])) == {"aborted read"}


def test_a_worker_that_lost_its_id_stops_writing(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.claim("a")
    book.claim("b")
    book.transaction("a", 1, outcome=True)
    assert kinds(book.loaded([10, 11])) == {"fenced write"}


def test_of_two_claims_at_once_nobody_knows_the_winner(tmp_path: Path) -> None:
    book = Book(tmp_path)
    for event in ("claiming-began", "claimed"):
        for worker in ("a", "b"):
            book.note(worker, event, id="x", incarnation=1)
    book.transaction("a", 1, outcome=True)
    assert kinds(book.loaded([10, 11])) == set()


def test_offsets_stand_where_the_last_visible_transaction_put_them(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.claim("a")
    book.transaction("a", 1, outcome=True)
    book.transaction("a", 2, outcome=True)
    loaded = book.loaded([10, 11, 20, 21])
    loaded.history.final_offsets["g", PLACE[0], 0] = 2
    assert offsets_of_the_last(loaded) == []
    loaded.history.final_offsets["g", PLACE[0], 0] = 1
    assert len(offsets_of_the_last(loaded)) == 1
