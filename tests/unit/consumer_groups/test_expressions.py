"""What regular expressions of clients stand for: as RE2 has it, of whole names."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordination.consumer_groups.expressions import LONGEST, ExpressionResolver, matching, problem_of
from broker.coordination.coordinators import CoordinatorError
from broker.disk.local_files import LocalFiles
from broker.process.environment import RealEnvironment
from coordinator.groups.consumer.soft_state import Resolution
from protocol.errors import ErrorCode

NAMES = ["orders", "orders-1", "Orders-2", "stock", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-1"]),
        ("^orders-.*$", ["orders-1"]),
        ("(?i)orders-[0-9]+", ["orders-1", "Orders-2"]),
        ("o|s", []),
        ("[[:alpha:]]+", ["orders", "stock"]),
        (r"\w+", ["orders", "stock", "__consumer_offsets"]),
        (".*", NAMES),
    ],
)
def test_an_expression_stands_for_the_names_that_match_it_as_a_whole(expression: str, found: list[str]) -> None:
    assert problem_of(expression) is None
    assert matching([expression], NAMES) == {expression: found}


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(", "missing )"),
        ("*", "no argument for repetition operator"),
        ("(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        (r"(\pL{500}|x)" * 20, "pattern too large - compile failed"),
        (r"\pL{40}", "pattern too large - compile failed"),
        ("a" * (LONGEST + 1), f"longer than {LONGEST} bytes"),
    ],
)
def test_what_is_no_expression_is_named_and_stands_for_nothing(expression: str, problem: str) -> None:
    found = problem_of(expression)
    assert found is not None and found.startswith(problem), found
    assert matching([expression], NAMES) == {expression: []}


def test_an_expression_that_others_would_think_about_for_ever() -> None:
    """`re` needs a time that doubles with each letter."""
    assert matching(["(a|aa)+$"], ["a" * 200 + "b", "a" * 200]) == {"(a|aa)+$": ["a" * 200]}


def test_the_library_says_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    """A client could fill the log."""
    assert problem_of("(") is not None
    assert capfd.readouterr() == ("", "")


class _Shards:
    """Coordinators that take down what they are told."""

    def __init__(self, refusal: ErrorCode | None = None) -> None:
        self.told: list[tuple[str, object]] = []
        self._refusal = refusal

    async def ask(self, group_id: str, operation: Callable[[Any, Any, int], Any]) -> None:
        self.told.append((group_id, operation(self, None, 0)))
        if self._refusal is not None:
            raise CoordinatorError(self._refusal)

    def expressions_resolved(self, asked: Resolution, found: object, ticket: object, now_ms: int) -> object:
        return asked, found


ASKED = Resolution("g", ("o.*", "s.*"), 3, 4, 5)


def _resolved(folder: Path, shards: _Shards, may_see: Callable[[str], bool]) -> list[BaseException | None]:
    """Begin, wait for the end, and say what was raised."""

    async def run() -> list[BaseException | None]:
        files = LocalFiles(str(folder))
        environment = RealEnvironment(files)
        tasks: list[asyncio.Task[None]] = []

        def own(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            tasks.append(asyncio.ensure_future(work))
            return tasks[-1]

        topics = SimpleNamespace(all=lambda: [SimpleNamespace(name=name) for name in NAMES])
        try:
            ExpressionResolver(shards, topics, environment, own).begin(ASKED, may_see)  # type: ignore[arg-type]
            await asyncio.wait(tasks)
        finally:
            environment.close()
            files.close()
        return [task.exception() for task in tasks]

    return asyncio.run(run())


def test_only_topics_that_the_one_who_asked_may_see_are_found(tmp_path: Path) -> None:
    shards = _Shards()
    assert _resolved(tmp_path, shards, lambda name: name != "orders-1") == [None]
    found = {"o.*": frozenset({"orders"}), "s.*": frozenset({"stock"})}
    assert shards.told == [("g", (ASKED, found))]


def test_a_coordinator_is_told_that_nothing_could_be_found_out(tmp_path: Path) -> None:
    def raises(name: str) -> bool:
        raise LookupError

    shards = _Shards()
    (error,) = _resolved(tmp_path, shards, raises)
    assert isinstance(error, LookupError)
    assert shards.told == [("g", (ASKED, None))]


def test_a_coordinator_that_is_not_there_any_more_has_forgotten_that_it_asked(tmp_path: Path) -> None:
    shards = _Shards(ErrorCode.NOT_COORDINATOR)
    assert _resolved(tmp_path, shards, lambda name: True) == [None]
    assert len(shards.told) == 1


def test_a_coordinator_whose_log_does_not_take_what_was_found_is_told_to_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """More topics match than one batch takes."""
    shards = _Shards(ErrorCode.UNKNOWN_SERVER_ERROR)
    with caplog.at_level(logging.WARNING):
        assert _resolved(tmp_path, shards, lambda name: name != "stock") == [None]
    found = {"o.*": frozenset({"orders", "orders-1"}), "s.*": frozenset()}
    assert shards.told == [("g", (ASKED, found)), ("g", (ASKED, None))]
    assert caplog.messages == ["topics of regular expressions fit into no record"]
