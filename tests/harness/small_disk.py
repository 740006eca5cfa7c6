"""A file system of a few megabytes, in memory, that can be filled up; only where this user may mount one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PIECE = bytes(4096)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mounted at `folder`. Skips the test where that is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(file: Path) -> None:
    """Make a file that takes all the room there is. Without it there is room again."""
    with file.open("wb", buffering=0) as room:
        try:
            while True:
                room.write(_PIECE)
        except OSError:
            return
