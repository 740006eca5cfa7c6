"""Times as people say them."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def in_words(milliseconds: int) -> str:
    """Two units at most: `1 h 5 min`, `12 s`, `340 ms`."""
    left, said = max(0, milliseconds), []
    for name, size in _UNITS:
        if left >= size:
            said.append(f"{left // size} {name}")
            left %= size
        elif said:
            break
    return " ".join(said[:2]) or f"{left} ms"


def ago(milliseconds: int) -> str:
    """`12 s ago`; clocks of two machines may differ."""
    return f"{in_words(milliseconds)} ago" if milliseconds >= 0 else "just now"
