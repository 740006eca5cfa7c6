"""Records of one partition, a page at a time: so many rows, and so many bytes that are fetched for them."""

import asyncio
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.records.batch import headers_in
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, UnsupportedByBroker, check
from tallystick.client.reading import joined
from tallystick.console.reading.colouring import Knowledge, Shown, coloured
from tallystick.inspection.places import Ends, Place, ends_of
from tallystick.inspection.transactions import producers_of

ROWS = 100
FETCHED_BYTES = 1 << 20
"""For one page. A single batch that is larger is fetched whole, as by any consumer."""


@dataclass(frozen=True, slots=True)
class Browsed:
    """One page of a partition."""

    ends: Ends
    rows: list[Shown]
    newer_from: int | None
    older_from: int | None


async def browse(client: Client, place: Place, start: int | None, rows: int = ROWS) -> Browsed:
    """From an offset on; None: the last ones. Raises `KafkaError`."""
    ends = (await ends_of(client, [place]))[place]
    wanted = ends.high_watermark - rows if start is None else start
    at = min(max(wanted, ends.start), ends.high_watermark)
    shown = [] if at >= ends.high_watermark else await _records(client, place, at, rows)
    behind = shown[-1].offset + 1 if shown else at
    return Browsed(
        ends,
        shown,
        newer_from=behind if behind < ends.high_watermark else None,
        older_from=max(ends.start, at - rows) if at > ends.start else None,
    )


async def _records(client: Client, place: Place, at: int, rows: int) -> list[Shown]:
    """What is fetched first is known better by what is asked behind it: the last stable offset only rises."""
    fetched = await client.fetch(*place, at, max_bytes=FETCHED_BYTES)
    check(fetched.error_code, f"{place[0]}-{place[1]}")
    data = joined(fetched)
    settled = await client.fetch(*place, at, read_committed=True, max_bytes=FETCHED_BYTES)
    check(settled.error_code, f"{place[0]}-{place[1]}")
    below = max((header.next_offset for _, header in headers_in(joined(settled))), default=at)
    end = max((header.next_offset for _, header in headers_in(data)), default=at)
    open_from = await _open_ones(client, place) if below < end else {}
    known = Knowledge(below, settled.aborted_transactions or [], open_from)
    return await asyncio.to_thread(coloured, data, known, at, rows)


async def _open_ones(client: Client, place: Place) -> dict[int, int] | None:
    try:
        producers = (await producers_of(client, [place]))[place]
    except UnsupportedByBroker:  # before KIP-664
        return None
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None
    return {one.producer_id: one.current_txn_start_offset for one in producers if one.current_txn_start_offset >= 0}
