"""Java's properties format: `key=value`, `key: value` or `key value`, `#` and `!` comments, lines continued with a
backslash, the escapes \\t \\n \\r \\f \\uXXXX.
"""

from collections.abc import Iterable


class BadProperties(Exception):
    """A file that cannot be read; the text names the line."""


def read_properties(text: str) -> dict[str, str]:
    """Raises `BadProperties`."""
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError:
            raise BadProperties(f"line {number}: a malformed \\u escape") from None
    return values


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    pending = ""
    first = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\" or position + 1 == len(text):
            parts.append(character)
            position += 1
        elif text[position + 1] == "u":
            digits = text[position + 2 : position + 6]
            if len(digits) != 4:
                raise ValueError(text)
            parts.append(chr(int(digits, 16)))
            position += 6
        else:
            parts.append(_ESCAPES.get(text[position + 1], text[position + 1]))
            position += 2
    return "".join(parts)
