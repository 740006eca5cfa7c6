"""Calls of the real disk adapter, done to the disk that forgets, and a power cut after each of them."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from random import Random
from typing import Any

from tests.harness.disk import SimulatedDisk, SimulatedFile
from tests.harness.page_cache import Folder
from tests.harness.recording_os import Call


class Replay:
    """Does calls to `disk`. What they do not sync is synced all the same, where only something else is to be missing:
    each name (`names`), each byte (`contents`), or what a file had before its last write (`writes`)."""

    def __init__(self, *, names: bool = False, contents: bool = False, writes: bool = False) -> None:
        self.disk = SimulatedDisk()
        self._names = names
        self._contents = contents
        self._writes = writes
        self._files: dict[int, SimulatedFile] = {}

    def do(self, call: Call) -> None:
        if call.path.startswith(".."):
            return  # beside the data folder
        path = "" if call.path == "." else call.path
        if call.name == "fsync":
            self.disk.sync_folder(path)
        elif call.name in ("write", "truncate", "fdatasync"):
            self._to_file(self._file(call), call)
        elif path:
            self._to_folder(path, call)

    def _file(self, call: Call) -> SimulatedFile:
        if call.file not in self._files:  # it was there before the first call
            self._files[call.file] = self.disk.open(call.path)
        return self._files[call.file]

    def _to_file(self, file: SimulatedFile, call: Call) -> None:
        if self._writes:
            file.sync()
        if call.name == "write":
            file.write_at(call.position, call.data)
        elif call.name == "truncate":
            file.truncate(call.position)
        if call.name == "fdatasync" or self._contents:
            file.sync()

    def _to_folder(self, path: str, call: Call) -> None:
        if call.name == "create":
            self._files[call.file] = self.disk.open(path, create=True)
        elif call.name == "mkdir":
            self.disk.make_folder(path)
        elif call.name == "rename":
            self.disk.rename(path, call.target)
        else:
            assert call.name in ("unlink", "rmdir"), call
            self.disk.delete(path)
        if self._names:
            self.disk.sync_folder(path.rpartition("/")[0])


class Least(Random):
    """Draws of a power cut in which nothing survives that need not."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


class Half(Random):
    """Draws in which the first half survives: of several names, and of one write."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if start <= 2 else start // 2


CUTS: dict[str, tuple[Callable[[], Replay], Callable[[int], Random]]] = {
    "nothing but what was synced": (Replay, lambda index: Least()),
    "all names, contents as synced": (lambda: Replay(names=True), lambda index: Least()),
    "all contents, names as synced": (lambda: Replay(contents=True), lambda index: Least()),
    "last writes torn, names as synced": (lambda: Replay(writes=True), lambda index: Half()),
    "whatever comes": (Replay, Random),
}
"""What a power cut leaves: what it befalls, and the draws, by the number of calls before it."""


def after_each(calls: list[Call], cut: str, before: Folder | None = None) -> Iterator[tuple[int, SimulatedDisk]]:
    """The disk as a power cut leaves it after each call, with the index of the call. `before`: what was there before
    the first one."""
    make, draws = CUTS[cut]
    replay = make()
    if before is not None:
        replay.disk.root = before.copy()
    for index, call in enumerate(calls):
        replay.do(call)
        found = replay.disk.after_power_cut(draws(index), any_subset=cut == "whatever comes" and index % 2 == 0)
        replay.disk.dead = False
        yield index, found


def distinct(calls: list[Call], cut: str, before: Folder | None = None) -> Iterator[tuple[int, SimulatedDisk]]:
    """As `after_each`; of calls that leave the same, the last one: then most was acknowledged."""
    last: tuple[int, SimulatedDisk, bytes] | None = None
    for index, found in after_each(calls, cut, before):
        digest = sha256()
        _enter(digest, found.root)
        if last is not None and last[2] != digest.digest():
            yield last[:2]
        last = index, found, digest.digest()
    if last is not None:
        yield last[:2]


def _enter(digest: Any, folder: Folder) -> None:
    """All names and bytes of a folder, into a digest."""
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, Folder):
            digest.update(f"{name}/{len(node.entries)}/".encode())
            _enter(digest, node)
        else:
            digest.update(f"{name}:{len(node.content)}:".encode() + node.content)
