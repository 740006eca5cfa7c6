"""The page of the benchmarks and its pictures: verdicts, the columns of rivals, what a run is said to have run on."""

import re
import sysconfig
from xml.etree import ElementTree

import pytest

from tests.benchmarks import plots, report
from tests.benchmarks.__main__ import without_what_is_missing
from tests.benchmarks.about import about, optimised
from tests.benchmarks.ratios import Measured, compared, verdict
from tests.benchmarks.rows import FAMILIES, GOALS, HEADINGS, ROWS, Goal, compaction_title, family_of, recovery_title
from tests.benchmarks.targets import DURABLE, KAFKA, KAFKA_FLUSH, KFAKE, MAKERS, PAGE_CACHE, TITLES
from tests.harness import go_programs, kfake
from tests.harness.go_programs import GoMissing

ROW = "transactions of 10 records over 4 partitions, 1 producer"
RATE, SLOWNESS = "transactions/s", "p99 ms"


def measured(ours: list[float], rival: list[float], name: str = KAFKA, figure: str = RATE) -> Measured:
    return {ROW: {PAGE_CACHE: {figure: ours}, name: {figure: rival}}}


@pytest.mark.parametrize(
    ("ours", "rival", "rounds_reached", "is_reached"),
    [
        ([200.0, 210.0, 220.0], [100.0, 100.0, 100.0], 3, True),
        ([150.0, 210.0, 220.0], [100.0, 100.0, 100.0], 2, True),
        ([200.0, 260.0, 80.0], [90.0, 200.0, 100.0], 1, False),
        ([150.0, 160.0, 220.0], [100.0, 100.0, 100.0], 1, False),
        ([100.0, 130.0, 290.0], [50.0, 65.0, 150.0], 2, True),
        ([140.0, 120.0, 290.0], [100.0, 60.0, 140.0], 2, False),
    ],
    ids=["all", "two of three", "median only", "one of three", "in pairs", "two of three without the median"],
)
def test_a_goal_is_reached_by_the_median_and_two_of_three_rounds(
    ours: list[float], rival: list[float], rounds_reached: int, is_reached: bool
) -> None:
    found = verdict(measured(ours, rival), ROW, Goal(PAGE_CACHE, RATE, "≥", 2.0))
    assert found is not None
    assert (found.rounds_reached, found.is_reached) == (rounds_reached, is_reached)


def test_two_rounds_of_five_are_not_two_of_three_and_one_round_counts_alone() -> None:
    goal = Goal(PAGE_CACHE, SLOWNESS, "≤", 0.5, other_rival=KFAKE)
    five = verdict(measured([1, 1, 1, 3, 3], [2, 2, 2, 2, 2], KFAKE, SLOWNESS), ROW, goal)
    assert five is not None and five.standing.median == 0.5 and five.rounds_reached == 3 and not five.is_reached
    one = verdict(measured([1], [2], KFAKE, SLOWNESS), ROW, goal)
    assert one is not None and one.is_reached


def test_a_round_is_compared_with_the_rivals_round_beside_it() -> None:
    found = compared(measured([10, 40, 90], [10, 20, 30]), ROW, RATE, PAGE_CACHE, KAFKA)
    assert found is not None and found.median == 2.0 and found.rounds == (1.0, 2.0, 3.0)
    assert compared(measured([10], [0]), ROW, RATE, PAGE_CACHE, KAFKA) is None, "there is nothing to divide by"
    assert compared(measured([10], [10]), ROW, RATE, PAGE_CACHE, KFAKE) is None, "it was not measured"
    assert compared(measured([1, 2], []), ROW, RATE, PAGE_CACHE, None) == (1.5, (1.0, 2.0))


def test_goals_name_figures_that_are_measured_against_rivals_that_are() -> None:
    for goals in GOALS.values():
        for goal in goals:
            assert goal.mode in MAKERS
            assert goal.rival is None or goal.rival in MAKERS
    against_kfake = {title: goal.figure for title, goals in GOALS.items() for goal in goals if goal.rival == KFAKE}
    assert sorted(against_kfake.values()) == ["MB/s", "p50 ms", RATE, RATE]
    assert Goal(DURABLE, RATE, "≥", 1.0).rival == KAFKA_FLUSH


def test_every_row_has_a_place_on_the_page() -> None:
    assert {family_of(title) for title in GOALS} == set(FAMILIES) == set(HEADINGS)
    assert (family_of(recovery_title(0.05)), family_of(compaction_title(0.1))) == ("recovery", "compaction")
    assert all(family_of(row.title) == row.family for row in ROWS)


