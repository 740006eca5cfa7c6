"""Long polls: fetches that wait until there is something to read.

A parked fetch does not poll. It watches its partitions, and looks again at most once per turn of the loop after one of
them has moved; its own timer ends the wait. Cancelling its future (the client is gone) removes it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Watched(Protocol):
    """A partition, as far as waiting is concerned."""

    def watch(self, callback: Callable[[], None]) -> None: ...

    def unwatch(self, callback: Callable[[], None]) -> None: ...


class Movements:
    """Watches many partitions from the moment each is added, so that one that moves before somebody waits counts."""

    def __init__(self) -> None:
        self._partitions: list[Watched] = []
        self._noted = self._note
        self._moved = False
        self._callback: Callable[[], None] | None = None

    def __enter__(self) -> "Movements":
        return self

    def __exit__(self, *_: object) -> None:
        for partition in self._partitions:
            partition.unwatch(self._noted)

    def add(self, partition: Watched) -> None:
        partition.watch(self._noted)
        self._partitions.append(partition)

    def watch(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if self._moved:
            callback()

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._callback = None

    def _note(self) -> None:
        self._moved = True
        if self._callback is not None:
            self._callback()


class Parked(Generic[T]):
    """One wait. `attempt(last)` returns what to answer, or None to wait on; with `last` it must answer."""

    __slots__ = ("_attempt", "_look", "_loop", "_moved", "_room", "_timer", "_watched", "future")

    def __init__(
        self, room: "WaitingRoom", watched: Sequence[Watched], attempt: Callable[[bool], T | None], wait_ms: int
    ) -> None:
        self._room = room
        self._watched = watched
        self._attempt = attempt
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.Handle | None = None
        self._moved = self._partition_moved
        self.future: asyncio.Future[T] = self._loop.create_future()
        self.future.add_done_callback(self._leave)
        self._timer = self._loop.call_later(wait_ms / 1000, self.finish)
        for partition in watched:
            partition.watch(self._moved)

    def finish(self) -> None:
        """Answer now, with what there is."""
        self._answer(last=True)

    def _partition_moved(self) -> None:
        if self._look is None:
            self._look = self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._answer(last=False)

    def _answer(self, *, last: bool) -> None:
        if self.future.done():
            return
        try:
            answer = self._attempt(last)
        except Exception as error:  # noqa: BLE001  raised where the future is awaited, and reported there
            self.future.set_exception(error)
            return
        if answer is not None:
            self.future.set_result(answer)
        else:
            assert not last

    def _leave(self, _: "asyncio.Future[T]") -> None:
        self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        for partition in self._watched:
            partition.unwatch(self._moved)
        self._room.left(self)


class WaitingRoom:
    """All waits of a node, so that an orderly stop can end them."""

    def __init__(self) -> None:
        self._parked: dict[Parked[Any], None] = {}
        self.closed = False
        """Whether no fetch is to wait any more."""

    def __len__(self) -> int:
        return len(self._parked)

    def park(
        self, watched: Sequence[Watched], attempt: Callable[[bool], T | None], wait_ms: int
    ) -> "asyncio.Future[T]":
        """Wait until `attempt` has an answer, at most `wait_ms`; it is called again whenever one of `watched` moved."""
        parked: Parked[T] = Parked(self, watched, attempt, 0 if self.closed else wait_ms)
        self._parked[parked] = None
        return parked.future

    def left(self, parked: Parked[T]) -> None:
        self._parked.pop(parked, None)

    def close(self) -> None:
        """Answer every parked fetch with what there is; later ones do not wait."""
        self.closed = True
        for parked in list(self._parked):
            parked.finish()
