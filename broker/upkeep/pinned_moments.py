"""Moments of a running broker, for `tallystick backup`: its data folder as `kill -9` would leave it, in links.

    .backups/<id>/data       a folder for each log, with links to its files, and the small files beside them
    .backups/<id>/moment     which files were written to and how long they were, a JSON object a line; comes last
    .backups/<id>/lock       locked (flock) by whoever copies, for as long as it does

Rule 1. A moment is one turn of the loop, in which the numbers of all logs are noted: no record is appended between two
of them, so no decision of a transaction is there without what was before it, and nothing that it promises is torn.
Most are noted ahead, in slices; in that turn it is seen which logs are others by then.
Rule 2. Files are linked on another thread; what loses its name meanwhile is linked before (`broker.disk.pinning`).
Rule 3. What nobody holds the lock of goes: a copy that was killed keeps no space. A copy outlives its broker.
Rule 4. The recovery points are those of the moment, and the boot is another one's: a start on the copy reads and checks
all that lies behind them, as after a power cut.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from broker.coordination.topics import TopicDirectory
from broker.disk.local_files import LocalFiles
from broker.disk.pinning import Moments, Pin
from broker.partitions.partition import Partition
from broker.process.environment import Environment, measuring_clock_ns
from broker.process.logging import EventLog
from storage.checkpoints import (
    BEING_REPLACED,
    FORMAT_FILE,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    TopicPartition,
    offsets_text,
)
from storage.data_folder import FORMAT_VERSION, format_text
from storage.moment import Moment, Noted, cut_aborted, noted, outdated
from storage.producers.aborted import INDEX_SUFFIX
from storage.producers.aborted_checkpoint import ABORTED_CHECKPOINT
from storage.segments.segment_format import file_name

PINS_FOLDER = ".backups"
DATA, MOMENT, LOCK = "data", "moment", "lock"
MOST = 4
"""Moments at a time."""
ATTEMPTS = 20
"""Of noting ahead while no topic comes or goes."""
UNCLAIMED_MS = 60_000
"""How long one may be without a lock before it goes."""
ANOTHER_BOOT = "another"
"""Of a copy: nothing of it is in this machine's page cache for certain, nor was it synced by its broker."""
_log = EventLog("backup")


class NotNow(Exception):
    """No moment can be had; the message says why."""


class State(Enum):
    """How far one is."""

    LINKING = "linking"
    READY = "ready"
    FAILED = "failed"


@dataclass(slots=True)
class PinnedMoment:
    """One of them."""

    id: str
    made_ms: int
    state: State
    reason: str = ""


