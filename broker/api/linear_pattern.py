"""Regular expressions of clients, matched in time that grows with the text and with nothing else.

What RE2 understands and `re` would need for ever, or not understand: a pattern becomes a small machine that follows all
its ways at once (Thompson), and the sets of states it has been in are kept (a lazy DFA). A pattern has to match a whole
text. Not understood, though RE2 does: word boundaries, (?m), (?U), scripts (\\p{Greek}), POSIX classes ([[:alpha:]]).
"""

import re
import unicodedata
from collections.abc import Callable, Generator
from dataclasses import dataclass

LONGEST_PATTERN = 1000
MOST_STATES = 5_000
MOST_REPEATS = 1000
"""RE2's own limit for {n}."""
KEPT_STATES = 100_000
"""In all sets that are kept, and one for each step between them: some ten megabytes."""
MOST_LOOKS = 10_000_000
"""At states, in the life of a pattern: some seconds. Steps that are kept cost none."""
CHARACTERS_PER_YIELD = 256

Predicate = Callable[[str], bool]
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS = re.compile(r"\(\?([is]*)(?:-([is]+))?([:)])")
_NAMED = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_HEX = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_CATEGORY = re.compile(r"([pP])(?:([A-Z])|\{(\^?)([A-Z][a-z]?)\})")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: dict[str, Predicate] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in " \t\n\r\f",
}


class BadPattern(Exception):
    """Not a pattern that is understood here."""


@dataclass(slots=True)
class _State:
    """One state: passes `out` where `accepts` takes a character; without it, `out` and `other` at no cost, or only at
    the beginning (`^`) or end (`$`) of the text."""

    accepts: Predicate | None = None
    at: str = ""
    out: int = -1
    other: int = -1


