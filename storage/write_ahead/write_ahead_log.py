"""One file that makes what was appended to many durable with one sync.

Rules. What is appended to a log in small pieces is kept here until it is committed, in the order in which it came. A
commit holds all that came since the last one: it is written in place, into blocks that were written before, and
synced; so it costs the same whether one file has grown or a hundred, and no metadata of the file system. The files
themselves are synced later, when the half of this file that has their records is full (`checkpoint`), and then that
half may be written over.
Before a file is cut, renamed or deleted, it is synced, and this log says that it has nothing for it any more
(`settle`): a replay never brings back what was given up, nor writes into another file of the same name.
It is made when there is use for it (`prepare`): a broker that writes little never has one. Until then, and where the
disk has no room for it, every file is synced by itself. A commit or a sync that fails is final: nothing is committed
any more, and the log stays for the next start.

The loop's thread calls `add`; all else may come from any thread.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from protocol.schema import Buffer
from storage.files import File, Files, InPlaceFile
from storage.write_ahead.commits import (
    APPENDED,
    BLOCK,
    HALVES_AT,
    SETTLED,
    begin_with,
    blocks_of,
    put_record,
    sealed,
)
from storage.write_ahead.files_by_folder import FilesByFolder
from storage.write_ahead.replay import AHEAD_FILE, delete_log

PREPARED_AT_ONCE = 1 << 20
SHARE_OF_THE_DISK = 8
"""It takes no more than this part of what is free."""
LEAST_BLOCKS = 4
"""Of a half."""
LONGEST_RECORD = 512
"""Of those that only have a path: a name of 249 bytes, that of a segment, and what is around them."""


class WriteAheadLog:
    """See the head of this file. `on_failed` is called where a commit or a sync fails, on the thread that finds it,
    before anybody else learns of it. `mark` writes down durably, outside of it, whether there has to be one: without
    that nobody would miss one that is gone. It may raise `OSError`."""

    def __init__(self, files: Files, size_bytes: int, *, commits_before: int) -> None:
        """It is of use where files were synced so many times for small appends."""
        self.on_failed: Callable[[], object] = lambda: None
        self.mark: Callable[[bool], object] = lambda there_is_one: None
        self.is_ready = False
        self._files = files
        self._half_bytes = max(0, size_bytes - HALVES_AT) // 2 // BLOCK * BLOCK
        self._size_bytes = HALVES_AT + 2 * self._half_bytes
        self._most_bytes = self._half_bytes // 4
        """Of records in a commit; if there are more, the files are synced."""
        self._is_off = self._half_bytes < LEAST_BLOCKS * BLOCK
        self._missed, self._commits_before = 0, commits_before
        self._file: InPlaceFile | None = None
        self.lock = threading.Lock()
        """Held for moments, by the loop, too."""
        self._writing = threading.Lock()  # held while a commit is written
        self._checkpointing = threading.Lock()
        self._records, self._settled = bytearray(), bytearray()
        self._added = self._committed = 0
        self._failed: OSError | None = None
        self._sequence, self._half, self._position, self._copy = 2, 0, BLOCK, 0
        self._begins = [1, 1]
        """The first sequence of each half."""
        self._full: int | None = None
        """The half whose files are to be synced before it is written over."""
        self._pending, self._in_commit = FilesByFolder(), FilesByFolder()
        """Those with records that wait, and that are just being written."""
        self._of_half = FilesByFolder(), FilesByFolder()
        """Which files each half has records of."""

    # ------------------------------------------------------------------ the loop's thread

    def add(self, path: str, file: File, position: int, parts: Sequence[Buffer], size: int) -> int:
        """Parts of so many bytes were appended to a file, at a position. Returns what `commit` is to be given."""
        with self.lock:
            put_record(self._records, APPENDED, path.encode(), position, parts, size)
            self._pending.put(path, file)
            self._added += 1
            return self._added

    @property
    def work(self) -> Callable[[], None] | None:
        """What is to be done on another thread now, and may take long. It raises `OSError`."""
        if self._full is not None:
            return self.checkpoint
        if not self.is_ready and not self._is_off and self._missed >= self._commits_before:
            return self.prepare
        return None

    # ------------------------------------------------------------------ any thread

    def missed(self) -> None:
        """A file was synced that had grown by little: this log would have been of use."""
        self._missed += 1

    def prepare(self) -> None:
        """Make the file. Where there is no room for it, there will be none. Raises `OSError`."""
        self._is_off = True
        size = self._size_bytes
        files = self._files.beside()
        made = None
        try:
            if files.space().usable_bytes >= size * SHARE_OF_THE_DISK:
                made = self._made(files, size)
        except OSError:
            with suppress(OSError):
                delete_log(files)
        files.close()
        if made is not None:
            self.mark(True)
            self._file, self.is_ready = made, True

    def _made(self, files: Files, size: int) -> InPlaceFile:
        file = files.open(AHEAD_FILE, create=True)
        written = 0
        while written < size:
            file.append([bytes(count := min(PREPARED_AT_ONCE, size - written))])
            written += count
        file.sync()
        files.sync_folder("")
        file.close()
        made = files.open_in_place(AHEAD_FILE)
        made.write(HALVES_AT, sealed(1, bytearray()))  # so that the commit to begin with is always there
        for copy in (0, 1):
            made.write(copy * BLOCK, begin_with(1, size))
        return made

    def commit(self, ticket: int) -> None:
        """All that was added up to this ticket is on the disk when this returns. Raises `OSError`."""
        with self._writing:
            self._commit_up_to(ticket)

    def _commit_up_to(self, ticket: int) -> None:
        if self._failed is not None:
            raise OSError(self._failed.errno, f"an earlier commit failed: {self._failed.strerror}", AHEAD_FILE)
        if ticket > self._committed:
            try:
                self._commit()
            except OSError as error:
                self._fails(error)
                raise

    def _fails(self, error: OSError) -> None:
        self._failed = error
        self.on_failed()

    def _commit(self) -> None:
        with self.lock:
            records, self._records = self._records, bytearray()
            settled, self._settled = self._settled, bytearray()
            pending, self._pending = self._pending, FilesByFolder()
            added, self._in_commit = self._added, pending
        if len(records) > self._most_bytes:
            for _, file in pending.all():
                file.sync()
            records, pending = settled, FilesByFolder()
        if records:
            self._write(records)
        with self.lock:
            self._of_half[self._half].add_all(pending)
            self._in_commit = FilesByFolder()
        self._committed = added

    def _write(self, records: bytearray) -> None:
        assert self._file is not None, "nothing is added before it is ready"
        need, is_full = blocks_of(len(records)), False
        assert need <= self._half_bytes, "there is no more than `_most_bytes` of records"
        if self._position + need > self._half_bytes:
            self.checkpoint()  # the other half is free then; mostly it is
            self._begins[1 - self._half] = self._sequence
            self._half, self._position, is_full = 1 - self._half, 0, True
        at = HALVES_AT + self._half * self._half_bytes + self._position
        self._file.write(at, sealed(self._sequence, records))
        self._position += need
        self._sequence += 1
        if is_full:  # the last: a checkpoint writes down that the log begins with this commit
            self._full = 1 - self._half

    def checkpoint(self) -> None:
        """Sync the files that the full half has records of: it may be written over then. Raises `OSError`."""
        with self._checkpointing:
            if self._full is None:
                return
            assert self._file is not None, "a half is full"
            half = self._of_half[self._full]
            with self.lock:
                files = half.all()
            for path, file in files:
                self._sync(half, path, file)
            self._file.write(self._copy * BLOCK, begin_with(self._begins[1 - self._full], self._size_bytes))
            self._copy = 1 - self._copy
            with self.lock:
                half.clear()
            self._full = None

    def _sync(self, half: FilesByFolder, path: str, file: File) -> None:
        try:
            file.sync()
        except OSError as error:
            with self.lock:
                is_wanted = half.has(path)
            if is_wanted:  # else it was deleted meanwhile
                self._fails(error)
                raise

    def settle(self, *paths: str) -> None:
        """Files, or all in folders, are about to be cut, renamed or deleted: nobody appends to them meanwhile. They are
        synced, and a replay knows nothing of them any more, when this returns. Raises `OSError`."""
        if not self._known(paths):
            return  # mostly so, and nobody is waited for
        with self._writing:
            found = self._known(paths)
            try:
                for file in found.values():
                    with suppress(FileNotFoundError):
                        file.sync()
            except OSError as error:
                self._fails(error)
                raise
            for known in found:
                self._settle_one(known)
                if len(self._settled) > self._most_bytes - LONGEST_RECORD:
                    self._commit_up_to(self._added)
            self._commit_up_to(self._added)

    def _settle_one(self, path: str) -> None:
        with self.lock:
            for files in (self._pending, *self._of_half):
                files.drop(path)
            for into in (self._records, self._settled):
                put_record(into, SETTLED, path.encode(), 0, (), 0)
            self._added += 1

    def _known(self, paths: Sequence[str]) -> dict[str, File]:
        """The files of these paths, or in these folders, that it has records of."""
        with self.lock:
            return {
                known: file
                for files in (self._pending, self._in_commit, *self._of_half)
                for path in paths
                for known, file in files.of(path)
            }

    def close(self) -> None:
        """An orderly end: every file has what belongs into it, and this log is gone. Where something failed before, it
        stays. Raises `OSError`."""
        if self._file is None:
            return
        with self._writing:
            if self._failed is not None:
                raise self._failed
            with self.lock:
                found = {path: file for files in (self._pending, *self._of_half) for path, file in files.all()}
            for file in found.values():
                with suppress(FileNotFoundError):
                    file.sync()
            self.is_ready = False
            self._file.close()
            self._file = None
        self.mark(False)
        delete_log(self._files)
