"""What a start does with a write-ahead log that it finds: all that was committed is put where it belongs, and is synced
there. Then the log is not needed any more, and is deleted.

Where a commit is missing that later ones follow, or where to begin cannot be read, acknowledged records may be lost:
that is said, and nothing is changed. What is not whole behind the last commit was never acknowledged.
"""

from collections.abc import Iterator

from storage.checkpoints import UnreadableDataFolder
from storage.files import Files
from storage.write_ahead.commits import APPENDED, Commit, bytes_of_file, commits, first_needed, records

AHEAD_FILE = "tallystick.ahead"
DAMAGED_LOG = (
    f"{AHEAD_FILE} is damaged: {{what}}. It has records that were acknowledged and may be nowhere else. "
    "Nothing was changed. Put back a copy of the data folder; or move that file away, and what only it had is lost."
)
Pieces = dict[int, memoryview]
"""Of one file: position → bytes."""


def replay(files: Files) -> int:
    """Returns how many files got something. Durable when it returns. Raises `UnreadableDataFolder` and `OSError`."""
    if not files.exists(AHEAD_FILE):
        return 0
    found = to_replay(files)
    for path, pieces in found.items():
        _put(files, path, pieces)
    delete_log(files)
    return len(found)


def to_replay(files: Files) -> dict[str, Pieces]:
    """What a replay would put where, by path; nothing is changed. Raises `UnreadableDataFolder` and `OSError`."""
    if not files.exists(AHEAD_FILE):
        return {}
    file = files.open(AHEAD_FILE)
    try:
        contents = file.read(0, file.size())
    finally:
        file.close()
    wanted = _wanted(_needed(contents))
    # One whose name was not on the disk yet: nobody was told of what is in it.
    return {path: pieces for path, pieces in wanted.items() if files.exists(path)}


def delete_log(files: Files) -> None:
    """Nothing of it is needed any more."""
    files.delete(AHEAD_FILE)
    files.sync_folder("")


def _needed(contents: bytes) -> list[Commit]:
    first = first_needed(contents)
    if first is None:
        if any(True for _ in commits(contents)):
            raise UnreadableDataFolder(DAMAGED_LOG.format(what="where it begins cannot be read"))
        return []  # It was about to be made.
    if (size := bytes_of_file(contents)) != len(contents):
        raise UnreadableDataFolder(DAMAGED_LOG.format(what=f"it has {len(contents)} bytes, and had {size}"))
    found = sorted((one for one in commits(contents) if one.sequence >= first), key=lambda one: one.sequence)
    for expected, one in enumerate(found, first):
        if one.sequence != expected:
            what = f"commit {expected} cannot be read, and {found[-1].sequence} is there"
            raise UnreadableDataFolder(DAMAGED_LOG.format(what=what))
    return found


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
        for position, data in _runs(pieces):
            known = min(len(data), file.size() - position)
            if known < 0:
                what = f"{path} ends at byte {file.size()}, before what it has for byte {position} of that"
                raise UnreadableDataFolder(DAMAGED_LOG.format(what=what))
            if known:
                file.write_at(position, data[:known])
            if known < len(data):
                file.append([data[known:]])
        file.sync()
    finally:
        file.close()


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
