"""Where the logs of partitions live: folders in the data folder, or memory.

A folder is called `topic-partition`, as Kafka calls it, and says in `partition.metadata` which topic id it belongs
to; a folder of a deleted topic is renamed at once (`topic-partition.<id>-delete`) and deleted later, a folder of no
topic that we know is set aside (`-stray`), never deleted. A file system may let either wait: both are done on another
thread, once nothing in the folder is open.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol

from broker.process.logging import EventLog
from coordinator.cluster.topic_rules import LONGEST_NAME
from storage.checkpoints import (
    PARTITION_METADATA,
    read_partition_metadata,
    write_partition_metadata,
)
from storage.epochs import highest_epoch
from storage.files import Files, FilesBeside
from storage.log import Log, LogConfig, LogDamaged, StorageFailed
from storage.memory_log import MemoryLog
from storage.metadata_snapshots import SnapshotFolder
from storage.recovery import Recovery
from storage.segment_log import SegmentLog
from storage.segments.segment_format import DAMAGED
from storage.steps import Blocking

PARTITION_FOLDER = re.compile(r"^(?P<topic>[a-zA-Z0-9._-]+)-(?P<index>\d+)$")
_log = EventLog("recovery")

DELETED = "-delete"
STRAY = "-stray"
LONGEST_INDEX = len("-99999")
BEHIND = 1 + 32 + len(DELETED) + 15
"""A topic id, what a folder is now, and perhaps a number."""


class PartitionStore(Protocol):
    """Makes, opens and removes logs."""

    opened_at_a_time: int
    """How many are opened at once."""

    def beside(self) -> FilesBeside | None:
        """What a log may be opened with on another thread; None where opening one takes no time."""

    async def wait_until_prepared(self, topic: str, topic_id: bytes, index: int, epoch: int) -> None:
        """Bring what opening the log needs from another machine, where it is this node's from now on, under this epoch.
        Raises `StorageFailed`; `NotOwned` where a later epoch is another node's."""

    def let_go(self, topic_id: bytes, index: int) -> None:
        """A log was prepared, and is not to be opened."""

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        config: LogConfig,
        files: FilesBeside | None = None,
        *,
        start_offset: int = 0,
    ) -> Log:
        """The log of a partition, made where there is none; on another thread with `files`. What stood before
        `start_offset` is known without it: it begins there, even if it would end before. Raises `LogDamaged`."""

    def epoch_before_repair(self, topic: str, index: int) -> int | None:
        """The highest epoch that any log knows, where a part of this one was or is about to be cut off by a repair;
        None where nothing ever was."""

    def metadata_snapshots(self, topic: str, index: int) -> SnapshotFolder | None:
        """Where snapshots of what a log says are kept beside it; None where nothing outlives the process."""

    def release(self, log: Log) -> bool:
        """Close a log whose partition is going away; False while a sync still uses its files (try again)."""

    def remove(self, topic: str, topic_id: bytes, indexes: Iterable[int], files: FilesBeside) -> None:
        """Put logs of a deleted topic out of the way, on another thread; final after a crash too. Raises
        `StorageFailed`."""

    def removed(self, topic: str, topic_id: bytes, partition_count: int) -> None:
        """All logs of a topic are out of the way."""

    def longest_topic_name(self) -> int:
        """A longer one could not be given to the folders of its partitions."""

    def sweep(self) -> Blocking | None:
        """What frees the space of one removed log whose time has come; None where there is nothing to do."""


class _OwnMachine:
    """What is so of logs that nobody else can reach."""

    opened_at_a_time = 2

    async def wait_until_prepared(self, topic: str, topic_id: bytes, index: int, epoch: int) -> None:
        return

    def let_go(self, topic_id: bytes, index: int) -> None:
        return


class MemoryStore(_OwnMachine):
    """Logs in memory; nothing is left of a removed one."""

    def beside(self) -> FilesBeside | None:
        return None

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        config: LogConfig,
        files: FilesBeside | None = None,
        *,
        start_offset: int = 0,
    ) -> Log:
        assert start_offset == 0, "nothing was there before"
        return MemoryLog(config)

    def metadata_snapshots(self, topic: str, index: int) -> None:
        return None

    def epoch_before_repair(self, topic: str, index: int) -> int | None:
        return None

    def release(self, log: Log) -> bool:
        log.close()
        return True

    def remove(self, topic: str, topic_id: bytes, indexes: Iterable[int], files: FilesBeside) -> None:
        return

    def removed(self, topic: str, topic_id: bytes, partition_count: int) -> None:
        return

    def longest_topic_name(self) -> int:
        return LONGEST_NAME

    def sweep(self) -> None:
        return None


