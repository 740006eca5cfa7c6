"""The real disk adapter (`broker.disk.local_files`) in the place of the disk that forgets, for runs of the simulation.

It has few descriptors, so that it closes and opens files again all the time, and sends nothing straight from a file.
"""

from broker.disk.local_files import FilesBeside, LocalFiles
from tests.harness.disk import Watcher
from tests.harness.loop import ProcessDied

DESCRIPTORS = 3


class AdapterDisk(LocalFiles):
    """`SimulatedDisk` to a broker's process. Only `kill -9` may befall it."""

    def __init__(self, root: str) -> None:
        self.watcher: Watcher | None = None
        self.looker: Watcher | None = None
        self.room_bytes: int | None = None
        self.dead = False
        self._beside: list[AdapterBeside] = []
        super().__init__(root, descriptors=DESCRIPTORS)

    def before(self, operation: str, path: str) -> None:
        if self.dead:
            raise ProcessDied

    after = before

    def beside(self) -> "AdapterBeside":
        made = AdapterBeside(self)
        self._beside.append(made)
        return made

    def after_kill(self) -> "AdapterDisk":
        """The same folder for the next process. What is left of the dead one can do nothing more."""
        self.dead = True
        for beside in self._beside:
            beside.close()
        self.close()
        return AdapterDisk(self.root)

    def _absolute(self, path: str) -> str:
        if self.dead:
            raise ProcessDied
        return super()._absolute(path)


class AdapterBeside(FilesBeside):
    """Files of another thread, which is not one here."""

    def __init__(self, disk: AdapterDisk) -> None:
        self._disk = disk
        super().__init__(disk)

    def beside(self) -> "AdapterBeside":
        return self._disk.beside()

    def _absolute(self, path: str) -> str:
        if self._disk.dead:
            raise ProcessDied
        return super()._absolute(path)
