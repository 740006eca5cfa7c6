"""Where reading begins or ends, as it is written: `beginning`, `end`, an offset, `-100` (so many before the end), a
time (`2026-03-01T12:00`, UTC where it does not say; `@1772366400000`, milliseconds since 1970) or `-5m`, so long ago.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from tallystick.client.client import Client
from tallystick.durations import in_milliseconds
from tallystick.inspection.places import Ends, Place, ends_of, offsets_at

_LARGEST = (1 << 63) - 1


class Kind(Enum):
    """What a spot is measured in."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Spot:
    """One, the same in each partition."""

    kind: Kind
    number: int = 0
    """An offset, a count, or milliseconds since 1970."""


BEGINNING, END = Spot(Kind.BEGINNING), Spot(Kind.END)


def read_spot(written: str, now_ms: int) -> Spot:
    """Raises `ValueError`."""
    for kind in (Kind.BEGINNING, Kind.END):
        if written == kind.value:
            return Spot(kind)
    if re.fullmatch(r"-?\d{1,19}", written, re.ASCII):
        number = int(written)
        return _within(Spot(Kind.OFFSET, number) if written[0] != "-" else Spot(Kind.BEFORE_END, -number), written)
    if re.fullmatch(r"@\d{1,19}", written, re.ASCII):
        return _within(Spot(Kind.TIME, int(written[1:])), written)
    if written.startswith("-"):
        return Spot(Kind.TIME, max(0, now_ms - in_milliseconds(written[1:])))
    return Spot(Kind.TIME, max(0, time_ms(written)))


def _within(spot: Spot, written: str) -> Spot:
    if spot.number > _LARGEST:
        raise ValueError(f"{written!r} is larger than any offset or time")
    return spot


def time_ms(written: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 date and time; UTC where it does not say. Raises `ValueError`."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError(f"{written!r} is no offset, no date and time, and neither 'beginning' nor 'end'") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


async def offsets_of(
    client: Client, wanted: Collection[Place], spot: Spot, *, read_committed: bool
) -> dict[Place, int]:
    """The offset that a spot means in each partition, now. One that lies outside of the log is its end there."""
    ends = await ends_of(client, wanted)
    times = await offsets_at(client, wanted, spot.number) if spot.kind is Kind.TIME else {}
    return {place: _offset(spot, ends[place], times.get(place, -1), read_committed) for place in wanted}


def _offset(spot: Spot, ends: Ends, at_time: int, read_committed: bool) -> int:
    end = ends.last_stable_offset if read_committed else ends.high_watermark
    wanted = {
        Kind.BEGINNING: ends.start,
        Kind.END: end,
        Kind.OFFSET: spot.number,
        Kind.BEFORE_END: end - spot.number,
        Kind.TIME: at_time if at_time >= 0 else end,
    }[spot.kind]
    return min(max(wanted, ends.start), end)
