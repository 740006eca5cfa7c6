"""An operation of a client, and its line in a history.

A history is a text file with one line of JSON per operation. Values are unique numbers, times are nanoseconds of one
monotonic clock.

    kind         txn (a transaction with all that was sent and polled in it), send (records outside of transactions),
                 poll, assign (a consumer's positions were set: by an assignment, a rebalance or a seek),
                 look (the state of the broker when all is over)
    process      one client instance; its operations do not overlap
    outcome      ok; fail: it cannot have happened; info: nobody knows
    sends        [topic, partition, key, value, offset]: offset null is not acknowledged, -1 acknowledged without one
    polls        [invoked, completed, read_committed, [[topic, partition, offset, value], ...]]
    offsets      [group, topic, partition, offset]: sent in a transaction; in a look: found committed
    positions    [topic, partition, offset]: the next offset to read, null where it is not known
    ends         [topic, partition, start, last stable offset, end]
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Place = tuple[str, int]
"""A topic and a partition."""

TXN, SEND, POLL, ASSIGN, LOOK = "txn", "send", "poll", "assign", "look"
OK, FAIL, INFO = "ok", "fail", "info"
NO_OFFSET = -1
"""Acknowledged, but at an offset that the broker did not say."""


@dataclass(slots=True)
class Send:
    """One record that was sent."""

    place: Place
    value: int
    offset: int | None = None
    """None: not acknowledged; NO_OFFSET: acknowledged without one."""
    key: str | None = None

    @property
    def is_placed(self) -> bool:
        return self.offset is not None and self.offset >= 0


@dataclass(slots=True)
class Poll:
    """What one call of poll returned, in order."""

    invoked: int
    completed: int
    records: list[tuple[Place, int, int]]
    """(place, offset, value)"""
    committed_only: bool = True


@dataclass(slots=True)
class Operation:
    """See the head of this file."""

    process: str
    kind: str
    invoked: int
    completed: int | None = None
    outcome: str = OK
    transactional_id: str | None = None
    decided: int | None = None
    """When a transaction's commit was requested for the first time."""
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    offsets: dict[tuple[str, Place], int] = field(default_factory=dict)
    positions: dict[Place, int | None] = field(default_factory=dict)
    ends: dict[Place, tuple[int, int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} of {self.process} at {self.invoked} ({self.outcome})"

    def line(self) -> str:
        """Its line in a history, without what is empty."""
        found: dict[str, Any] = {
            "process": self.process,
            "kind": self.kind,
            "id": self.transactional_id,
            "invoked": self.invoked,
            "completed": self.completed,
            "decided": self.decided,
            "outcome": self.outcome,
            "sends": [[*one.place, one.key, one.value, one.offset] for one in self.sends],
            "polls": [
                [one.invoked, one.completed, one.committed_only, [[*place, *rest] for place, *rest in one.records]]
                for one in self.polls
            ],
            "offsets": [[group, *place, offset] for (group, place), offset in self.offsets.items()],
            "positions": [[*place, offset] for place, offset in self.positions.items()],
            "ends": [[*place, *offsets] for place, offsets in self.ends.items()],
        }
        return json.dumps({name: value for name, value in found.items() if value not in (None, [])})


def operation(line: str) -> Operation:
    """The operation of a line. Raises ValueError, KeyError or TypeError for what is none."""
    found = json.loads(line)
    return Operation(
        process=found["process"],
        kind=found["kind"],
        invoked=found["invoked"],
        completed=found.get("completed"),
        outcome=found["outcome"],
        transactional_id=found.get("id"),
        decided=found.get("decided"),
        sends=[Send((t, p), value, offset, key) for t, p, key, value, offset in found.get("sends", ())],
        polls=[
            Poll(invoked, completed, [((t, p), offset, value) for t, p, offset, value in records], committed_only)
            for invoked, completed, committed_only, records in found.get("polls", ())
        ],
        offsets={(group, (t, p)): offset for group, t, p, offset in found.get("offsets", ())},
        positions={(t, p): offset for t, p, offset in found.get("positions", ())},
        ends={(t, p): (start, stable, end) for t, p, start, stable, end in found.get("ends", ())},
    )


def write_history(path: Path, operations: Iterable[Operation]) -> None:
    with path.open("w") as file:
        file.writelines(one.line() + "\n" for one in operations)


def read_history(path: Path) -> Iterator[Operation]:
    with path.open() as file:
        for line in file:
            yield operation(line)
