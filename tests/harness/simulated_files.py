"""The forgetful disk (`tests.harness.disk`) as tests of single parts like to have it.

`crash(random)` gives the disk as it is found after a power cut; `kill()` as after `kill -9`. Both give a new object and
leave this one as it is, so that one moment can be looked at in many ways. Power cuts are of the harsher kind: each
write that was not synced survives whole, torn or not at all, independently of later ones.
`capacity_bytes` makes it full, `fault` makes chosen operations fail, `syncs` is what was synced, in order.
"""

from collections.abc import Callable
from random import Random

from tests.harness.disk import SimulatedDisk
from tests.harness.page_cache import Folder, Inode

Fault = Callable[[str, str], OSError | None]
"""(operation, path) -> the error it meets, or None. Operations are the names of the methods of `Files` and `File`."""
SYNCS = ("sync", "sync_folder", "write_whole")


class SimulatedFiles(SimulatedDisk):
    """See the head of this file."""

    def __init__(self, root: Folder | None = None) -> None:
        super().__init__()
        self.root = root or Folder()
        self.capacity_bytes: int | None = None
        self.fault: Fault | None = None
        self.syncs: list[str] = []

    def crash(self, random: Random) -> "SimulatedFiles":
        """The disk after a power cut."""
        return SimulatedFiles(self.root.after_power_cut(random, any_subset=True))

    def kill(self) -> "SimulatedFiles":
        """The page cache after `kill -9`: all is still there, and still not synced."""
        return SimulatedFiles(self.root.copy())

    def before(self, operation: str, path: str) -> None:
        super().before(operation, path)
        if operation in SYNCS:
            self.syncs.append(path)
        self._strike(operation, path)

    def before_looking(self, operation: str, path: str) -> None:
        super().before_looking(operation, path)
        self._strike(operation, path)

    def _strike(self, operation: str, path: str) -> None:
        if self.fault is not None and (error := self.fault(operation, path)) is not None:
            raise error

    def take_room(self, size: int) -> int:
        if self.capacity_bytes is None:
            return size
        return min(size, max(0, self.capacity_bytes - size_of(self.root)))


def size_of(node: Inode | Folder) -> int:
    """How many bytes the files of a tree hold."""
    if isinstance(node, Inode):
        return len(node.content)
    return sum(size_of(below) for below in node.entries.values())
