"""Durations as people write them."""

import re
from datetime import timedelta

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")


def in_milliseconds(duration: str | float | timedelta) -> int:
    """Of `15m`, `1h30m`, `250ms`, of seconds, or of a timedelta. Raises `ValueError`."""
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * 1000)
    if not isinstance(duration, str):
        return round(duration * 1000)
    text = duration.replace(" ", "")
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{duration!r} is no duration; write 15m, 1h30m or 250ms")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)
