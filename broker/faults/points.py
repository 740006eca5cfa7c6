"""Every fault point there is, in the order in which a transaction comes by. `docs/faults.md` shows the same list.

A name is `what.moment`. Of records there are three moments: before the append; after it, when nothing is on the disk
yet; and after the sync, before any request is answered. In page-cache mode no sync is waited for, and "after the sync"
is the moment at which a record counts as committed.

Two more kinds are made from the catalogue: `request.<Api>`, before a request is looked at, and `answer.<Api>`, when
its answer is ready to be sent.
"""

from dataclasses import dataclass
from enum import Enum


class Action(Enum):
    """What may happen at a point."""

    CRASH = "crash"
    """The process is gone, as after `kill -9`."""
    FREEZE = "freeze"
    """The process stands still until it gets a SIGCONT."""
    FAIL = "fail"
    """The step is refused: with an error code, or, of files, with an errno."""
    DELAY = "delay"
    """The step takes so many milliseconds longer. A request waits alone; elsewhere the broker stands still."""
    DROP = "drop"
    """The request or answer is lost, and its connection with it."""


class Refusal(Enum):
    """What `fail` means at a point."""

    NONE = "it cannot fail here"
    CODE = "error code"
    ERRNO = "errno"


@dataclass(frozen=True, slots=True)
class Point:
    """One place."""

    name: str
    when: str
    refusal: Refusal = Refusal.NONE
    is_of_partitions: bool = False
    """Each pass is one of a partition, so that a fault may strike in one of them alone."""

    @property
    def actions(self) -> tuple[Action, ...]:
        failing = () if self.refusal is Refusal.NONE else (Action.FAIL,)
        dropping = (Action.DROP,) if self.name.startswith((REQUEST, ANSWER)) else ()
        return (Action.CRASH, Action.FREEZE, Action.DELAY, *failing, *dropping)


REQUEST = "request."
ANSWER = "answer."


def _records(family: str, what: str) -> tuple[Point, ...]:
    return (
        Point(f"{family}.before-append", f"{what}: about to be appended", Refusal.CODE, is_of_partitions=True),
        Point(f"{family}.after-append", f"{what}: appended, not on the disk", is_of_partitions=True),
        Point(f"{family}.after-sync", f"{what}: on the disk, nobody knows", is_of_partitions=True),
    )


def _files(family: str, verb: str, what: str) -> tuple[Point, ...]:
    return (
        Point(f"{family}.before-{verb}", f"{what}: about to happen", Refusal.ERRNO),
        Point(f"{family}.after-{verb}", f"{what}: done"),
    )


_ALL = (
    # A transaction.
    *_records("producer-ids", "a block of producer ids (ProducerIdsRecord)"),
    *_records("init", "a new identity of a transactional id (state Empty)"),
    *_records("ongoing", "partitions join a transaction (state Ongoing)"),
    *_records("produce", "a batch of a client, transactional or not"),
    *_records("offsets", "offsets sent in a transaction"),
    *_records("prepare", "the decision (state PrepareCommit or PrepareAbort)"),
    Point("marker.before", "the marker of one partition: about to be appended", Refusal.CODE, is_of_partitions=True),
    Point("marker.after-append", "the marker of one partition: appended, not on the disk", is_of_partitions=True),
    Point(
        "marker.after-sync", "the marker of one partition: on the disk, COMPLETE is not decided", is_of_partitions=True
    ),
    *_records("complete", "the end (state CompleteCommit or CompleteAbort)"),
    *_records("expire", "a transactional id is forgotten (tombstone)"),
    # What else coordinators write.
    *_records("commit", "offsets committed outside of transactions, and their tombstones"),
    *_records("group", "the state of a group, and what is kept of its share partitions"),
    *_records("metadata", "topics, settings and everything else in the metadata log"),
    *_records("epoch", "the epoch of this start (RegisterBrokerRecord)"),
    # The disk.
    *_files("log", "append", "bytes written to the file of a log"),
    *_files("log", "sync", "the sync of a log's file"),
    *_files("roll", "create", "the file of a new segment"),
    *_files("snapshot", "write", "a snapshot of producer state"),
    *_files("aborted", "append", "an entry of the index of aborted transactions"),
    *_files("epochs", "write", "the cache of leader epochs"),
    *_files("checkpoint", "write", "recovery points and log starts"),
    *_files("compaction", "swap", "a compacted segment is complete (.cleaned becomes .swap)"),
    *_files("compaction", "install", "a compacted segment takes its place (.swap becomes .log)"),
    *_files("retention", "delete", "the log of a segment is given up (it becomes .deleted)"),
    *_files("deletion", "rename", "the folder of a deleted topic is put aside"),
    *_files("shutdown", "mark", "the mark of a clean end"),
)

POINTS: dict[str, Point] = {point.name: point for point in _ALL}


def point_called(name: str, apis: frozenset[str]) -> Point | None:
    """The point of this name; `apis` are the names that may stand behind `request.` and `answer.`."""
    known = POINTS.get(name)
    if known is not None:
        return known
    if name.startswith(REQUEST) and name.removeprefix(REQUEST) in apis:
        return Point(name, "a request is about to be handled", Refusal.CODE)
    if name.startswith(ANSWER) and name.removeprefix(ANSWER) in apis:
        return Point(name, "an answer is ready to be sent")
    return None
