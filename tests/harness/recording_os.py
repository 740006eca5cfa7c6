"""The `os` of the disk adapter, writing down each call that matters in a power cut, and what one would take away."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import broker.disk.descriptor_cache
import broker.disk.local_files
from protocol.schema import Buffer


class RecordingOs:
    """Stands in for the module `os` in `broker.disk`; everything is really done.

    `calls` are in the order of the system calls, with paths relative to `root`. `unsynced` are the files whose contents
    a power cut might take away, `unsynced_names` the folders that may have lost or kept a name.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._paths: dict[int, str] = {}
        self._refusals: dict[str, tuple[int, int]] = {}
        self.calls: list[str] = []
        self.unsynced: set[str] = set()
        self.unsynced_names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def forget(self) -> None:
        """Begin anew."""
        self.calls.clear()
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

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._root)

    def _changed(self, path: str) -> None:
        self.unsynced_names.add(self._name(os.path.dirname(path)))

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self._asked("open")
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = self._name(path)
        if is_new:
            self.calls.append(f"create {self._name(path)}")
            self._changed(path)
        return descriptor

    def dup(self, descriptor: int) -> int:
        self._asked("dup")
        copy = os.dup(descriptor)
        self._paths[copy] = self._paths[descriptor]
        return copy

    def _written(self, call: Callable[..., int], descriptor: int, *arguments: Any) -> int:
        path = self._paths[descriptor]
        self.calls.append(f"write {path}")
        self.unsynced.add(path)
        return call(descriptor, *arguments)

    def pwritev(self, descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        return self._written(os.pwritev, descriptor, parts, position)

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        return self._written(os.pwrite, descriptor, data, position)

    def write(self, descriptor: int, data: Buffer) -> int:
        return self._written(os.write, descriptor, data)

    def fdatasync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)
        self.calls.append(f"fdatasync {self._paths[descriptor]}")
        self.unsynced.discard(self._paths[descriptor])

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        self.calls.append(f"fsync {self._paths[descriptor]}")
        self.unsynced_names.discard(self._paths[descriptor])

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        old, new = self._name(source), self._name(target)
        self.calls.append(f"rename {old} {new}")
        self._changed(source)
        self._changed(target)
        self._paths = {descriptor: _renamed(path, old, new) for descriptor, path in self._paths.items()}
        self.unsynced = {_renamed(path, old, new) for path in self.unsynced}
        self.unsynced_names = {_renamed(path, old, new) for path in self.unsynced_names}

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self.calls.append(f"unlink {self._name(path)}")
        self.unsynced.discard(self._name(path))
        self._changed(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder)
            self.calls.append(f"mkdir {self._name(folder)}")
            self._changed(folder)


def _renamed(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path


def record(monkeypatch: pytest.MonkeyPatch, root: str) -> RecordingOs:
    """From now on, until the end of the test."""
    recording = RecordingOs(root)
    monkeypatch.setattr(broker.disk.local_files, "os", recording)
    monkeypatch.setattr(broker.disk.descriptor_cache, "os", recording)
    return recording
