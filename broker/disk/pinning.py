"""The files of a data folder as they are at one moment, held on to by links while the broker goes on.

Rule 1. A pin begins on the thread that writes to the logs: nothing but numbers is noted then (`storage.moment`).
Rule 2. Another thread links the files, one by one. Whoever takes a name away before it has come there (retention,
compaction, a deleted topic, a file that is replaced whole) links the file first (`keeping`): one system call.
Rule 3. What bears the name of a segment, or of a folder, that was given up since is of later, and is not linked.
Rule 4. What goes wrong with a pin is said to who wanted it. It keeps no broker from working.

Links take no space of their own, but keep that of what the broker deletes meanwhile. They need one file system.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from storage.moment import SEGMENT_FILES, Moment, belongs, number_of
from storage.segments.segment_format import LOG, file_name

Moments = Mapping[str, Moment | None]
"""By the folder of the log; None for one that nobody writes to."""
_PRIVATE = 0o700


class Pin:
    """Links in the folder `target`, an absolute path, to the files of each log's folder."""

    def __init__(self, absolute: Callable[[str], str], target: str, moments: Moments) -> None:
        self.moments = moments
        self.failure: OSError | None = None
        self._absolute = absolute
        self._target = target
        self._linked: dict[str, set[str]] = {}
        self._given_up: dict[str, set[int]] = {}
        self._left: set[str] = set()
        """Folders that have lost their name: what is found by it now is another's."""

    def keep(self, path: str) -> None:
        """What bears this name may lose it when this returns. Called with the lock of `Pinning` held."""
        folder, _, name = path.partition("/")
        if folder not in self.moments or folder in self._left or self.failure is not None:
            return
        try:
            if not name:
                self._left.add(folder)
                self.link(folder, self.names(folder))
            elif name.endswith(LOG) and (base := number_of(name)) is not None:
                self.link(folder, [file_name(base, suffix) for suffix in SEGMENT_FILES])
                self._given_up.setdefault(folder, set()).add(base)
            else:
                self.link(folder, [name])
        except OSError as error:
            self.failure = error

    def names(self, folder: str) -> list[str]:
        """Of its files."""
        try:
            return sorted(os.listdir(self._absolute(folder)))
        except FileNotFoundError:
            return []

    def has_left(self, folder: str) -> bool:
        """Whether what bears its name is another's."""
        return folder in self._left

    def link(self, folder: str, names: Iterable[str]) -> None:
        """Those that belong to the moment and are not there yet. With the lock held. Raises `OSError`."""
        linked = self._linked.get(folder)
        if linked is None:
            os.mkdir(f"{self._target}/{folder}", _PRIVATE)
            linked = self._linked[folder] = set()
        given_up = self._given_up.get(folder, ())
        for name in names:
            is_later = bool(given_up) and name[20:] in SEGMENT_FILES and number_of(name) in given_up
            if name in linked or is_later or not belongs(name, self.moments[folder]):
                continue
            try:
                os.link(self._absolute(f"{folder}/{name}"), f"{self._target}/{folder}/{name}")
            except FileNotFoundError:
                continue  # It was not there then, or has been linked under the name that it had.
            linked.add(name)


class Pinning:
    """Who is asked before a file of the data folder loses its name; thread-safe. One pin at a time."""

    def __init__(self, absolute: Callable[[str], str]) -> None:
        self._absolute = absolute
        self._lock = Lock()
        self._pin: Pin | None = None

    @contextmanager
    def keeping(self, *paths: str) -> Iterator[None]:
        """Names that are taken away, or given to another file, in the block."""
        with self._lock:
            if self._pin is not None:
                for path in paths:
                    self._pin.keep(path)
            yield

    def begin(self, target: str, moments: Callable[[], Moments]) -> Pin:
        """From now on nothing is lost that there is now. `target` is a folder."""
        with self._lock:  # whoever renames just now on another thread has done so before that moment
            assert self._pin is None, "one pin at a time"
            self._pin = Pin(self._absolute, target, moments())
            return self._pin

    def link_all(self, pin: Pin) -> None:
        """On another thread, once, and the pin is complete. Raises `OSError`."""
        try:
            for folder in pin.moments:
                self._link_folder(pin, folder)
        finally:
            with self._lock:
                self._pin = None
        if pin.failure is not None:
            raise pin.failure

    def _link_folder(self, pin: Pin, folder: str) -> None:
        names = pin.names(folder)
        if not names:
            names = [""]
        for name in names:
            with self._lock:  # for each by itself: a rename on the loop waits for one link at most
                if pin.failure is not None or pin.has_left(folder):
                    return
                pin.link(folder, [name] if name else [])
