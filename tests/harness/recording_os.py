"""The `os` of the disk adapter, writing down each call that matters in a power cut, and what one would take away."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import broker.disk.descriptor_cache
import broker.disk.in_place
import broker.disk.local_files
from protocol.schema import Buffer


@dataclass(frozen=True, slots=True)
class Call:
    """One that was done. `file` is the same for a file under all its names, and another for one that takes its name.
    Of a truncation `position` is the new size."""

    name: str
    path: str
    target: str = ""
    file: int = 0
    position: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.name} {self.path} {self.target}".rstrip()


class _File:
    """A file or folder, whatever it is called."""

    def __init__(self, number: int, path: str) -> None:
        self.number = number
        self.path = path


class RecordingOs:
    """Stands in for the modules `os` and `shutil` in `broker.disk`; everything is really done.

    `made` are in the order of the system calls, with paths relative to `root`; `calls` the same as texts. `unsynced`
    are the files whose contents a power cut might take away, `unsynced_names` the folders that may have lost or kept a
    name.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._by_descriptor: dict[int, _File] = {}
        self._by_path: dict[str, _File] = {}
        self._synced_by_writes: set[int] = set()
        """Descriptors that were opened so."""
        self._files = 0
        self._refusals: dict[str, tuple[int, int]] = {}
        self.made: list[Call] = []
        self.unsynced: set[str] = set()
        self.unsynced_names: set[str] = set()
        self.listener: Callable[[Call], None] = lambda call: None
        """Called after each."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def calls(self) -> list[str]:
        return [str(call) for call in self.made]

    def forget(self) -> None:
        """Begin anew."""
        self.made.clear()
        self.unsynced.clear()
        self.unsynced_names.clear()

    def refuse(self, call: str, times: int, number: int) -> None:
        """The next calls of this name fail with an error of this number."""
        self._refusals[call] = (times, number)

    def _asked(self, call: str) -> None:
        times, number = self._refusals.get(call, (0, 0))
        if times:
            self._refusals[call] = (times - 1, number)
            raise OSError(number, os.strerror(number))

    def _done(self, call: Call) -> None:
        self.made.append(call)
        self.listener(call)

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._root)

    def _changed(self, path: str) -> None:
        self.unsynced_names.add(self._name(os.path.dirname(path)))

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self._asked("open")
        name = self._name(path)
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
        descriptor = os.open(path, flags, mode)
        if is_new or name not in self._by_path:
            self._files += 1
            self._by_path[name] = _File(self._files, name)
        file = self._by_descriptor[descriptor] = self._by_path[name]
        self._synced_by_writes.discard(descriptor)
        if flags & os.O_DSYNC:
            self._synced_by_writes.add(descriptor)
        if is_new:
            self._changed(path)
            self._done(Call("create", name, file=file.number))
        elif flags & os.O_TRUNC:
            self._cut(file, 0)
        return descriptor

    def dup(self, descriptor: int) -> int:
        self._asked("dup")
        copy = os.dup(descriptor)
        self._by_descriptor[copy] = self._by_descriptor[descriptor]
        self._synced_by_writes.discard(copy)
        return copy

    def _written(self, descriptor: int, position: int, data: bytes) -> int:
        file = self._by_descriptor[descriptor]
        self.unsynced.add(file.path)
        self._done(Call("write", file.path, file=file.number, position=position, data=data))
        if descriptor in self._synced_by_writes:
            self._synced(file)
        return len(data)

    def pwritev(self, descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        count = os.pwritev(descriptor, parts, position)
        return self._written(descriptor, position, b"".join(parts)[:count])

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        count = os.pwrite(descriptor, data, position)
        return self._written(descriptor, position, bytes(data)[:count])

    def write(self, descriptor: int, data: Buffer) -> int:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        count = os.write(descriptor, data)
        return self._written(descriptor, position, bytes(data)[:count])

    def ftruncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)
        self._cut(self._by_descriptor[descriptor], size)

    def _cut(self, file: _File, size: int) -> None:
        self.unsynced.add(file.path)
        self._done(Call("truncate", file.path, file=file.number, position=size))

    def fdatasync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
        self._synced(self._by_descriptor[descriptor])

    def _synced(self, file: _File) -> None:
        self.unsynced.discard(file.path)
        self._done(Call("fdatasync", file.path, file=file.number))

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        file = self._by_descriptor[descriptor]
        self.unsynced_names.discard(file.path)
        self._done(Call("fsync", file.path, file=file.number))

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        old, new = self._name(source), self._name(target)
        self._changed(source)
        self._changed(target)
        self._by_path.pop(new, None)
        for path in [path for path in self._by_path if _renamed(path, old, new) != path]:
            file = self._by_path.pop(path)
            file.path = _renamed(path, old, new)
            self._by_path[file.path] = file
        self.unsynced = {_renamed(path, old, new) for path in self.unsynced}
        self.unsynced_names = {_renamed(path, old, new) for path in self.unsynced_names}
        self._done(Call("rename", old, new))

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self._gone("unlink", path)

    def _gone(self, call: str, path: str) -> None:
        name = self._name(path)
        self._by_path.pop(name, None)
        self.unsynced.discard(name)
        self._changed(path)
        self._done(Call(call, name))

    def rmtree(self, path: str) -> None:
        """`shutil.rmtree`, step by step."""
        with os.scandir(path) as entries:
            found = sorted((entry.is_dir(follow_symlinks=False), entry.path) for entry in entries)
        for is_folder, below in found:
            if is_folder:
                self.rmtree(below)
            else:
                self.unlink(below)
        os.rmdir(path)
        self._gone("rmdir", path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder)
            self._changed(folder)
            self._done(Call("mkdir", self._name(folder)))


def _renamed(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path


def record(monkeypatch: pytest.MonkeyPatch, root: str) -> RecordingOs:
    """From now on, until the end of the test."""
    recording = RecordingOs(root)
    monkeypatch.setattr(broker.disk.local_files, "os", recording)
    monkeypatch.setattr(broker.disk.local_files, "shutil", recording)
    monkeypatch.setattr(broker.disk.descriptor_cache, "os", recording)
    monkeypatch.setattr(broker.disk.in_place, "os", recording)
    return recording
