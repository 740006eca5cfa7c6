"""The files of keys and certificates: reading them, seeing that they changed, and handing a key to OpenSSL, which takes
it from a file only.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

MOST_BYTES = 16 << 20
"""A store of a million bytes is large already; what is read here was named by mistake."""

Stamp = tuple[int, int, int] | None
"""What tells one state of a file from another; None where there is no file."""


def read(path: str) -> bytes:
    """A whole file. Raises `OSError`."""
    with open(path, "rb") as source:
        data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"{path} is larger than {MOST_BYTES >> 20} MB")
    return data


def stamp(path: str) -> Stamp:
    """Changes when the file does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A path that holds `data` until the block ends: in memory where the system can, so that no key gets to a disk."""
    if not hasattr(os, "memfd_create"):
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "key")
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                target.write(data)
            yield path
        return
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as target:
            target.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