def test_kfake_has_columns_where_it_was_measured() -> None:
    rows = measured([200, 100, 300], [100, 100, 100], KFAKE)
    rows["one awaited produce"] = {PAGE_CACHE: {"p50 ms": [1.0]}, KAFKA: {"p50 ms": [2.0]}}
    text = report.page(rows, {title: {"rounds": 3} for title in rows})
    transactions, awaited = (
        text.partition(f"### {HEADINGS[name]}\n")[2].partition("###")[0] for name in ("txn", "awaited")
    )
    assert f"| | | {TITLES[PAGE_CACHE]} | {TITLES[KFAKE]} | page cache : kfake |" in transactions
    assert f"| {ROW} | {RATE} | 200 | 100 | 2.00 (1.00–3.00) |" in transactions
    assert "images/benchmarks/txn.svg" in transactions
    assert "kfake" not in awaited and "0.50 (0.50) |" in awaited
    assert f"| {ROW}: {RATE} | page-cache : kfake | 2 × (≥ 0.8 ×) | 1–3: 3 of 3 | reached |" in text


def test_the_pictures_are_xml_with_a_bar_for_each_broker_and_a_dot_for_each_round() -> None:
    rows: Measured = {
        ROW: {name: {RATE: [float(value), 20.0, 30.0], "a < b & c": [0.0, -1.0]} for value, name in enumerate(MAKERS)}
    }
    picture = plots.svg("Transactions & more", rows, [ROW])
    drawn = ElementTree.fromstring(picture)
    kinds = [element.get("class", "") for element in drawn.iter()]
    bars, dots, goals = (sum(one.startswith(f"{kind} ") for one in kinds) for kind in ("bar", "dot", "goal"))
    assert (bars, dots) == (2 * len(MAKERS), 5 * len(MAKERS))
    assert goals == len(GOALS[ROW])
    assert all(float(element.get("width", 0)) >= 0 for element in drawn.iter())
    assert "prefers-color-scheme: dark" in picture
    assert set(plots.LIGHT) == set(plots.DARK)


def test_what_was_measured_is_on_the_page_and_in_its_pictures() -> None:
    rows, known = report.load()
    assert report.PAGE.read_text() == report.page(rows, known), 'run `make bench ARGS="--page"`'
    there = {path.stem: path.read_text() for path in report.PICTURES.glob("*.svg")}
    assert there == report.pictures(rows), 'run `make bench ARGS="--page"`'
    for picture in there.values():
        ElementTree.fromstring(picture)


@pytest.mark.parametrize(
    ("arguments", "flag", "said"),
    [
        (
            "'--enable-shared' '--enable-optimizations' '--with-lto' 'CC=gcc'",
            "-fprofile-use",
            "(built with PGO and LTO)",
        ),
        ("'--enable-optimizations' '--without-lto'", "-fprofile-use", "(built with PGO)"),
        ("'--with-lto=thin'", "-fprofile-use", "(built with LTO)"),
        ("'--prefix=/somewhere'", "-fprofile-use", "(built without PGO and LTO)"),
        (
            "'--enable-shared' '--prefix=/usr'",
            "",
            "(of the distribution, which does not say whether it was built with PGO and LTO)",
        ),
    ],
    ids=["both", "profiles", "thin", "neither", "Debian"],
)
def test_how_a_python_was_built(arguments: str, flag: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.base_prefix", "/usr")
    assert optimised({"CONFIG_ARGS": arguments, "PGO_PROF_USE_FLAG": flag}) == said


def test_a_run_says_what_our_brokers_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = about([PAGE_CACHE, KFAKE], 3, 1.0)
    assert facts["our brokers"] == "sources"
    assert optimised(sysconfig.get_config_vars()) in str(facts["Python"])
    assert re.fullmatch(r"v\d+\.\d+\.\d+-\d{14}-[0-9a-f]{12}", str(facts["kfake"]))
    assert facts["kfake"] == go_programs.pinned(kfake.MODULE)
    assert "kfake" not in about([PAGE_CACHE], 3, 1.0)
    found = {"tallystick_core__mypyc": "a library", "protocol.framing": "a file"}
    monkeypatch.setattr("tallystick.startup_guard.compiled_modules", lambda: found)
    assert about([], 3, 1.0)["our brokers"] == "compiled core (1 modules)"


def test_kfake_is_left_out_with_a_sentence_where_there_is_no_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    kfake.program.cache_clear()
    with pytest.raises(GoMissing):
        kfake.program()
    assert without_what_is_missing([DURABLE, KFAKE, KAFKA]) == [DURABLE, KAFKA]
    assert capsys.readouterr().err == "kfake is left out: there is no go on PATH\n"
    assert without_what_is_missing([DURABLE]) == [DURABLE]
