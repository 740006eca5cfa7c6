"""What the values of all rounds say: medians, ours beside a rival's, and what became of a goal."""

import statistics
from typing import NamedTuple

from tests.benchmarks.rows import Goal

Measured = dict[str, dict[str, dict[str, list[float]]]]
"""row title → target → figure → the values of all rounds"""


class Standing(NamedTuple):
    """A ratio of medians (for a goal that is a number: a median), and the same of each round."""

    median: float
    rounds: tuple[float, ...]


class Verdict(NamedTuple):
    """How a goal stands, and whether it is reached: a lucky median is not enough, two of three rounds are."""

    standing: Standing
    rounds_reached: int
    is_reached: bool


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def values(rows: Measured, title: str, target: str, figure: str) -> list[float]:
    return rows.get(title, {}).get(target, {}).get(figure, [])


def median(rows: Measured, title: str, target: str, figure: str) -> float | None:
    found = values(rows, title, target, figure)
    return statistics.median(found) if found else None


def compared(rows: Measured, title: str, figure: str, ours: str, rival: str | None) -> Standing | None:
    """Round i of ours beside round i of the rival, which ran one after the other; None where one was not measured, or
    there is nothing to divide by."""
    mine = values(rows, title, ours, figure)
    theirs = [1.0] * len(mine) if rival is None else values(rows, title, rival, figure)
    if not mine or not theirs or not statistics.median(theirs):
        return None
    rounds = tuple(one / other for one, other in zip(mine, theirs, strict=False) if other)
    return Standing(statistics.median(mine) / statistics.median(theirs), rounds)


def verdict(rows: Measured, title: str, goal: Goal) -> Verdict | None:
    """None where it was not measured."""
    standing = compared(rows, title, goal.figure, goal.mode, goal.rival)
    if standing is None:
        return None
    met = sum(goal.is_met_by(ratio) for ratio in standing.rounds)
    return Verdict(standing, met, goal.is_met_by(standing.median) and 3 * met >= 2 * len(standing.rounds))