class Pattern:
    """A compiled pattern. Raises `BadPattern`."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATTERN:
            raise BadPattern(f"longer than {LONGEST_PATTERN} characters")
        states: list[_State] = []
        end = _add(states, _State())
        start = _Parser(text, states).whole(end)
        self._states, self._end = states, end
        self._sets: dict[frozenset[int], dict[str, frozenset[int]]] = {}
        self._kept = self._looks = 0
        self._start = self._closure([start], at_start=True)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text. Raises `BadPattern` where that is too much work."""
        steps = self.matching(text)
        try:
            while True:
                next(steps)
        except StopIteration as finished:
            return bool(finished.value)

    def matching(self, text: str) -> Generator[None, None, bool]:
        """As `matches`, in steps that are short whatever pattern and text are."""
        current = self._start
        for position, character in enumerate(text):
            following = self._sets.get(current, _NO_STEPS).get(character)
            if following is None:
                following = self._step(current, character)
                self._keep(current, character, following)
                yield
            elif position % CHARACTERS_PER_YIELD == 0:
                yield
            if not following:
                return False
            current = following
        return self._end in self._closure(list(current), at_start=not text, at_end=True)

    def _keep(self, current: frozenset[int], character: str, following: frozenset[int]) -> None:
        if self._kept > KEPT_STATES:
            self._sets.clear()
            self._kept = 0
        steps = self._sets.get(current)
        if steps is None:
            steps = self._sets[current] = {}
            self._kept += len(current)
        steps[character] = following
        self._kept += 1 + (len(following) if following not in self._sets else 0)

    def _step(self, current: frozenset[int], character: str) -> frozenset[int]:
        passed = [self._states[index] for index in current]
        return self._closure([state.out for state in passed if state.accepts is not None and state.accepts(character)])

    def _closure(self, todo: list[int], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """All states that are reached without taking a character."""
        seen: set[int] = set()
        while todo:
            index = todo.pop()
            if index < 0 or index in seen:
                continue
            seen.add(index)
            state = self._states[index]
            if state.accepts is None and (not state.at or (at_start if state.at == "^" else at_end)):
                todo += (state.out, state.other)
        self._looks += len(seen)
        if self._looks > MOST_LOOKS:
            raise BadPattern("too much work")
        return frozenset(seen)


_NO_STEPS: dict[str, frozenset[int]] = {}


def _add(states: list[_State], state: _State) -> int:
    if len(states) >= MOST_STATES:
        raise BadPattern("too many repetitions")
    states.append(state)
    return len(states) - 1


@dataclass(slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False


Fragment = Callable[[int], int]
"""Puts its states in front of a given one; returns where it begins."""


class _Parser:
    """Recursive descent. What is parsed is a `Fragment`, so that repetitions can be laid out more than once."""

    def __init__(self, text: str, states: list[_State]) -> None:
        self._text = text
        self._states = states
        self._at = 0
        self._depth = 0
        self._flags = _Flags()

    def whole(self, end: int) -> int:
        fragment = self._alternatives()
        if self._at < len(self._text):
            raise BadPattern("an unmatched )")
        return fragment(end)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> Fragment:
        self._depth += 1
        if self._depth > 100:
            raise BadPattern("groups too deep")
        found = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            found.append(self._sequence())
        self._depth -= 1

        def lay(end: int) -> int:
            begin = found[-1](end)
            for fragment in reversed(found[:-1]):
                begin = _add(self._states, _State(out=fragment(end), other=begin))
            return begin

        return lay

    def _sequence(self) -> Fragment:
        parts: list[Fragment] = []
        while self._peek() and self._peek() not in "|)":
            parts.append(self._repeated())

        def lay(end: int) -> int:
            for fragment in reversed(parts):
                end = fragment(end)
            return end

        return lay

    def _repeated(self) -> Fragment:
        fragment = self._atom()
        before = self._at
        least, most = self._repeat()
        if self._at == before:
            return fragment
        if self._peek() == "?":  # lazy or greedy: the whole text has to match either way
            self._at += 1
        if self._repeat() != (1, 1):
            raise BadPattern("a repetition of a repetition")
        return lambda end: self._laid_out(fragment, least, most, end)

    def _repeat(self) -> tuple[int, int | None]:
        """(least, most) of the repetition that stands here; (1, 1) where none does."""
        sign = self._peek()
        if sign and sign in "*+?":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        counted = _REPEAT.match(self._text, self._at)
        if counted is None:
            return 1, 1
        self._at = counted.end()
        least = int(counted[1])
        most = least if counted[2] is None else int(counted[3]) if counted[3] else None
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise BadPattern("a bad repetition")
        return least, most

    def _laid_out(self, fragment: Fragment, least: int, most: int | None, end: int) -> int:
        if most is None:
            loop = _add(self._states, _State(other=end))
            self._states[loop].out = fragment(loop)
            begin = loop
        else:
            begin = end
            for _ in range(most - least):
                begin = _add(self._states, _State(out=fragment(begin), other=end))
        for _ in range(least):
            begin = fragment(begin)
        return begin

    def _atom(self) -> Fragment:
        sign = self._peek()
        if sign == "(":
            return self._group()
        self._at += 1
        if sign == "[":
            return self._one(self._char_class())
        if sign == ".":
            return self._one((lambda c: True) if self._flags.dot_all else (lambda c: c != "\n"))
        if sign in "^$":
            return lambda end: _add(self._states, _State(at=sign, out=end))
        if sign == "\\":
            return self._escaped()
        if sign in "*+?":
            raise BadPattern("nothing to repeat")
        return self._literal(sign)

    def _group(self) -> Fragment:
        before = _Flags(self._flags.ignore_case, self._flags.dot_all)
        flags, named = _FLAGS.match(self._text, self._at), _NAMED.match(self._text, self._at)
        if named is not None:
            self._at = named.end()
        elif flags is not None:
            self._at = flags.end()
            for letters, on in ((flags[1], True), (flags[2] or "", False)):
                self._flags.ignore_case = on if "i" in letters else self._flags.ignore_case
                self._flags.dot_all = on if "s" in letters else self._flags.dot_all
            if flags[3] == ")":
                return lambda end: end
        elif self._text.startswith("(?", self._at):
            raise BadPattern("a kind of group that RE2 does not know")
        else:
            self._at += 1
        inner = self._alternatives()
        if self._peek() != ")":
            raise BadPattern("a missing )")
        self._at += 1
        self._flags = before
        return inner

    def _escaped(self) -> Fragment:
        sign = self._peek()
        if sign and sign in "Az":
            self._at += 1
            return lambda end: _add(self._states, _State(at="^" if sign == "A" else "$", out=end))
        if sign == "Q":
            end_of_quote = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 1 : end_of_quote if end_of_quote >= 0 else None]
            self._at = end_of_quote + 2 if end_of_quote >= 0 else len(self._text)
            parts = [self._literal(character) for character in quoted]

            def lay(end: int) -> int:
                for part in reversed(parts):
                    end = part(end)
                return end

            return lay
        taken = self._escape()
        return self._literal(taken) if isinstance(taken, str) else self._one(taken)

    def _escape(self) -> str | Predicate:
        """Behind a backslash: a character, or a class of them."""
        sign = self._peek()
        self._at += 1
        if sign.lower() in _CLASSES and sign:
            inner = _CLASSES[sign.lower()]
            return inner if sign.islower() else lambda c: not inner(c)
        if (category := _CATEGORY.match(self._text, self._at - 1)) is not None:
            self._at = category.end()
            wanted = category[2] or category[4]
            negated = (category[1] == "P") != (category[3] == "^")
            return lambda c: unicodedata.category(c).startswith(wanted) != negated
        if (number := _HEX.match(self._text, self._at - 1)) is not None:
            self._at = number.end()
            code = int(number[1] or number[2], 16)
            if code > 0x10FFFF:
                raise BadPattern("no such character")
            return chr(code)
        if sign in _CONTROL:
            return _CONTROL[sign]
        if sign and sign.isascii() and not sign.isalnum():
            return sign
        raise BadPattern(f"the escape \\{sign} is not understood")

    def _char_class(self) -> Predicate:
        negated = self._peek() == "^"
        self._at += negated
        parts: list[Predicate] = []
        while not parts or self._peek() != "]":
            if not self._peek() or self._text.startswith("[:", self._at):
                raise BadPattern("a class that is not understood, or has no end")
            low = self._class_part()
            if not isinstance(low, str):
                parts.append(low)
                continue
            high: str | Predicate = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._class_part()
            if not isinstance(high, str) or high < low:
                raise BadPattern("a range that goes backwards")
            parts.append(self._cased(lambda c, low=low, high=high: low <= c <= high))  # type: ignore[misc]
        self._at += 1
        return lambda c: any(part(c) for part in parts) != negated

    def _class_part(self) -> str | Predicate:
        self._at += 1
        sign = self._text[self._at - 1]
        return self._escape() if sign == "\\" else sign

    def _literal(self, wanted: str) -> Fragment:
        return self._one(self._cased(lambda c: c == wanted))

    def _cased(self, accepts: Predicate) -> Predicate:
        if not self._flags.ignore_case:
            return accepts
        return lambda c: accepts(c) or accepts(c.lower()) or accepts(c.upper())

    def _one(self, accepts: Predicate) -> Fragment:
        return lambda end: _add(self._states, _State(accepts=accepts, out=end))


def understands(text: str) -> bool:
    """Whether a text is a pattern."""
    try:
        Pattern(text)
    except BadPattern:
        return False
    return True