class PinnedMoments:
    """Those of one node."""

    def __init__(
        self,
        files: LocalFiles,
        environment: Environment,
        topics: TopicDirectory,
        *,
        open_partitions: Callable[[], Sequence[Partition]],
        own: Callable[[Coroutine[Any, Any, Any]], object],
    ) -> None:
        self._files = files
        self._environment = environment
        self._topics = topics
        self._life = environment.random_bytes(8).hex()
        self._open_partitions = open_partitions
        self._own = own
        self._known: dict[str, PinnedMoment] = {}
        self._one_at_a_time = asyncio.Lock()

    def folder(self, moment_id: str) -> str:
        """Where it is, an absolute path."""
        return f"{self._files.root}/{PINS_FOLDER}/{moment_id}"

    def find(self, moment_id: str) -> PinnedMoment | None:
        """None where there is none of this id (any more)."""
        return self._known.get(moment_id)

    async def begin(self) -> PinnedMoment:
        """A moment of now; its files are linked when its state says so. Raises `NotNow`, `OSError`."""
        if len(self._known) >= MOST:
            await self.sweep()
        if len(self._known) >= MOST:
            raise NotNow(f"{MOST} backups are under way")
        moment_id = self._environment.random_bytes(8).hex()
        made = PinnedMoment(moment_id, self._environment.wall_ms(), State.LINKING)
        await self._one_at_a_time.acquire()
        try:
            if len(self._known) >= MOST:  # by now
                raise NotNow(f"{MOST} backups are under way")
            self._known[moment_id] = made  # not before: who is given up while it waits leaves nothing behind
            linking = await self._begin(moment_id)
        except BaseException:
            self._one_at_a_time.release()
            self._own(self.release(moment_id))
            raise
        self._own(self._linked(made, linking))
        return made

    async def _begin(self, moment_id: str) -> "asyncio.Future[None]":
        folder = self.folder(moment_id)
        await self._environment.run_beside(lambda: _make(folder))
        for _ in range(ATTEMPTS):
            ahead = await self._look_ahead()
            began_ns = measuring_clock_ns()
            if ahead.revision == self._topics.revision and not self._topics.to_open.any_left:
                break
        else:
            raise NotNow("topics are being made and deleted all the time")
        pin = self._files.pinning.begin(f"{folder}/{DATA}", ahead.moments_now)
        taken_ms = self._environment.wall_ms()
        turn_us = (measuring_clock_ns() - began_ns) // 1000
        _log.info("a backup begins", moment=moment_id, logs=len(pin.moments), turn_us=turn_us)
        compacted = {one.name for one in self._open_partitions() if one.config.log.cleanup_compact}
        return self._environment.run_beside(lambda: self._write(pin, folder, compacted, taken_ms))

    async def _look_ahead(self) -> "_Ahead":
        """Of all logs, in slices, so that little is left for the turn that counts. Raises `NotNow`."""
        if self._topics.to_open.any_left:
            raise NotNow("logs are still being opened")
        # Whoever comes or goes from now on makes it another revision.
        ahead = _Ahead(self._topics.revision, [one.name for one in self._topics.offline()])
        slice_ = self._environment.time_slice()
        for partition in self._open_partitions():
            ahead.add(partition)
            await slice_.give_way()
        for one in outdated(ahead.noted):  # a first time: fewer are left
            ahead.renew(one)
            await slice_.give_way()
        return ahead

    async def _linked(self, made: PinnedMoment, linking: "asyncio.Future[None]") -> None:
        began_ms = self._environment.monotonic_ms()
        try:
            await linking
            made.state = State.READY
            _log.info("its files are linked", moment=made.id, ms=self._environment.monotonic_ms() - began_ms)
        except OSError as error:
            made.state, made.reason = State.FAILED, _why(error)
        finally:
            if made.state is State.LINKING:
                made.state, made.reason = State.FAILED, "it was given up"
            self._one_at_a_time.release()

    def _write(self, pin: Pin, folder: str, compacted: set[str], taken_ms: int) -> None:
        """On another thread. Raises `OSError`."""
        self._files.pinning.link_all(pin)
        data = f"{folder}/{DATA}"
        known = [(name, moment) for name, moment in pin.moments.items() if moment is not None]
        aborted = {name: _cut_aborted(f"{data}/{name}", moment) for name, moment in known}
        os.link(f"{self._files.root}/{META_PROPERTIES}", f"{data}/{META_PROPERTIES}")
        points: dict[TopicPartition, int] = {_place(name): moment.recovery_point for name, moment in known}
        starts = {_place(name): moment.start_offset for name, moment in known if moment.start_offset}
        _write(f"{data}/{RECOVERY_POINTS}", [offsets_text(points)])
        _write(f"{data}/{LOG_START_OFFSETS}", [offsets_text(starts)])
        _write(f"{data}/{FORMAT_FILE}", [format_text(FORMAT_VERSION, ANOTHER_BOOT)])
        said = {"version": 1, "life": self._life, "taken_ms": taken_ms}
        _write(f"{folder}/{MOMENT}{BEING_REPLACED}", _lines(said, pin.moments, compacted, aborted))
        os.rename(f"{folder}/{MOMENT}{BEING_REPLACED}", f"{folder}/{MOMENT}")

    async def release(self, moment_id: str) -> bool:
        """Let go of it; False where it is not known."""
        if (found := self._known.get(moment_id)) is None:
            return False
        async with self._one_at_a_time:
            if self._known.pop(found.id, None) is None:
                return False  # somebody else let go of it meanwhile
            await self._environment.run_beside(lambda: self._files.delete_folder(f"{PINS_FOLDER}/{moment_id}"))
        return True

    async def take_up(self) -> None:
        """After a start: what an earlier life has left. What is still being copied stays until it is not; what had not
        all of its links is never copied."""
        made_ms = self._environment.wall_ms() - UNCLAIMED_MS
        for name in self._files.list(PINS_FOLDER):
            left = PinnedMoment(name, made_ms, State.READY)
            if not self._files.exists(f"{PINS_FOLDER}/{name}/{MOMENT}"):
                left.state, left.reason = State.FAILED, "the broker ended before all files were linked"
            self._known.setdefault(name, left)
        await self.sweep()

    async def sweep(self) -> None:
        """Let go of what nobody copies (any more)."""
        now_ms = self._environment.wall_ms()
        for one in list(self._known.values()):
            is_due = one.state is not State.LINKING and abs(now_ms - one.made_ms) >= UNCLAIMED_MS
            if is_due and not _is_claimed(f"{self.folder(one.id)}/{LOCK}"):
                _log.warning("a backup has left its moment behind: it goes", moment=one.id)
                await self.release(one.id)


