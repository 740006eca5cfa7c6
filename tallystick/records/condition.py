"""Which records are wanted: a small language, read by this file and by nothing else of Python's.

    condition   = all { "or" all }
    all         = one { "and" one }
    one         = "not" one | "(" condition ")" | operand compared operand
    compared    = "=" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "~"
    operand     = field | 'text' | "text" | number | "true" | "false" | "null"
    field       = "topic" | "partition" | "offset" | "timestamp" | "transaction" | "header" "." name
                | ("key" | "value") { "." name | "[" number "]" }

`key` and `value` alone are text (null where there is none); with a path they are JSON, and null where they are none or
have nothing there. `~` is a regular expression of RE2, found anywhere. A timestamp is compared with milliseconds or
with a time that is written. Values of different kinds are unequal, and none of them is less.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import re2

from tallystick.records.reader import Seen
from tallystick.records.spots import time_ms

Value = Any
"""What JSON knows."""
Test = Callable[[Seen], bool]
_DEPTH = 100
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<mark>!=|<=|>=|[=<>~()])"""
    r"""|(?P<word>[A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*))""",
    re.ASCII,
)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]", re.ASCII)
_LITERALS: dict[str, Value] = {"true": True, "false": False, "null": None}
_PLAIN: dict[str, Callable[[Seen], Value]] = {
    "topic": lambda seen: seen.place[0],
    "partition": lambda seen: seen.place[1],
    "offset": lambda seen: seen.record.offset,
    "timestamp": lambda seen: seen.record.timestamp_ms,
    "transaction": lambda seen: seen.fate.value,
}


