"""Durations as people write and say them."""

import re
from datetime import timedelta

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")
_SAID = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


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


def in_words(milliseconds: int) -> str:
    """Two units at most: `1 h 5 min`, `12 s`, `340 ms`."""
    left, said = max(0, milliseconds), []
    for name, size in _SAID:
        if left >= size:
            said.append(f"{left // size} {name}")
            left %= size
        elif said:
            break
    return " ".join(said[:2]) or f"{left} ms"


def ago(milliseconds: int) -> str:
    """`12 s ago`; clocks of two machines may differ."""
    return f"{in_words(milliseconds)} ago" if milliseconds >= 0 else "just now"
