"""Work in steps: how code that touches no loop and no thread says where others may have a turn.

A generator yields None where it has had the loop for long enough, `Blocking` work that is to be run on another thread
before it goes on, and what is to be awaited where that comes from another machine. Between two steps anything may
happen to what it works on: it asks again.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, BatchHeader, CorruptRecords
from protocol.records.compression import Body, Bounds, TooManyBytes
from protocol.records.record import assemble, body_of
from protocol.schema import Buffer

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
Blocking = Callable[[], None]
"""Work that may take long and touches nothing but files and memory of its own. May raise `OSError`."""
Step = Blocking | Awaitable[None] | None
Steps = Generator[Step, None, T]
Spent = Callable[[], bool]
"""Whether the others are to have a turn."""

RECORDS_AT_ONCE = 64
"""How many records are looked at between two looks at the clock."""
INLINE_BYTES = 128 << 10
"""What is decompressed or compressed at once: half a millisecond. A thread costs a tenth of that, and a turn."""


def never() -> bool:
    """For work beside which nothing waits."""
    return False


def finish(steps: Steps[T]) -> T:
    """Do the work here and now, blocking parts included. An error of these is raised inside, where they were begun. For
    work that waits for no other machine."""
    error: OSError | None = None
    while True:
        try:
            step = next(steps) if error is None else steps.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        error = None
        try:
            if step is not None:
                assert callable(step), "this has to be awaited"
                step()
        except OSError as refused:
            error = refused


class NoLongerTrue(Exception):
    """What work went by does not hold any more."""


def while_true(steps: Steps[T], holds: Callable[[], bool]) -> Steps[T]:
    """The same steps, as long as something holds after each. Raises `NoLongerTrue`."""
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            yield step
            if not holds():
                raise NoLongerTrue
    finally:
        steps.close()


def without_frames(error: E) -> E:
    """The same error, and nothing of what the code that raised it held: an error that is kept keeps all of that."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def opened(header: BatchHeader, batch: Buffer, bounds: Bounds, *, at_once: bool = True) -> Steps[Body]:
    """The records of a batch, uncompressed. Raises `CorruptRecords`, also where they come to more than they may. Not
    `at_once`: they are known to come to more than `INLINE_BYTES`."""
    size = header.size - HEADER_SIZE
    if not header.compression or not size:
        return body_of(header, batch)
    limit = bounds.limit_of(size)
    try:
        if at_once:
            return body_of(header, batch, limit=min(limit, INLINE_BYTES))
    except TooManyBytes:
        if limit <= INLINE_BYTES:
            raise
    results: list[Body | CorruptRecords] = []

    def decompress() -> None:
        try:
            results.append(body_of(header, batch, limit=limit))
        except CorruptRecords as error:
            # Without its frames: they would hold `results` and so themselves, and with them what was decompressed.
            results.append(without_frames(error))

    yield decompress
    result = results.pop()
    if isinstance(result, CorruptRecords):
        try:
            raise result
        finally:
            del result
    return result


def sealed(header: BatchHeader, body: bytearray | Body, level: int | None = None) -> Steps[bytes]:
    """A batch of this header and these records, compressed as the header says; None is the codec's usual level."""
    if header.compression == compression.NONE or len(body) <= INLINE_BYTES:
        return assemble(header, body, level)
    results: list[bytes] = []
    yield lambda: results.append(assemble(header, body, level))
    return results[0]
