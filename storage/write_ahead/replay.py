"""What a start does with a write-ahead log that it finds: all that was committed is put where it belongs, and is synced
there. Then the log is not needed any more, and is deleted.

Where it is gone though there has to be one, a commit is missing that it names or that later ones follow, where to begin
cannot be read, or the file is not as long as it was, acknowledged records may be lost: that is said, and nothing is
changed. What is not whole behind the last commit was never acknowledged, or was the very last to be.
"""

from collections.abc import Callable, Iterator

from storage.checkpoints import UnreadableDataFolder
from storage.files import Files
from storage.write_ahead.commits import APPENDED, Commit, bytes_of_file, commits, first_needed, records

AHEAD_FILE = "tallystick.ahead"
DAMAGED_LOG = (
    f"{AHEAD_FILE} is damaged: {{what}}. Records that were acknowledged may be nowhere else. Nothing was changed. Put "
    f"back a copy of the data folder; or start once with --repair {AHEAD_FILE}: it is set aside, and what only it had "
    "is lost."
)
Pieces = dict[int, memoryview]
"""Of one file: position → bytes."""


def replay(files: Files, *, expected: bool = False, settled: Callable[[], object] = lambda: None) -> int:
    """Returns how many files got something. Durable when it returns. `expected`: there has to be one. `settled` writes
    down that there need be none. Raises `UnreadableDataFolder` and `OSError`."""
    found = to_replay(files, expected=expected)
    for path, pieces in found.items():
        _put(files, path, pieces)
    if expected:
        settled()
    if files.exists(AHEAD_FILE):
        delete_log(files)
    return len(found)


def to_replay(files: Files, *, expected: bool = False) -> dict[str, Pieces]:
    """What a replay would put where, by path; nothing is changed. Raises `UnreadableDataFolder` and `OSError`."""
    if not files.exists(AHEAD_FILE):
        if expected:
            raise UnreadableDataFolder(DAMAGED_LOG.format(what="it is missing"))
        return {}
    file = files.open(AHEAD_FILE)
    try:
        contents = file.read(0, file.size())
    finally:
        file.close()
    wanted = _wanted(_needed(contents, expected=expected))
    # One whose name was not on the disk yet: nobody was told of what is in it.
    return {path: pieces for path, pieces in wanted.items() if files.exists(path)}


def delete_log(files: Files) -> None:
    """Nothing of it is needed any more."""
    files.delete(AHEAD_FILE)
    files.sync_folder("")


def _needed(contents: bytes, *, expected: bool) -> list[Commit]:
    first = first_needed(contents)
    if first is None:
        if expected:
            raise UnreadableDataFolder(DAMAGED_LOG.format(what="where it begins cannot be read"))
        return []  # It was about to be made.
    if (size := bytes_of_file(contents)) != len(contents):
        raise UnreadableDataFolder(DAMAGED_LOG.format(what=f"it has {len(contents)} bytes, and had {size}"))
    found = {one.sequence: one for one in commits(contents) if one.sequence >= first}
    last = max(found, default=first)
    for sequence in range(first, last + 1):
        if sequence not in found:
            raise UnreadableDataFolder(DAMAGED_LOG.format(what=f"commit {sequence} cannot be read"))
    return [found[sequence] for sequence in range(first, last + 1)]


def _wanted(needed: list[Commit]) -> dict[str, Pieces]:
    wanted: dict[str, Pieces] = {}
    for commit in needed:
        for record in records(commit):
            if record.kind == APPENDED:
                wanted.setdefault(record.path, {})[record.position] = record.data
            else:
                wanted.pop(record.path, None)
    return wanted


def _put(files: Files, path: str, pieces: Pieces) -> None:
    """Also what is there already: a sync may have failed, after which the page cache has what the disk has not."""
    file = files.open(path)
    try:
        for position, data in runs_of(path, file.size(), pieces):
            known = min(len(data), file.size() - position)
            if known:
                file.write_at(position, data[:known])
            if known < len(data):
                file.append([data[known:]])
        file.sync()
    finally:
        file.close()


def runs_of(path: str, size_bytes: int, pieces: Pieces) -> list[tuple[int, memoryview]]:
    """(position, bytes) of all that a file of this size gets, in order. Raises `UnreadableDataFolder` where something
    does not follow what is there."""
    found = list(_runs(pieces))
    for position, data in found:
        if position > size_bytes:
            what = f"{path} ends at byte {size_bytes}, before what it has for byte {position} of that"
            raise UnreadableDataFolder(DAMAGED_LOG.format(what=what))
        size_bytes = max(size_bytes, position + len(data))
    return found


def _runs(pieces: Pieces) -> Iterator[tuple[int, memoryview]]:
    """(position, bytes): what follows one another together, for there may be tens of thousands."""
    run: list[memoryview] = []
    begins = ends = -1
    for position, data in sorted(pieces.items()):
        if position != ends and run:
            yield begins, memoryview(b"".join(run))
            run = []
        if not run:
            begins = position
        run.append(data)
        ends = position + len(data)
    if run:
        yield begins, memoryview(b"".join(run))