class _Ahead:
    """Moments that were noted ahead of the one that counts. A partition that is offline is as its files are: nobody
    writes to it."""

    def __init__(self, revision: int, offline: Iterable[str]) -> None:
        self.revision = revision
        self.noted: list[Noted] = []
        self._moments: dict[str, Moment | None] = dict.fromkeys(offline)

    def add(self, partition: Partition) -> None:
        one = noted(partition.name, partition.log)
        if one is not None:
            self.noted.append(one)
            self._moments[one.name] = one.moment

    def renew(self, one: Noted) -> None:
        self._moments[one.name] = one.note()

    def moments_now(self) -> Moments:
        """All of this turn."""
        for one in outdated(self.noted):
            self.renew(one)
        return self._moments


def _make(folder: str) -> None:
    os.makedirs(f"{folder}/{DATA}", 0o700)
    os.chmod(os.path.dirname(folder), 0o700)
    os.close(os.open(f"{folder}/{LOCK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _is_claimed(lock: str) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _why(error: OSError) -> str:
    if error.filename is None:
        return str(error)
    return (
        f"{error.filename} could not be linked ({error.strerror}): a running broker's data is to be on one file system"
    )


def _place(folder: str) -> TopicPartition:
    topic, _, index = folder.rpartition("-")
    return topic, int(index)


def _cut_aborted(folder: str, moment: Moment) -> int | None:
    """How many bytes of the active segment's index of aborted transactions are of the moment: it goes on with markers
    of later, and its link with it. None where there is no index. What is written down beside it says no more."""
    index, checkpoint = f"{folder}/{file_name(moment.active_base, INDEX_SUFFIX)}", f"{folder}/{ABORTED_CHECKPOINT}"
    found, said = _contents(index), _contents(checkpoint)
    text, kept = cut_aborted(said, found or b"", moment)
    if said is not None and text != said:
        os.unlink(checkpoint)
        if text is not None:
            _write(checkpoint, [text])
    return None if found is None else len(kept)


def _contents(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def _write(path: str, parts: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _lines(
    head: Mapping[str, object], moments: Moments, compacted: set[str], aborted: Mapping[str, int | None]
) -> Iterator[bytes]:
    """One by one: to encode all of them in one call would hold up the loop."""
    yield (json.dumps(head) + "\n").encode()
    for folder, moment in moments.items():
        said: dict[str, object] = {"folder": folder, "compacted": folder in compacted}
        if moment is not None:
            lengths = moment.lengths()
            if (index_bytes := aborted[folder]) is not None:
                lengths[INDEX_SUFFIX] = index_bytes
            said |= {"active": moment.active_base, "lengths": lengths}
        yield (json.dumps(said) + "\n").encode()
