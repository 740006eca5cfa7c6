"""What workers wrote down, event by event, as the operations of a history (`tests.histories`).

A worker writes its events as they come, so that what it had begun when it died is known. Here they become one
operation for each transaction, each batch outside of transactions, each poll and each assignment.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chaos.recording import events_of
from tests.histories.operation import (
    ASSIGN,
    FAIL,
    INFO,
    LOOK,
    NO_OFFSET,
    OK,
    POLL,
    SEND,
    TXN,
    Operation,
    Poll,
    Send,
)
from tests.simulation.history import History, Place


class Operations:
    """Of the files of all workers. Those of one transaction are known by (worker, number)."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.all: list[Operation] = []
        self._open: dict[tuple[str, int], Operation] = {}
        self._sent: dict[int, Send] = {}
        for event in events_of(paths):
            take = getattr(self, "_" + event["event"].replace("-", "_"), None)
            if take is not None:
                take(event)

    def _of(self, event: dict[str, Any]) -> Operation:
        return self._open[event["worker"], event["transaction"]]

    def _new(self, event: dict[str, Any], kind: str, outcome: str) -> Operation:
        made = Operation(f"{event['worker']}/{event['incarnation']}", kind, event["at"], outcome=outcome)
        made.transactional_id = event.get("id")
        self._open[event["worker"], event["transaction"]] = made
        self.all.append(made)
        return made

    def _begin(self, event: dict[str, Any]) -> None:
        """Until its commit is requested it cannot have been committed."""
        self._new(event, TXN, FAIL)

    def _write(self, event: dict[str, Any]) -> None:
        if (event["worker"], event["transaction"]) not in self._open:
            self._new(event, SEND, INFO)
        send = Send((event["topic"], event["partition"]), event["number"], key=event["key"])
        self._sent[send.value] = send
        self._of(event).sends.append(send)

    def _acked(self, event: dict[str, Any]) -> None:
        self._sent[event["number"]].offset = event["offset"] if event["offset"] >= 0 else NO_OFFSET

    def _answered(self, event: dict[str, Any]) -> None:
        one = self._of(event)
        if one.kind == SEND:
            one.completed = event["at"]
            one.outcome = OK if all(send.offset is not None for send in one.sends) else INFO

    def _offsets(self, event: dict[str, Any]) -> None:
        one = self._of(event)
        one.offsets = {(group, (topic, partition)): offset for group, topic, partition, offset in event["offsets"]}

    def _decide(self, event: dict[str, Any]) -> None:
        one = self._of(event)
        if event["commit"]:
            one.outcome = INFO
            one.decided = one.decided or event["at"]

    def _end(self, event: dict[str, Any]) -> None:
        one = self._of(event)
        one.completed = event["at"]
        one.outcome = OK if event["outcome"] else FAIL

    def _read(self, event: dict[str, Any]) -> None:
        records = [((topic, partition), offset, number) for topic, partition, offset, number in event["records"]]
        poll = Poll(event["invoked"], event["at"], records)
        if "transaction" in event:
            self._of(event).polls.append(poll)
        else:
            self.all.append(Operation(event["reader"], POLL, poll.invoked, poll.completed, polls=[poll]))

    def _assigned(self, event: dict[str, Any]) -> None:
        positions = {(topic, partition): offset for topic, partition, offset in event["positions"]}
        self.all.append(Operation(event["process"], ASSIGN, event["at"], event["at"], positions=positions))


def last_look(history: History, began: int, ended: int) -> list[Operation]:
    """What a last look found, while the values in it are those of records, as operations."""
    look = Operation("last look", LOOK, began, ended)
    seen, there = Poll(began, ended, []), Poll(began, ended, [], committed_only=False)
    for place, final in history.final.items():
        look.ends[place] = (final.log_start_offset, final.last_stable_offset, final.high_watermark)
        seen.records += _records(place, final.committed)
        there.records += _records(place, final.everything)
    look.polls.append(seen)
    look.offsets = {(group, (topic, at)): offset for (group, topic, at), offset in history.final_offsets.items()}
    starts = {place: final.log_start_offset for place, final in history.final.items()}
    placed = Operation(look.process, ASSIGN, began, began, positions=dict(starts))
    return [placed, look, Operation("last look at everything", POLL, began, ended, polls=[there])]


def _records(place: Place, found: list[tuple[int, int]]) -> list[tuple[Place, int, int]]:
    return [(place, offset, number) for offset, number in found]
