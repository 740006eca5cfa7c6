"""That every defect of nodes over a store still applies, and that a sample is noticed; `make mutants-over-a-store` is
all of them.
"""

import os
import subprocess
import sys

import pytest

from tallystick.postgresql_process import why_not
from tests.mutants.mutant import VARIABLE, Stale, function_at
from tests.mutants.over_a_store.changed_sql import ChangedSql
from tests.mutants.over_a_store.lines import Line
from tests.mutants.over_a_store.section import section
from tests.mutants.over_a_store.simulated import without_a_line
from tests.mutants.over_a_store.table import ALL, MUTANTS
from tests.mutants.page import PAGE

SAMPLE = (
    "a commit does not compare the epoch",
    "a second PUT has the name of the first",
    "a run that is damaged is passed over",
)
OVER_POSTGRESQL = 1
"""So many of them, the first."""


def test_a_sample_is_noticed() -> None:
    sample = SAMPLE if why_not() is None else SAMPLE[OVER_POSTGRESQL:]
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE and "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.over_a_store", "--unchecked", "--exact", *sample],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert f"{len(sample)} of {len(sample)} noticed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    if sample != SAMPLE:
        pytest.skip(f"of the defects of SQL none was planted: {why_not()}")


@pytest.mark.parametrize("name", MUTANTS)
def test_it_applies_and_leaves_no_trace(name: str) -> None:
    """What cannot be planted any more is a defect that nobody looks for."""
    mutant = MUTANTS[name]
    functions = [function_at(change.place) for change in mutant.changes]
    before = [function.__code__ for function in functions]
    with mutant.planted():
        assert all(function.__code__ != code for function, code in zip(functions, before, strict=True))
    assert [function.__code__ for function in functions] == before


def test_text_that_is_not_there_is_reported() -> None:
    place = "broker.shared.schema_commits:HEADS"
    for wrong in ("this text is nowhere", "log_id"):
        with pytest.raises(Stale, match="times"):
            ChangedSql(place, wrong, "")()
    with pytest.raises(Stale, match="is gone"):
        ChangedSql(f"{place}_OF_LATER", "log_id", "")()


def test_each_has_a_name_of_its_own_and_each_line_a_defect() -> None:
    assert len(ALL) == len(MUTANTS)
    assert without_a_line() == [], "defects of the simulation are of a line (simulated.py)"
    assert [line.name for line in Line if f"| **{line.happens}**: " not in section()] == []


def test_the_page_is_current() -> None:
    assert f"\n{section()}" in PAGE.read_text(encoding="utf-8"), "run `python -m tests.mutants.over_a_store --page`"
