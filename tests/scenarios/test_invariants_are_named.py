"""Every invariant and every known defect is named by a test, and docs/invariants.md says by which."""

from tests.scenarios import invariants
from tests.scenarios.known import INVARIANTS, KNOWN_DEFECTS, NOT_HERE


def test_every_invariant_and_defect_is_named_by_a_test() -> None:
    assert invariants.missing() == []


def test_the_page_is_up_to_date() -> None:
    assert invariants.PAGE.read_text(encoding="utf-8") == invariants.page(), "run `make docs`"


def test_the_list_is_whole() -> None:
    assert list(INVARIANTS) == [f"I{number:02}" for number in range(1, 51)]
    assert set(NOT_HERE) <= set(KNOWN_DEFECTS)
