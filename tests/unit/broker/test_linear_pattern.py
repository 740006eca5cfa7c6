"""Patterns of clients: understood as RE2 does, and never a way to make the broker think for ever."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.api import linear_pattern
from broker.api.linear_pattern import CHARACTERS_PER_YIELD, KEPT_STATES, BadPattern, Pattern

MEANT = [
    ("orders-.*", ["orders-", "orders-1", "orders-x-y"], ["orders", "xorders-1", "orders-\n"]),
    ("orders-[0-9]+", ["orders-1", "orders-042"], ["orders-", "orders-1x"]),
    (r"a\.b|c{2,3}|", ["a.b", "cc", "ccc", ""], ["axb", "c", "cccc"]),
    (r"(?i)Tx-\d{2}", ["tx-01", "TX-99"], ["tx-1", "tx-aa"]),
    (r"(?i:a)b", ["Ab", "ab"], ["aB"]),
    (r"^(?P<name>x|y)*?$", ["", "xyx"], ["z"]),
    (r"[^a-c\d-]+", ["xyz", "é"], ["a", "x1", "-"]),
    (r"\Qa.b*\E+", ["a.b*"], ["aab"]),
    (r"\pL+\P{L}", ["äb1"], ["1", "ä"]),
    (r"x{3}y{0}z?", ["xxx", "xxxz"], ["xxxy", "xx"]),
    (r"\x41\x{e4}\n[\]\-]", ["Aä\n]", "Aä\n-"], ["A"]),
    (r"(?s).", ["\n", "x"], [""]),
    (r"\A\w\W\s\S\D\z", ["a  xy"], ["aa xy"]),
    ("a{,3}", ["a{,3}"], ["aaa"]),
    ("[]x]", ["]", "x"], [""]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), MEANT)
def test_a_pattern_is_for_the_whole_text(pattern: str, matching: list[str], others: list[str]) -> None:
    made = Pattern(pattern)
    assert [text for text in matching if not made.matches(text)] == []
    assert [text for text in others if made.matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "*", "a**", "a*+", r"(a)\1", "(?=a)", "(?<!a)", "(?>a)", "[", "[b-a]", "a{2,1}", "a{1001}",
     "(?P=x)", "\\", r"\y", r"\b", "[[:alpha:]]", "(?m)a", "x" * 1001, "((a{1000}){1000}){1000}", "(" * 200 + ")" * 200,
     r"\x{110000}", "(?", "a" + "{1000}" * 2],
)  # fmt: skip
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+)+$b", "(.*.*.*.*)*x", "(a?){50}a{50}b"])
def test_nothing_makes_it_think_for_ever(pattern: str) -> None:
    """KIP-1152 lets anybody who may list send a pattern; `re` would need longer than the universe for these."""
    assert not Pattern(pattern).matches("a" * 5_000)


ALPHABET = st.sampled_from("ab1-")
ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "1", "-"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.lists(ALPHABET, max_size=7).map("".join))
def test_it_agrees_with_python_where_python_is_quick(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text) == (re.fullmatch(pattern, text) is not None)


def test_what_a_pattern_keeps_is_bounded() -> None:
    """Thousands of states in a set, and another set for each character."""
    pattern = Pattern("(.?){1000}(.?){1000}(.?){400}x")
    text = "".join(chr(0x4E00 + number) for number in range(600))
    steps = pattern.matching(text)
    for _ in range(500):
        next(steps)
    kept = sum(len(one) + len(following) for one, following in pattern._sets.items())
    assert kept <= KEPT_STATES + 10_000


def test_a_pattern_has_only_so_much_work_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_pattern, "MOST_LOOKS", 100_000)
    pattern = Pattern("(.?){1000}x")
    with pytest.raises(BadPattern, match="too much work"):
        pattern.matches("".join(chr(0x4E00 + number) for number in range(1_000)))


def test_a_match_comes_in_short_steps() -> None:
    pattern = Pattern("(ab)*")
    assert pattern.matches("ab" * 10)
    assert sum(1 for _ in pattern.matching("ab" * 5_000)) == 10_000 // CHARACTERS_PER_YIELD + 1