class BadCondition(Exception):
    """What was written is none; the message says where."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Operand:
    of: Callable[[Seen], Value]
    is_time: bool = False
    literal: Value = None


def read_condition(written: str) -> Test:
    """Raises `BadCondition`."""
    parser = _Parser(written)
    try:
        test = parser.condition()
    except ValueError as problem:  # a number of more digits than Python reads, a pattern that is no UTF-8
        raise BadCondition(f"{written[:40]!r} cannot be read: {problem}") from None
    if parser.here.kind != "end":
        raise parser.wrong("'and' or 'or'")
    return test


class _Parser:
    def __init__(self, written: str) -> None:
        self._written = written
        self._tokens = list(_tokens(written))
        self._at = 0
        self._depth = 0

    @property
    def here(self) -> _Token:
        return self._tokens[self._at]

    def wrong(self, wanted: str) -> BadCondition:
        found = self.here.text or "the end"
        return BadCondition(f"{wanted} is wanted at {self.here.at + 1} of {self._written!r}, there is {found}")

    def condition(self) -> Test:
        tests = [self._all()]
        while self._takes("or"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda seen: any(test(seen) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._takes("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda seen: all(test(seen) for test in tests)

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > _DEPTH:
            raise BadCondition(f"{self._written[:40]!r}… is nested too deeply")
        try:
            if self._takes("not"):
                inner = self._one()
                return lambda seen: not inner(seen)
            if self._takes("("):
                inner = self.condition()
                if not self._takes(")"):
                    raise self.wrong("')'")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Test:
        left = self._operand()
        compared = self.here.text
        if compared not in (*_COMPARED, "~") or self.here.kind == "text":
            raise self.wrong("a comparison (= != < <= > >= contains ~)")
        self._at += 1
        at = self._at
        right = self._operand()
        if compared == "~":
            pattern = right.literal
            if not isinstance(pattern, str):
                self._at = at
                raise self.wrong("a regular expression in quotes")
            return _matching(left, pattern)
        left, right = _as_times(left, right)
        holds = _COMPARED[compared]
        return lambda seen: holds(left.of(seen), right.of(seen))

    def _operand(self) -> _Operand:
        kind, text, _ = self.here
        if kind == "text":
            return self._literal(_unquoted(text))
        if kind == "number":
            return self._literal(float(text) if "." in text else int(text))
        if kind == "word" and text in _LITERALS:
            return self._literal(_LITERALS[text])
        if kind == "word" and text not in ("and", "or", "not", "contains"):
            found = _field(text)
            if found is not None:
                self._at += 1
                return _Operand(found, is_time=text == "timestamp")
        raise self.wrong("a field (key, value, header.NAME, offset, …) or a value")

    def _literal(self, value: Value) -> _Operand:
        self._at += 1
        return _Operand(lambda _: value, literal=value)

    def _takes(self, text: str) -> bool:
        if self.here.text != text or self.here.kind == "text":
            return False
        self._at += 1
        return True


def _tokens(written: str) -> list[_Token]:
    found, at = [], 0
    end = len(written.rstrip())
    while at < end:
        match = _TOKEN.match(written, at)
        if match is None:
            raise BadCondition(f"{written!r} cannot be read from {at + 1} on")
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


def _unquoted(text: str) -> str:
    """A backslash stands before a quote or another one; elsewhere it is one, as regular expressions want it."""
    return re.sub(r"""\\(['"\\])""", r"\1", text[1:-1])


def _field(word: str) -> Callable[[Seen], Value] | None:
    if word in _PLAIN:
        return _PLAIN[word]
    head = re.split(r"[.\[]", word, maxsplit=1)[0]
    rest = word[len(head) :]
    if head == "header" and rest.startswith("."):
        return lambda seen: _header(seen, rest[1:])
    if head not in ("key", "value"):
        return None
    steps = [name if name else int(index) for name, index in _STEP.findall(rest)]
    if not steps:
        return lambda seen: _text(_part(seen, head))
    return lambda seen: _inside(_part(seen, head), steps)


def _part(seen: Seen, name: str) -> bytes | None:
    return seen.record.key if name == "key" else seen.record.value


def _header(seen: Seen, name: str) -> str | None:
    """Of several of a name the last one holds."""
    return next((_text(value) for key, value in reversed(seen.record.headers) if key == name), None)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _inside(data: bytes | None, steps: list[str | int]) -> Value:
    try:
        found: Value = json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None
    for step in steps:
        if isinstance(found, dict):
            found = found.get(str(step))
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return None
    return found


def _matching(left: _Operand, pattern: str) -> Test:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as problem:
        raise BadCondition(f"{pattern!r} is no regular expression of RE2: {_said(problem)}") from None

    def test(seen: Seen) -> bool:
        found = left.of(seen)
        # RE2 takes text that is UTF-8.
        return isinstance(found, str) and compiled.search(found.encode("utf-8", "replace").decode()) is not None

    return test


def _said(problem: Exception) -> str:
    said = problem.args[0] if problem.args else problem
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _as_times(left: _Operand, right: _Operand) -> tuple[_Operand, _Operand]:
    """A text that is compared with a timestamp is a time."""
    pair = [left, right]
    for at, other in ((0, right), (1, left)):
        literal = pair[at].literal
        if other.is_time and isinstance(literal, str):
            try:
                milliseconds = time_ms(literal)
            except ValueError:
                raise BadCondition(f"{literal!r} is no date and time") from None
            pair[at] = _Operand(lambda _, at_ms=milliseconds: at_ms)  # type: ignore[misc]
    return pair[0], pair[1]


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _equal(left: Value, right: Value) -> bool:
    return _kind(left) == _kind(right) and bool(left == right)


def _ordered(holds: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    return lambda left, right: _kind(left) == _kind(right) in ("number", "str") and holds(left, right)


def _contains(left: Value, right: Value) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(one, right) for one in left)


_COMPARED: dict[str, Callable[[Value, Value], bool]] = {
    "=": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: bool(left < right)),
    "<=": _ordered(lambda left, right: bool(left <= right)),
    ">": _ordered(lambda left, right: bool(left > right)),
    ">=": _ordered(lambda left, right: bool(left >= right)),
    "contains": _contains,
}
