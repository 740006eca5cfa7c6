"""Files by path, those of one folder together: a folder is renamed as a whole, and there may be thousands."""

from storage.files import File


class FilesByFolder:
    """No path leads through more than one folder."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, File]] = {}

    def put(self, path: str, file: File) -> None:
        folder = path.rpartition("/")[0]
        files = self._folders.get(folder)
        if files is None:
            files = self._folders[folder] = {}
        files[path] = file

    def add_all(self, others: "FilesByFolder") -> None:
        for folder, files in others._folders.items():
            self._folders.setdefault(folder, {}).update(files)

    def has(self, path: str) -> bool:
        return path in self._folders.get(path.rpartition("/")[0], {})

    def of(self, path: str) -> list[tuple[str, File]]:
        """The file of this path, or all in the folder of this path."""
        file = self._folders.get(path.rpartition("/")[0], {}).get(path)
        return [*self._folders.get(path, {}).items(), *([] if file is None else [(path, file)])]

    def all(self) -> list[tuple[str, File]]:
        return [found for files in self._folders.values() for found in files.items()]

    def drop(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        files = self._folders.get(folder, {})
        files.pop(path, None)
        if not files:
            self._folders.pop(folder, None)

    def clear(self) -> None:
        self._folders.clear()
