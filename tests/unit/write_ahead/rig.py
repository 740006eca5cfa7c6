"""A write-ahead log over the forgetful disk, and files that use it."""

from collections.abc import Callable, Mapping
from random import Random

from storage.files import File
from storage.write_ahead.commits import BLOCK, HALVES_AT
from storage.write_ahead.files import WriteAheadFiles
from storage.write_ahead.replay import AHEAD_FILE, replay
from storage.write_ahead.write_ahead_log import WriteAheadLog
from tests.harness.simulated_files import SimulatedFiles


class Rig:
    """Names are of files of logs in the folder `a-0`, which is on the disk."""

    def __init__(self, *, half_blocks: int = 16, ready: bool = True) -> None:
        self.disk = SimulatedFiles()
        self.disk.make_folder("a-0")
        self.disk.sync_folder("")
        self.log = WriteAheadLog(self.disk, HALVES_AT + 2 * half_blocks * BLOCK, commits_before=3)
        self.files = WriteAheadFiles(self.disk, self.log)
        if ready:
            self.log.prepare()
        self.disk.syncs.clear()

    def open(self, name: str, folder: str = "a-0") -> File:
        """A file of a log, whose name is on the disk."""
        file = self.files.open(f"{folder}/{name}.log", create=True)
        self.disk.sync_folder(folder)
        self.disk.syncs.clear()
        return file

    def after_power_cuts(self, check: Callable[[Mapping[str, bytes]], None], count: int = 40) -> None:
        """What a start finds in the files, of many power cuts at this moment."""
        for seed in range(count):
            disk = self.disk.crash(Random(seed))
            replay(disk)
            assert not disk.exists(AHEAD_FILE)
            check(contents(disk.crash(Random(seed))))


def contents(disk: SimulatedFiles) -> dict[str, bytes]:
    """Of all files of logs, by path."""
    found: dict[str, bytes] = {}
    for folder in disk.list(""):
        for name in disk.list(folder) if "-" in folder else ():
            file = disk.open(f"{folder}/{name}")
            found[f"{folder}/{name}"] = file.read(0, file.size())
    return found


def check_all(found: Mapping[str, bytes], committed: Mapping[str, bytes]) -> None:
    for path, data in committed.items():
        assert found[path].startswith(data), path


def check_exactly(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    assert {path: found[path] for path in expected} == expected
