"""Where a log in a shared store has its bytes brought from, and its replacements put."""

from collections.abc import Awaitable
from typing import Protocol

from storage.shared.replacement import Replacement


class Source(Protocol):
    """That of one log."""

    def put(self, replacement: Replacement) -> Awaitable[None]:
        """Have it committed; over when it was, or cannot be any more."""

    def bring(self, offset: int) -> Awaitable[None]:
        """Bring what can be read at an offset: `SharedLog.arrived` is called with it before this is over, and before
        this returns where it was read ahead. The same wait for all who ask meanwhile. It may be over and have brought
        nothing: who wants it asks again. Raises `OSError` where it cannot be had now."""

    def forget_before(self, offset: int) -> None:
        """Something else was committed in the place of what lies there."""

    def close(self) -> None:
        """Nobody reads any more."""
