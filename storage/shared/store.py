"""The port to a shared store: what keeps the logs of a cluster, and who owns which.

Rule 1. Each start of a node is an incarnation, with a number that was never given before. Nodes live beside each other,
        a node once: its start fences its earlier incarnations, and any other may fence who is silent. Whoever is fenced
        commits nothing any more, in this life.
Rule 2. A log has one owner: an incarnation, under an epoch that only grows. A commit says both for each log that it
        changes, and changes those that are its own: the others are named in the answer and are as they were.
Rule 3. What a commit does, it does as a whole and for good before it returns; a reader that began before sees nothing
        of it, one that begins afterwards all.
Rule 4. Safety rests on the rules above alone. Clocks only decide when somebody takes over.
Rule 5. Bytes that a store keeps apart from what commits write are there, whole, before a commit can name them.
Rule 6. A store may fail over to a standby. What was answered outlives that, done or found; of what was not answered
        some was done, and whatever was done before it. Nothing is promised of who lives, of what the readers of runs,
        bytes, names and topics find, and of a heartbeat: a failover may lose what they have shown or said. So it may
        with what `Fenced` is raised for: who is told ends.

`broker/shared` has the engines. Every method raises `StoreUnreachable`
where the store cannot be asked now, and `StoreRefused`. Nothing of a commit has happened then; what else was asked for
may have been done, and is asked for again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from protocol.schema import Buffer
from storage.log import StorageFailed


class StoreUnreachable(Exception):
    """The store cannot be asked now. The caller tries again."""


class CommitUnknown(Exception):
    """Nobody knows whether the commit was made: `settle` finds out."""


class Fenced(Exception):
    """This incarnation is over: a later one of the same node has started, or another node has ended it."""


class NotOwned(Exception):
    """A log has an owner under a later epoch."""


class ObjectMissing(Exception):
    """The object was removed: nothing that a log still holds is in it. Ask for the runs anew."""


class ObjectLost(Exception):
    """A log holds a run of the object, and its bytes, or some, are not there. For people: nothing of ours does that."""


class StoreRefused(Exception):
    """The store is of another cluster, or of a later version, or lost what it had acknowledged. For people."""


class StartRefused(StorageFailed):
    """A start is refused by the store, as it is configured: nothing has failed, and another try is refused, too."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One start of one node."""

    node_id: int
    number: int
    """Grows with every start of any node of the cluster; from 1 to 2^31 - 1."""


@dataclass(frozen=True, slots=True)
class Member:
    """An incarnation that is not fenced."""

    who: Incarnation
    silent_ms: int
    """How long ago it said that it lives, by the store's clock."""
    about: bytes
    """What it says of itself to the others."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one log in an object: whole batches one behind the other, `size_bytes` from `position` on."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int
    max_timestamp_ms: int
    heads_crc: int | None = None
    """See `storage.shared.checked_run`. None: a version that had none has committed it."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that was committed, and where."""

    object_id: int
    run: Run


