"""The folder that backups are in.

    tallystick.backups      whose they are: version, cluster, node
    backups/<id>            a backup that is whole (`manifest`)
    pieces, packs           what they consist of (`pieces`)
    lock, readers           one writes at a time; while somebody reads, nothing is deleted

All of it can be read by its owner only: the metadata have credentials in them.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from broker.backups.manifest import Manifest, read_manifest
from broker.backups.pieces import (
    BEING_WRITTEN,
    PACKS,
    PIECES,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    TEMPORARY,
    Damaged,
    sync_folder,
    write_all,
    write_new,
)

FORMAT, BACKUPS, LOCK, READERS = "tallystick.backups", "backups", "lock", "readers"
VERSION = 1
_OF_A_NEW_ONE = {FORMAT + BEING_WRITTEN, LOCK, "lost+found"}


class Refused(Exception):
    """It is not done; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Of which broker the backups are."""

    cluster_id: str
    node_id: int


def in_order(backup_id: str) -> tuple[str, int]:
    """What their ids are sorted by: a time, and the number of one of several that have it."""
    time, _, number = backup_id.partition("-")
    return time, int(number) if number.isascii() and number.isdigit() else 1


class Target:
    """See the head of this file."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def prepare(self, whose: Whose) -> None:
        """Make it where there is none. Raises `Refused` where it is something else, or another broker's."""
        if self._is_new():
            os.makedirs(self.root, PRIVATE_FOLDER, exist_ok=True)
            os.chmod(self.root, PRIVATE_FOLDER)
            with self.writing():
                if self._is_new():  # still: another broker may have been here first
                    said = {"version": VERSION, "cluster_id": whose.cluster_id, "node_id": whose.node_id}
                    self._write(FORMAT, (json.dumps(said) + "\n").encode())
            sync_folder(os.path.dirname(self.root))
        if (found := self.whose()) != whose:
            raise Refused(
                f"{self.root} has backups of node {found.node_id} of the cluster {found.cluster_id}, and this is node "
                f"{whose.node_id} of {whose.cluster_id}: give each a folder of its own"
            )
        for folder in (BACKUPS, PIECES, PACKS):
            os.makedirs(f"{self.root}/{folder}", PRIVATE_FOLDER, exist_ok=True)
        sync_folder(self.root)

    def _is_new(self) -> bool:
        return not os.path.isdir(self.root) or not set(os.listdir(self.root)) - _OF_A_NEW_ONE

    def whose(self) -> Whose:
        """Raises `Refused` where it is no folder of backups."""
        try:
            with os.fdopen(os.open(f"{self.root}/{FORMAT}", os.O_RDONLY | os.O_CLOEXEC), "rb") as source:
                said = json.loads(source.read())
            version, whose = int(said["version"]), Whose(str(said["cluster_id"]), int(said["node_id"]))
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(f"{self.root} is no folder of backups: {FORMAT} is missing in it") from None
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{self.root}/{FORMAT} is damaged: it says whose backups these are") from None
        if version > VERSION:
            raise Refused(f"{self.root} was written by a newer version of this program")
        return whose

    def ids(self) -> list[str]:
        """Of backups that came to their end, the oldest first."""
        return sorted((name for name in self._names(BACKUPS) if not name.endswith(BEING_WRITTEN)), key=in_order)

    def unfinished(self) -> list[str]:
        """Of those that did not, or have not yet."""
        found = (name for name in self._names(PACKS) if name.endswith(BEING_WRITTEN))
        return [name.removesuffix(BEING_WRITTEN) for name in found]

    def is_used(self, backup_id: str) -> bool:
        """Whether there was ever one of this id."""
        return backup_id in self.ids() or backup_id in self._names(PACKS)

    def read(self, backup_id: str) -> Manifest:
        """Raises `Refused` where there is none of this id, `Damaged`."""
        known = self.ids()
        if backup_id not in known:
            there = f"there are {', '.join(known)}" if known else "there is none"
            raise Refused(f"there is no backup {backup_id} in {self.root}; {there}")
        return read_manifest(f"{self.root}/{BACKUPS}/{backup_id}")

    def latest(self) -> str:
        """Raises `Refused` where there is none."""
        if not (known := self.ids()):
            raise Refused(f"there is no backup in {self.root} that came to its end")
        return known[-1]

    def newest_readable(self) -> Manifest | None:
        """What a new one is compared with."""
        for backup_id in reversed(self.ids()):
            with suppress(Damaged):
                return self.read(backup_id)
        return None

    def add(self, manifest: Manifest) -> None:
        """All that it names is on the disk: so is the backup, when it returns. Raises `OSError`."""
        self._write(f"{BACKUPS}/{manifest.head.id}", manifest.to_bytes())

    def clean(self) -> list[str]:
        """Delete what backups have left that did not come to their end, under the lock; gives their ids. Large pieces
        that they had copied stay for the next one."""
        left = self.unfinished()
        for name in left:
            os.unlink(f"{self.root}/{PACKS}/{name}{BEING_WRITTEN}")
        for name in self._names(BACKUPS):
            if name.endswith(BEING_WRITTEN):
                os.unlink(f"{self.root}/{BACKUPS}/{name}")
        with suppress(FileNotFoundError):
            os.unlink(f"{self.root}/{TEMPORARY}")
        return left

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else adds or deletes meanwhile. Raises `Refused`."""
        with self._locked(LOCK, fcntl.LOCK_EX, "another backup, or a prune, is under way in"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nothing is deleted meanwhile. Raises `Refused`."""
        with self._locked(READERS, fcntl.LOCK_SH, "backups are being deleted in"):
            yield

    @contextmanager
    def deleting(self) -> Iterator[None]:
        """Nobody adds, reads or deletes meanwhile. Raises `Refused`."""
        with self.writing(), self._locked(READERS, fcntl.LOCK_EX, "a backup is being read in"):
            yield

    @contextmanager
    def _locked(self, name: str, how: int, otherwise: str) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(f"{self.root}/{name}", flags, PRIVATE_FILE)
        except OSError:  # a medium that is read only, to be restored from: nobody deletes there
            if how != fcntl.LOCK_SH:
                raise
            yield
            return
        try:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"{otherwise} {self.root}") from None
            yield
        finally:
            os.close(descriptor)

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(f"{self.root}/{folder}"))
        except FileNotFoundError:
            return []

    def _write(self, name: str, data: bytes) -> None:
        path = f"{self.root}/{name}"
        descriptor = os.open(path + BEING_WRITTEN, write_new(), PRIVATE_FILE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(path + BEING_WRITTEN, path)
        sync_folder(os.path.dirname(path))
