"""A look at every connection, a slice at a time: all of them may have to be closed at once."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from broker.process.time_slice import TimeSlice

T = TypeVar("T")


def look_at_all(
    them: Iterable[T], look: Callable[[T], None], new_slice: Callable[[], TimeSlice], then: Callable[[], None]
) -> None:
    """Look at each of them; others have turns in between. `then` is called when all have been looked at."""
    rest = iter(them)

    def go_on() -> None:
        time_slice = new_slice()
        for one in rest:
            look(one)
            if time_slice.spent():
                asyncio.get_running_loop().call_soon(go_on)
                return
        then()

    go_on()
