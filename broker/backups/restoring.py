"""A data folder made of a backup. It gets its name when all of it is on the disk; nothing is written into a folder that
has something in it.

Where the folder is there already, empty (a volume that is mounted, say), what is in it gets its names one by one, that
of the metadata first and `tallystick.format` last: a broker refuses to start on a part of it.
"""

import fcntl
import os
import shutil
import sys
from contextlib import suppress

from broker.backups.copying import OnProgress
from broker.backups.manifest import FileEntry, Manifest
from broker.backups.pieces import PRIVATE_FILE, PRIVATE_FOLDER, PieceReader, sync_folder, write_all, write_new
from broker.backups.target import Refused, Target
from storage.checkpoints import COPY_FILE, FORMAT_FILE
from storage.data_folder import KRAFT_LOG

RESTORING = ".restoring"
_NOT_OURS = ("lost+found", RESTORING)


def restore(target: Target, manifest: Manifest, folder: str, on_progress: OnProgress) -> None:
    """Raises `Damaged`, `Refused`, `OSError`; then the folder is not there, or empty as it was."""
    folder = os.path.abspath(folder)
    if os.path.commonpath([os.path.realpath(folder), os.path.realpath(target.root)]) == os.path.realpath(target.root):
        raise Refused(f"{folder} is in the folder of the backups: choose another")
    is_there = os.path.lexists(folder)
    if is_there and (not os.path.isdir(folder) or set(os.listdir(folder)) - set(_NOT_OURS)):
        raise Refused(f"{folder} is there already and is not empty: nothing is written into it")
    making = f"{folder}/{RESTORING}" if is_there else folder + RESTORING
    os.makedirs(making, PRIVATE_FOLDER, exist_ok=True)
    descriptor = os.open(making, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"another restore is writing to {making}") from None
        try:
            _fill(target, manifest, making, on_progress)
            _name(making, folder, is_there=is_there)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def _fill(target: Target, manifest: Manifest, making: str, on_progress: OnProgress) -> None:
    for name in os.listdir(making):  # of one that was killed
        path = f"{making}/{name}"
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    reader = PieceReader(target.root)
    total, done = manifest.size_bytes, 0
    try:
        for entry in manifest.files.values():
            _write(reader, entry, f"{making}/{entry.path}")
            done += entry.size
            on_progress(done, total)
    finally:
        reader.close()
    os.close(os.open(f"{making}/{COPY_FILE}", write_new(), PRIVATE_FILE))
    _sync(manifest, making)


def _write(reader: PieceReader, entry: FileEntry, path: str) -> None:
    os.makedirs(os.path.dirname(path), PRIVATE_FOLDER, exist_ok=True)
    descriptor = os.open(path, write_new() | os.O_EXCL, PRIVATE_FILE)
    try:
        for piece in entry.pieces:
            write_all(descriptor, reader.read(piece))
    finally:
        os.close(descriptor)
    os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))


def _sync(manifest: Manifest, making: str) -> None:
    """On the disk. One call for thousands of files, where the system says that it waits."""
    if sys.platform == "linux":
        os.sync()
        return
    for entry in manifest.files.values():
        descriptor = os.open(f"{making}/{entry.path}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    for folder, _, _ in os.walk(making):
        sync_folder(folder)


def _name(making: str, folder: str, *, is_there: bool) -> None:
    if not is_there:
        os.rename(making, folder)
        sync_folder(os.path.dirname(folder))
        return
    names = sorted(os.listdir(making), key=lambda name: (name == FORMAT_FILE, name != KRAFT_LOG, name))
    named: list[str] = []
    try:
        for name in names:
            if name == FORMAT_FILE:
                sync_folder(folder)
            os.rename(f"{making}/{name}", f"{folder}/{name}")
            named.append(name)
        os.rmdir(making)
        sync_folder(folder)
    except BaseException:
        for name in reversed(named):
            _remove(f"{folder}/{name}")
        raise


def _remove(path: str) -> None:
    """What was made here, as far as it can be."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
