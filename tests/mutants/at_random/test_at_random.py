"""That a draw is repeatable, that a drawn defect can be noticed, and how the score is counted."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="`make mutants-at-random` installs mutmut")

import coverage
import libcst as cst

from broker.api.permissions.of_topics import LIST_OFFSETS
from tests.mutants.asking import ask
from tests.mutants.at_random import record, source, trial
from tests.mutants.at_random.draw import code_with, drawn
from tests.mutants.at_random.operators import changes
from tests.mutants.at_random.reach import Map, Reach
from tests.mutants.at_random.trial import given, tried, type_error
from tests.mutants.mutant import function_at


@pytest.fixture(scope="module")
def some() -> list[source.Defect]:
    return drawn(5, 12, "coordinator/transactions/fencing.py")


def test_a_larger_draw_begins_with_the_smaller(some: list[source.Defect]) -> None:
    assert drawn(5, 6, "coordinator/transactions/fencing.py") == some[:6]
    assert drawn(6, 6, "coordinator/transactions/fencing.py") != some[:6]


def test_kinds_take_turns(some: list[source.Defect]) -> None:
    assert len({defect.kind for defect in some[:5]}) == 5


def test_each_changes_the_code_of_its_function(some: list[source.Defect]) -> None:
    for defect in some:
        right = function_at(defect.place).__code__
        changed = code_with(defect)
        assert changed != right
        assert (changed.co_qualname, changed.co_firstlineno) == (right.co_qualname, right.co_firstlineno)


def test_a_defect_is_noticed_only_by_tests_that_reach_it() -> None:
    [defect] = [
        one
        for one in source.defects("transactions", "coordinator/transactions/states.py")
        if one.kind == "statement" and one.function == "key_bytes"
    ][:1]
    unit = "unit/transactions/test_tables.py"
    verdict = tried(defect, Reach([unit], [], []))
    assert verdict.by == "test"
    assert unit in verdict.said
    assert ask([unit], None)[0] == 0, "the process of the tests itself has no defect"


@pytest.mark.parametrize(("asked", "count"), [("few", trial.FEW_OVER_A_STORE), ("quick", 8)])
def test_seeds_over_a_store_are_asked_too(monkeypatch: pytest.MonkeyPatch, asked: str, count: int) -> None:
    """And who spoke is asked again without the defect."""
    seeds, told = [f"nodes {seed}" for seed in range(7)] + ["stored 3"], list[Sequence[str]]()

    def ask_nobody(catchers: Sequence[str], mutant: object, seconds: float) -> tuple[int, str]:
        told.append(catchers)
        speaks = mutant is not None and catchers[0].startswith("nodes")
        return int(speaks), "nodes 2: a record is lost" if speaks else ""

    monkeypatch.setattr(trial, "ask", ask_nobody)
    monkeypatch.setattr(trial, "_types", lambda defect: "")
    verdict = tried(drawn(5, 1, "coordinator/transactions/fencing.py")[0], Reach([], [], [], seeds), asked=asked)
    assert (verdict.by, verdict.said) == ("seed", "nodes 2: a record is lost")
    assert told == [seeds[:count], ["nodes 2"]]


@pytest.mark.parametrize("path", ["storage/producers/producer_state.py", "broker/disk/group_commit.py"])
def test_a_defect_stands_where_the_change_is(path: str) -> None:
    """Which tests reach a docstring, or the word `finally`, is known of none."""
    lines = (source.PROJECT / path).read_text().splitlines()
    for defect in source.defects("partition state", path):
        if defect.kind in ("order", "exception"):
            assert not lines[defect.line - 1].strip().startswith(('"""', "finally"))


def in_each_topic(before: str) -> source.Defect:
    """In what makes guards, when the handlers are imported."""
    found = source.defects("the door", "broker/api/permissions/need.py")
    return next(one for one in found if one.function == "each_topic" and one.before == before)


def test_a_function_that_was_made_at_import_has_the_defect() -> None:
    defect, guard = in_each_topic("return response"), LIST_OFFSETS.answer
    right, changed = guard.__code__, code_with(defect)
    with given(defect.place, changed):
        assert guard.__code__ is not right
        assert guard.__code__ in changed.co_consts
    assert guard.__code__ is right


def test_what_the_type_checker_refuses_is_noticed_at_any_length() -> None:
    defect = next(
        one
        for one in source.defects("cluster", "coordinator/cluster/snapshot.py")
        if one.after == "_configs(name, BROKER_RESOURCE, configs)"
    )
    assert not type_error()  # it remembers the code as it is
    verdict = tried(defect, Reach([], [], []), asked="few")
    assert (verdict.by, len(defect.before)) == ("types", len(defect.after)), verdict


def test_what_runs_at_import_only_does_not_count(tmp_path: Path) -> None:
    defect = in_each_topic("(need,) if instead is None else (instead, need)")
    path = str(source.PROJECT / defect.path)
    for context, alone in (("import", True), ("seed 3", False)):
        for name in ("unit", "stories", "nodes"):
            data = coverage.CoverageData(basename=str(tmp_path / name))
            data.set_context(context if name == "stories" else "")
            data.add_lines({path: [defect.line]})
            data.write()
        reach = Map(tmp_path).of(defect)
        assert reach.at_import is alone
    verdict = tried(defect, Reach([], [], [], at_import=True))
    assert record.survivors([verdict]) == []
    assert "| **all** | 1 | 1 | 0 | 0 | – |" in record.report(5, [verdict])


