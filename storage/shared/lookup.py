"""Finding records by time in a log of a shared store: parts and runs that are older are passed over unread."""

from collections.abc import Awaitable
from typing import Protocol

from storage.log import LogClosed, LogConfig
from storage.lookup import Found, Unreadable, first_record_at_or_after, largest_timestamp
from storage.shared.parts import Part
from storage.steps import NoLongerTrue, Spent, Steps
from storage.stretch import Stretch


class Parts(Protocol):
    """A log as a lookup sees it."""

    @property
    def parts(self) -> list[Part]: ...

    @property
    def config(self) -> LogConfig: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    @property
    def unreadable(self) -> Unreadable: ...

    def stretch_at(self, offset: int) -> Stretch | None: ...

    def ask_for(self, offset: int) -> Awaitable[None]: ...


def find_in_parts(timestamp_ms: int, log: Parts, *, end_offset: int, spent: Spent) -> Steps[Found]:
    """The first record in the log below `end_offset` that is not older than `timestamp_ms`. Raises `LogClosed`,
    `LogDamaged`, and `OSError` where the store cannot be asked."""
    offset = log.start_offset
    while offset < min(end_offset, log.end_offset):
        offset = max(offset, log.start_offset)
        part, ends = _part_of(log, offset)
        if part.newest_ms < timestamp_ms:
            offset = ends
            continue
        try:
            stretch = yield from brought(log, offset)
        except NoLongerTrue:
            offset = log.parts[0].base_offset
            continue
        if stretch is None:
            return None
        found = yield from first_record_at_or_after(
            timestamp_ms,
            list(stretch.batches),
            start_offset=max(offset, log.start_offset),
            end_offset=end_offset,
            bounds=log.config.decompression,
            spent=spent,
            unreadable=log.unreadable,
        )
        if found is not None:
            return found
        offset = stretch.placed[-1].last_offset + 1
    return None


def newest_in_parts(log: Parts, spent: Spent) -> Steps[Found]:
    """The record with the largest timestamp, the first of them (KIP-734)."""
    first, ends = _part_of(log, log.start_offset)
    later = [part.newest_ms for part in log.parts if part.base_offset > first.base_offset]
    largest = max(later, default=-1)
    if first.newest_ms >= largest:
        # It may belong to a record that was deleted from its beginning.
        offset = log.start_offset
        while offset < ends:
            try:
                stretch = yield from brought(log, offset)
            except NoLongerTrue:
                break
            if stretch is None:
                break
            bounds = log.config.decompression
            batches = list(stretch.batches[stretch.index_of(offset) :])
            newest = yield from largest_timestamp(batches, log.start_offset, bounds, spent, log.unreadable)
            largest = max(largest, newest)
            offset = stretch.placed[-1].last_offset + 1
    if largest < 0:
        return None
    return (yield from find_in_parts(largest, log, end_offset=log.end_offset, spent=spent))


def brought(log: Parts, offset: int) -> Steps[Stretch | None]:
    """What is in memory at an offset, once it is; None at the end of the log. Raises `NoLongerTrue` where the log has
    nothing there any more: that is never brought."""
    while offset < log.end_offset:
        if log.closed:
            raise LogClosed
        if offset < log.parts[0].base_offset:
            raise NoLongerTrue
        if (stretch := log.stretch_at(offset)) is not None:
            return stretch
        yield log.ask_for(offset)
    return None


def _part_of(log: Parts, offset: int) -> tuple[Part, int]:
    """The part that holds an offset, and where it ends."""
    ends = log.end_offset
    for part in reversed(log.parts):
        if part.base_offset <= offset:
            return part, ends
        ends = part.base_offset
    return log.parts[0], ends
