"""Records of a partition: a page of them, and one in full."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.responses import Response

from tallystick.client.client import Client
from tallystick.client.errors import check
from tallystick.console.reading.browsing import Browsed, browse
from tallystick.console.reading.colouring import Shown
from tallystick.console.reading.decoding import IN_A_ROW, IN_FULL, Decoded
from tallystick.console.reading.registered import decoded_with
from tallystick.console.visit import LARGEST_OFFSET, NotThere, Visit
from tallystick.records.fates import Fate
from tallystick.schemas.registry import Registry

PAGE_SIZES = (25, 100, 500)
_DAY_MS = 86_400_000
_PATIENCE_S = 5.0
"""So long a page waits for schemas. What is not there by then is shown as bytes."""
_HEADERS_IN_A_ROW, _HEADERS_IN_FULL = 4, 200
_LONGEST_NAME = 1000
"""Of a header, in characters."""


@dataclass(frozen=True, slots=True)
class Message:
    """A row, with what is readable of it."""

    row: Shown
    key: Decoded
    value: Decoded
    headers: list[tuple[str, Decoded]]
    more_headers: int
    """That are not shown."""


async def browsed(visit: Visit) -> Response:
    """From an offset or a time on; without either, the last ones."""
    place = visit.path("topic"), visit.path_number("partition")
    size = visit.number("rows")
    rows = size if size in PAGE_SIZES else PAGE_SIZES[1]
    refusal = ""
    try:
        time_ms = _time(visit.word("time"))
    except ValueError as problem:
        time_ms, refusal = None, str(problem)

    async def look(client: Client) -> tuple[Browsed, int]:
        partitions = await _partitions(client, place)
        start = visit.number("from")
        if time_ms is not None:
            start = await client.offset_at(*place, time_ms)
            start = None if start < 0 else start  # nothing is as young: the end
        return await browse(client, place, start, rows), partitions

    found, partitions = await visit.ask(look)
    return visit.page(
        "messages.html",
        topic=place[0],
        partition=place[1],
        partitions=partitions,
        ends=found.ends,
        messages=await _messages(visit, found.rows, in_full=False),
        older_from=found.older_from,
        newer_from=found.newer_from,
        many_days=len({row.timestamp_ms // _DAY_MS for row in found.rows}) > 1,
        rows=rows,
        sizes=PAGE_SIZES,
        refusal=refusal,
        wanted={"from": visit.word("from"), "time": visit.word("time")},
    )


async def _partitions(client: Client, place: tuple[str, int]) -> int:
    """How many the topic has. Said at once where there is no such one: the client would wait for it."""
    (topic,) = (await client.metadata([place[0]])).topics
    check(topic.error_code, f"Topic '{place[0]}'")
    if place[1] not in [one.partition_index for one in topic.partitions]:
        raise NotThere(f"{place[0]} has no partition {place[1]}.")
    return len(topic.partitions)


def _time(text: str) -> int | None:
    """Milliseconds since 1970 of what a person or a browser writes, in UTC where no zone is said."""
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) < 30:
        return min(int(text), LARGEST_OFFSET)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time: write 2026-01-31T12:00:00") from None
    return max(0, int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000))


async def _messages(visit: Visit, rows: list[Shown], *, in_full: bool) -> list[Message]:
    """In a thread of their own: large ones keep no other visitor waiting."""
    registry = visit.console.registry
    await registry.wait_until_known([data for row in rows for data in (row.key, row.value)], patience_s=_PATIENCE_S)
    return await asyncio.to_thread(lambda: [_message(registry, row, in_full=in_full) for row in rows])


def _message(registry: Registry, row: Shown, *, in_full: bool) -> Message:
    most, indent, headers = (IN_FULL, 2, _HEADERS_IN_FULL) if in_full else (IN_A_ROW, None, _HEADERS_IN_A_ROW)
    return Message(
        row,
        decoded_with(registry, row.key, most, indent=indent),
        decoded_with(registry, row.value, most, indent=indent),
        [(name[:_LONGEST_NAME], decoded_with(registry, data, IN_A_ROW)) for name, data in row.headers[:headers]],
        max(0, len(row.headers) - headers),
    )


async def one(visit: Visit) -> Response:
    """Everything of one record, up to 256 KiB of its value."""
    place = visit.path("topic"), visit.path_number("partition")
    offset = visit.path_number("offset")

    async def look(client: Client) -> Browsed:
        await _partitions(client, place)
        return await browse(client, place, offset, 1)

    found = await visit.ask(look)
    if not found.rows or found.rows[0].offset != offset:
        raise NotThere(f"There is no record at offset {offset} of {place[0]}-{place[1]}.")
    (message,) = await _messages(visit, found.rows, in_full=True)
    return visit.page(
        "message.html",
        topic=place[0],
        partition=place[1],
        message=message,
        is_readable=message.row.fate is not Fate.CONTROL and offset < found.ends.last_stable_offset,
        ends=found.ends,
    )