@dataclass(frozen=True, slots=True)
class OwnedLog:
    """What the store knows of a log, as its owner finds it."""

    log_id: int
    owner_epoch: int
    first_offset: int
    """Where the bytes begin; at most `start_offset`."""
    start_offset: int
    next_offset: int
    kept: bytes
    """What the owner had written down beside it last; empty at first."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """What the store knows of a log, as somebody else finds it."""

    owner: Incarnation
    """It may be over."""
    log: OwnedLog


@dataclass(frozen=True, slots=True)
class LogChange:
    """What one commit does to one log."""

    log_id: int
    owner_epoch: int
    base_offset: int
    """The log has to end here; its runs follow without a gap."""
    runs: tuple[Run, ...] = ()
    start_offset: int | None = None
    """Where readers begin from now on; None: as it is."""
    first_offset: int | None = None
    """What lies before may be forgotten: no run ends before this any more. At most the start. None: as it is."""
    kept: bytes | None = None
    """To be written down in the place of what was; None: as it is."""
    replaced: tuple[int, int] | None = None
    """The first and the last offset of some runs, which lie before the base: they go."""
    replacements: tuple[Run, ...] = ()
    """What comes in their place, without a gap; their bytes may hold fewer records."""


@dataclass(frozen=True, slots=True)
class Upload:
    """Bytes that are in the store before the commit that names them. Only `SharedStore.upload` makes one."""

    upload_id: int
    size_bytes: int


def moved(change: LogChange, by: int) -> LogChange:
    """The same, its bytes so much further behind in the object."""
    runs = tuple(replace(run, position=run.position + by) for run in change.runs)
    replacements = tuple(replace(run, position=run.position + by) for run in change.replacements)
    return replace(change, runs=runs, replacements=replacements)


class SharedStore(Protocol):
    """See the head of this file. One loop uses it."""

    @property
    def keeps_apart(self) -> bool:
        """Whether bytes may be brought by `upload`: over another line than commits, which may be a slow one."""

    async def open(self) -> None:
        """Connect, and make or upgrade what is to be there. Raises `StoreRefused`."""

    async def close(self) -> None:
        """Give up the connections. What is under way may be lost as by a crash."""

    async def cluster_id(self, wanted: str | None, drawn: str) -> str:
        """Who the cluster is: `wanted`, or else `drawn`, where nobody has said so yet. Raises `StoreRefused` where it
        is another than `wanted`."""

    async def join(self, node_id: int, about: bytes) -> Incarnation:
        """Begin a life of this node beside those of others: only earlier incarnations of this node are fenced."""

    async def members(self) -> list[Member]:
        """Who lives, by node id. It may be that a failover of the store loses what is found, and with it whatever was
        done later before: that somebody has come, is over, or was heard."""

    async def fence(self, who: Incarnation, other: Incarnation, silent_ms: int) -> bool:
        """End the life of another that was silent for so long by the store's clock; 0: at once. Returns whether it is
        over now: of its commits all that are ever made were made before, and no heartbeat within `silent_ms` was
        answered, but for those that a failover of the store has lost. One that never began is not over. Raises
        `Fenced`, where `who` is."""

    async def heartbeat(self, who: Incarnation) -> None:
        """Say that one lives. A failover of the store may lose it. Raises `Fenced`."""

    async def tell(self) -> None:
        """Have those look at once who wait in `wait_until_told`. A hint, which may be lost."""

    async def wait_until_told(self, wait_s: float) -> None:
        """Until somebody tells, or so long at most, whether the store can be reached or not. Raises nothing: who waited
        looks in any case."""

    async def leave(self, who: Incarnation) -> None:
        """Fence oneself: nobody has to wait until the node has been silent for long."""

    async def claim(self, who: Incarnation, topic_id: bytes, index: int, epoch: int | None) -> OwnedLog:
        """Own the log of a partition, which is made where there is none, under this epoch, or under the next one
        (None). To claim again what one owns under the same epoch changes nothing. Raises `NotOwned` where it has a
        later epoch, or another owner under the same; `Fenced`."""

    async def look(self, who: Incarnation, topic_id: bytes, index: int, *, with_kept: bool) -> FoundLog | None:
        """A log as it is, whoever owns it; None where there is none. It waits for no commit under way. What is found
        outlives a failover of the store. What was written down beside it is brought `with_kept` alone, else nothing
        stands for it. Raises `Fenced`."""

    async def upload(self, who: Incarnation, upload_id: int, data: Sequence[Buffer]) -> Upload:
        """Bring bytes, one buffer behind the other, for one commit that is made after this has returned. Where it
        fails, they may be there or come later; they are brought again under another id. `upload_id` is made as an
        `object_id` is, and was never used before for an upload. What no commit has named is removed some time, and not
        while `who` may yet name it."""

    async def commit(
        self, who: Incarnation, object_id: int, data: Sequence[Buffer] | Upload, changes: Sequence[LogChange]
    ) -> frozenset[int]:
        """Make an object of `data`, one buffer behind the other or brought before, and change logs, each named once.
        Returns the ids of those that were not changed: they are owned by others, or gone, or do not end where the
        change begins. An object without a run of a changed log may be left out. An upload is of one object; where its
        commit was settled as not made, another may name it.

        `object_id` was never used before: `who.number << 32` and a number that grows. What arrives under one that was
        made or settled changes nothing. Raises `Fenced`; `CommitUnknown`."""

    async def settle(self, who: Incarnation, object_id: int) -> frozenset[int] | None:
        """What a commit returned of which nobody knows; None where it was not made, and never will be. Raises
        `Fenced`: whatever became of it, those who wait are to be told that nobody knows."""

    async def runs(self, log_id: int, offset: int, limit: int) -> list[StoredRun]:
        """The runs that end at `offset` or later, by offset, `limit` of them at most. A failover of the store may lose
        those behind what was claimed, committed or looked at."""

    async def read(self, runs: Sequence[StoredRun], *, for_reader: bool = False) -> list[bytes]:
        """The bytes of some runs, in their order. However much is read `for_reader`, others are not kept waiting: those
        who open a log. Raises `ObjectMissing` and `ObjectLost`."""

    async def name_of(self, object_id: int) -> str:
        """What people find an object by, whether it is there or not."""

    async def topic_ids(self) -> list[bytes]:
        """Of which topics there are logs."""

    async def forget(self, who: Incarnation, topic_id: bytes) -> None:
        """The topic is deleted: its logs are gone, for good. Raises `Fenced`."""

    async def collect(self, older_ms: int, limit: int) -> int:
        """Remove objects, `limit` at most, of which no log has held a run for `older_ms` by the store's clock; returns
        how many. The newest that a living incarnation has made stays: it may still have to be settled."""
