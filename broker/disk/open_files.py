"""Which files are open, by path: a rename of a folder looks at those inside it, however many others there are."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.disk.descriptor_cache import LocalFile


class OpenFiles:
    """See the head of this file."""

    def __init__(self) -> None:
        self._by_path: dict[str, LocalFile] = {}
        self._inside: dict[str, dict[str, None]] = {}
        """Folder → the paths of all open files below it."""

    def get(self, path: str) -> "LocalFile | None":
        return self._by_path.get(path)

    def all(self) -> "list[LocalFile]":
        return list(self._by_path.values())

    def add(self, path: str, file: "LocalFile") -> None:
        self._by_path[path] = file
        for folder in _folders_above(path):
            self._inside.setdefault(folder, {})[path] = None

    def remove(self, path: str) -> "LocalFile | None":
        """Forget a path; what was open by this name, if anything was."""
        file = self._by_path.pop(path, None)
        if file is not None:
            for folder in _folders_above(path):
                paths = self._inside[folder]
                del paths[path]
                if not paths:
                    del self._inside[folder]
        return file

    def moved(self, source: str, target: str) -> None:
        """A file or a folder has another name now."""
        for path in [source, *self._inside.get(source, ())]:
            file = self.remove(path)
            if file is not None:
                file.path = target + path[len(source) :]
                self.add(file.path, file)


def _folders_above(path: str) -> list[str]:
    return [path[:end] for end, character in enumerate(path) if character == "/"]
