"""The short form of every attack, each on a broker of its own."""

from pathlib import Path

import pytest

from tests.attacks.registry import Case, load_cases
from tests.attacks.trial import Trial


def pending(case: Case) -> pytest.MarkDecorator:
    """What does not hold yet; a case in which everybody waits for ever is not even run."""
    return pytest.mark.xfail(
        reason=case.pending, strict=True, raises=AssertionError, run=not case.pending.startswith("hangs")
    )


def cases() -> list[object]:
    named = load_cases().items()
    return [pytest.param(case, id=name, marks=pending(case) if case.pending else ()) for name, case in named]


@pytest.mark.parametrize("case", cases())
def test_the_attack_harms_nobody(case: Case, tmp_path: Path) -> None:
    outcome = Trial(case, case.short, tmp_path, quick=True).run()
    assert outcome.problems == [], f"repeat with `python -m tests.attacks --short {case.name}`; {outcome.figures}"