@pytest.mark.parametrize(
    ("lines", "swapped"),
    [
        (["self.a = b", "self.c = self.b"], False),
        (["self.a = b", "self.c = self.a"], True),
        (["self.a = self.c", "self.c = b"], True),
        (["self.a = 1", "self.a = 2"], True),
        (["self.a = b", "self.c = made()"], False),
        (["self.a = made(b)", "self.c = made_of(b)"], True),
        (["self.a = b", "self.c = self.made()"], True),
        (["self.a()", "self.b()"], True),
        (["self.a.append(x)", "self.b[c] = d"], False),
        (["self.a.pop(x, None)", "self.b.d += 1"], False),
        (["self.a.pop(x)", "self.b += 1"], True),
        (["self.a.append(x)", "other.a.append(y)"], True),
        (["self.a.append(self.b)", "self.b += 1"], True),
        (["self.a[self.b] = x", "self.b += 1"], True),
        (["self.a.append(self.made())", "self.b += 1"], True),
        (["self.a()", "await time_slice.give_way()"], False),
    ],
)
def test_statements_whose_order_nobody_can_see_are_left_as_they_are(lines: list[str], swapped: bool) -> None:
    function = cst.parse_statement("async def f():\n    " + "\n    ".join(lines) + "\n")
    assert isinstance(function, cst.FunctionDef)
    assert ("order" in dict(changes(function.body))) is swapped


def test_assertions_stay_as_they_are() -> None:
    """What they would notice is wrong already."""
    found = source.defects("partition state", "storage/producers/aborted.py")
    assert not [one for one in found if "strict=" in one.before and "strict=" not in one.after]
    lines = (source.PROJECT / "storage/producers/aborted.py").read_text().splitlines()
    strict = [number for number, line in enumerate(lines, 1) if "strict=" in line]
    assert strict and not [one for one in found if one.kind == "truth" and one.line in strict]


def test_score_and_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    defect = drawn(5, 1, "coordinator/transactions/fencing.py")[0]
    noticed = record.Verdict.of(defect, "test", "said", 1.0)
    missed = record.Verdict.of(defect, "", "", 1.0)
    assert record.survivors([noticed, missed]) == [missed]
    assert "| **all** | 2 | 0 | 0 | 1 | 50.0% |" in record.report(5, [noticed, missed])
    monkeypatch.setattr(record, "why_equivalent", lambda verdict: "" if verdict.by else "nobody can tell")
    assert "| **all** | 2 | 0 | 1 | 1 | 100.0% |" in record.report(5, [noticed, missed])


def test_what_was_asked_less_is_asked_again() -> None:
    """A defect that few do not notice may be noticed by many."""
    found = drawn(5, 20, "coordinator/transactions/fencing.py")
    defect = next(one for one in found if one.kind != "argument")  # of that types know
    missed = {asked: tried(defect, Reach([], [], []), asked=asked) for asked in ("few", "quick")}
    assert record.goes_for(missed["quick"], "few") and not record.goes_for(missed["few"], "quick")
    assert not record.goes_for(missed["quick"], "all")
    assert all(record.goes_for(record.Verdict.of(defect, "test", "said", 1.0), asked) for asked in record.ASKED)


def test_what_is_equivalent_is_named_beyond_doubt() -> None:
    """`True` may stand in a function twice."""
    entries = json.loads(record.EQUIVALENT.read_text(encoding="utf-8"))
    assert not [entry for entry in entries if len(entry["before"]) < 20 and "on" not in entry]
    [entry] = [one for one in entries if one["function"] == "RetentionRound.__init__" and one["before"] == "False"]
    defects = source.defects("groups", entry["path"])
    of_its_words = [
        one for one in defects if all(getattr(one, name) == entry[name] for name in ("function", "before", "after"))
    ]
    assert len(of_its_words) > 0
    said = {one.line: record.why_equivalent(record.Verdict.of(one, "", "", 1.0)) for one in of_its_words}
    lines = (source.PROJECT / entry["path"]).read_text(encoding="utf-8").splitlines()
    assert all(bool(why) == (lines[line - 1].strip() == entry["on"]) for line, why in said.items())


def test_interval() -> None:
    low, high = record.interval(570, 600)
    assert (round(low, 3), round(high, 3)) == (0.93, 0.965)
    assert record.interval(0, 0) == (0.0, 1.0)


def test_every_room_named_has_files_and_no_file_two_rooms() -> None:
    """What was moved to another folder is still drawn from."""
    found = list(source.files())
    assert {room for room, _ in found} == set(source.ROOMS)
    assert len({path for _, path in found}) == len(found)
    for folder in (
        "coordinator",
        "storage",
        "keystores",
        "broker/coordination",
        "broker/partitions",
        "broker/security",
    ):
        of_folder = {str(path.relative_to(source.PROJECT)) for path in (source.PROJECT / folder).rglob("*.py")}
        left_out = of_folder - {path for _, path in found}
        assert all(path.endswith("__init__.py") for path in left_out)
    assert all((source.PROJECT / place).exists() for places in source.ROOMS.values() for place in places)
