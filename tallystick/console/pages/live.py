"""Counters that move, as server-sent events.

Rule 1. Nothing is counted while nobody looks.
Rule 2. Between two looks at a cluster lies ten times what a look took, and two seconds at least: a large cluster is not
        kept busy by being watched.
Rule 3. Whoever has logged out, or whose session is over, is told so and nothing more.
Rule 4. Streams are bounded, so that there are connections left for pages.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from tallystick.client.background import monotonic_s, now_ms
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost, KafkaError, NoWayIn, UnsupportedByBroker
from tallystick.console.reading.sampling import Behind, Written, behind, written
from tallystick.console.visit import Visit, in_words

T = TypeVar("T", Written, Behind)
_EVERY_S = 2.0
_SHARE = 10
MOST = 100
_TROUBLE = (KafkaError, ConnectionLost, NoWayIn, UnsupportedByBroker, OSError)


async def of_cluster(visit: Visit) -> Response:
    """Records written per second, open transactions, partitions that are held."""
    return _stream(visit, written, _said_written)


async def of_topic(visit: Visit) -> Response:
    """The same of one topic."""
    name = visit.called("name")

    async def look(client: Client) -> Written:
        return await written(client, [name])

    return _stream(visit, look, _said_written)


async def of_group(visit: Visit) -> Response:
    """Lag, and offsets committed per second."""
    name = visit.called("name")

    async def look(client: Client) -> Behind:
        return await behind(client, name)

    return _stream(visit, look, _said_behind)


def _said_written(now: Written, before: Written | None) -> dict[str, object]:
    return {
        "rate": None if before is None else _rate(now.end - before.end, now.at_s - before.at_s),
        "end": now.end,
        "held": now.held,
        "partitions": now.partitions,
        "open": now.open_transactions,
    }


def _said_behind(now: Behind, before: Behind | None) -> dict[str, object]:
    return {
        "rate": None if before is None else _rate(now.committed - before.committed, now.at_s - before.at_s),
        "offsets": now.offsets,
        "records": now.records,
        "held": now.held,
    }


def _rate(difference: int, seconds: float) -> float:
    """Nothing below nothing: topics may go, and offsets be set back."""
    return round(max(0, difference) / max(seconds, 0.001), 1)


def _stream(
    visit: Visit, look: Callable[[Client], Awaitable[T]], said: Callable[[T, T | None], dict[str, object]]
) -> Response:
    session, watched = visit.session, visit.console.watched
    assert session is not None, "counters are shown to those who are let in"
    if watched.streams >= MOST:
        return PlainTextResponse("So many pages are watched already that no other is.\n", 503)

    async def events() -> AsyncIterator[str]:
        watched.streams += 1
        try:
            async for event in counted():
                yield event
        finally:
            watched.streams -= 1

    async def counted() -> AsyncIterator[str]:
        before: T | None = None
        while not session.is_over(monotonic_s()):
            began_s = monotonic_s()
            try:
                now = await visit.cluster.counters.ask(look)
            except _TROUBLE as problem:
                yield _event({"problem": in_words(problem)})
                before = None
            else:
                yield _event(said(now, before))
                before = now
            await asyncio.sleep(max(_EVERY_S, _SHARE * (monotonic_s() - began_s)))
        yield _event({"over": True})

    return StreamingResponse(events(), media_type="text/event-stream")


def _event(said: dict[str, object]) -> str:
    return f"data: {json.dumps({'at': now_ms(), **said})}\n\n"
