"""Work of any length on the loop's side of the sockets, a slice at a time: all connections may have to go at once."""

from collections.abc import Callable, Iterator

from broker.process.time_slice import TimeSlice


def in_slices(work: Iterator[None], time_slice: TimeSlice, then: Callable[[], None]) -> None:
    """Do some work that yields behind each of its steps; others have turns in between. `then` is called at its end."""

    def go_on() -> None:
        for _ in work:
            if time_slice.spent():
                time_slice.call_in_turn(go_on)
                return
        then()

    go_on()