class FolderStore(_OwnMachine):
    """Logs in folders. `recovery` gives what is known of the last run of a partition; `on_sync_failed` is called on the
    thread whose sync has failed."""

    def __init__(
        self,
        files: Files,
        *,
        now_ms: Callable[[], int],
        recovery: Callable[[str, int], Recovery],
        delete_delay_ms: Callable[[], int],
        on_sync_failed: Callable[[], object] | None = None,
    ) -> None:
        self._files = files
        self._now_ms = now_ms
        self._recovery = recovery
        self._delete_delay_ms = delete_delay_ms
        self._on_sync_failed = on_sync_failed
        self._doomed: list[tuple[int, Iterator[str]]] = []
        """(when they are to be deleted, folders). The names of a topic's are made when they are wanted."""

    def beside(self) -> FilesBeside | None:
        return self._files.beside()

    def open(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        config: LogConfig,
        files: FilesBeside | None = None,
        *,
        start_offset: int = 0,
    ) -> Log:
        folder = f"{topic}-{index}"
        using = self._files if files is None else files
        was_there, found = using.exists(folder), read_partition_metadata(using, folder)
        recovery = self._recovery(topic, index)
        if start_offset > recovery.log_start_offset:
            recovery = replace(recovery, log_start_offset=start_offset)
        if found is not None and found != topic_id and not recovery.repair:
            # Folders of deleted topics are out of the way by now (`tidy`).
            raise LogDamaged(f"{folder}/", None, 0, f"{PARTITION_METADATA} has the id of another topic, {found.hex()}")
        log = SegmentLog.open(using, folder, config, now_ms=self._now_ms, recovery=recovery)
        log.on_sync_failed = self._on_sync_failed
        for note in log.recovery_notes:
            _log.warning(note)
        if found != topic_id:
            write_partition_metadata(using, folder, topic_id, synced=was_there)
        return log

    def epoch_before_repair(self, topic: str, index: int) -> int | None:
        cut = any(name.endswith(DAMAGED) for name in self._files.list(f"{topic}-{index}"))
        return highest_epoch(self._files) if cut or self._recovery(topic, index).repair else None

    def metadata_snapshots(self, topic: str, index: int) -> SnapshotFolder:
        return SnapshotFolder(self._files, f"{topic}-{index}", repair=self._recovery(topic, index).repair)

    def release(self, log: Log) -> bool:
        if log.is_flushing:
            return False
        log.abandon()
        return True

    def remove(self, topic: str, topic_id: bytes, indexes: Iterable[int], files: Files) -> None:
        folder, folders = topic, [f"{topic}-{index}" for index in indexes]
        try:
            files.leaving(folders)
            for folder in folders:
                self._put_aside(folder, topic_id, files)
        except OSError as error:
            # A folder that keeps its name would be taken for one of the next topic of that name.
            raise StorageFailed(f"{folder} was deleted and cannot be put aside: {error}") from error

    def _put_aside(self, folder: str, topic_id: bytes, files: Files) -> None:
        if not files.exists(folder):
            return
        doomed = self._doomed_name(folder, topic_id)
        if files.exists(doomed):
            files.delete_folder(doomed)
        files.rename(folder, doomed)

    def removed(self, topic: str, topic_id: bytes, partition_count: int) -> None:
        names = (self._doomed_name(f"{topic}-{index}", topic_id) for index in range(partition_count))
        self._doomed.append((self._now_ms() + self._delete_delay_ms(), names))

    def sweep(self) -> Blocking | None:
        for due_ms, folders in list(self._doomed):
            if due_ms <= self._now_ms():
                folder = next(folders, None)
                if folder is not None:
                    return partial(self._files.beside().delete_folder, folder)
                self._doomed.remove((due_ms, folders))
        return None

    def tidy(self, owner: Callable[[str, int, bytes | None], bool | None]) -> Iterator[str]:
        """At start: take up deletions that were under way, and look for folders of no topic.

        `owner(topic, index, topic_id)` says whether a folder belongs to a topic (True), to a deleted one (False), or
        to none that the metadata log ever knew (None); the latter are set aside, and yielded.
        """
        begun: list[str] = []
        self._doomed.append((self._now_ms(), iter(begun)))
        for name in self._files.list(""):
            if name.endswith(DELETED) and self._files.exists(f"{name}/{PARTITION_METADATA}"):
                begun.append(name)
                continue
            matched = PARTITION_FOLDER.match(name)
            if matched is None or not self._is_partition(name):
                continue
            topic, index = matched["topic"], int(matched["index"])
            topic_id = self._topic_id(name)
            owned = owner(topic, index, topic_id)
            if owned is False:
                self._put_aside(name, topic_id or bytes(16), self._files)
                begun.append(self._doomed_name(name, topic_id or bytes(16)))
            elif owned is None:
                aside = self._free_name(f"{self._cut(name)}.{(topic_id or bytes(16)).hex()}")
                self._files.rename(name, aside)
                yield aside

    def _topic_id(self, folder: str) -> bytes | None:
        """Whose a folder is by its file; one that cannot be read is that log's affair, when it is opened."""
        try:
            return read_partition_metadata(self._files, folder)
        except OSError:
            return None

    def _free_name(self, stem: str) -> str:
        """What is set aside is kept, an earlier one of the same name included."""
        names = (f"{stem}{STRAY}" if number == 0 else f"{stem}.{number}{STRAY}" for number in count())
        return next(name for name in names if not self._files.exists(name))

    def _is_partition(self, folder: str) -> bool:
        """Whether a folder looks like ours: nothing else is ever touched."""
        return any(name == PARTITION_METADATA or name.endswith(".log") for name in self._files.list(folder))

    def longest_topic_name(self) -> int:
        return min(LONGEST_NAME, self._files.longest_name() - LONGEST_INDEX)

    def _doomed_name(self, folder: str, topic_id: bytes) -> str:
        return f"{self._cut(folder)}.{topic_id.hex()}{DELETED}"

    def _cut(self, folder: str) -> str:
        """Kafka cuts the name so that it stays a legal file name with what is put behind it."""
        return folder[: max(1, self._files.longest_name() - BEHIND)]
