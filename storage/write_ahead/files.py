"""Files of logs: those of segments use a write-ahead log, and whatever is cut, renamed or deleted is settled in it."""

from collections.abc import Callable, Sequence

from storage.files import File, Files, FilesAround, FilesBeside
from storage.segments.segment_format import LOG
from storage.write_ahead.file import WriteAheadFile
from storage.write_ahead.write_ahead_log import WriteAheadLog


class WriteAheadFiles(FilesAround):
    """See the head of this file."""

    def __init__(self, files: Files, log: WriteAheadLog) -> None:
        super().__init__(files)
        self._log = log

    def open(self, path: str, *, create: bool = False) -> File:
        file = self._files.open(path, create=create)
        return WriteAheadFile(file, path, self._log) if path.endswith(LOG) else file

    def leaving(self, paths: Sequence[str]) -> None:
        self._log.settle(*paths)

    def rename(self, source: str, target: str) -> None:
        self._log.settle(source, target)
        self._files.rename(source, target)

    def delete(self, path: str) -> None:
        self._log.settle(path)
        self._files.delete(path)

    def delete_folder(self, path: str) -> None:
        self._log.settle(path)
        self._files.delete_folder(path)

    def beside(self) -> "WriteAheadFilesBeside":
        return WriteAheadFilesBeside(self._files.beside(), self._log)


class WriteAheadFilesBeside(WriteAheadFiles):
    """See `storage.files.FilesBeside`."""

    def __init__(self, files: FilesBeside, log: WriteAheadLog) -> None:
        super().__init__(files, log)
        self.hand_over: Callable[[], None] = files.hand_over
        self.give_up: Callable[[], None] = files.give_up
        self.close: Callable[[], None] = files.close
