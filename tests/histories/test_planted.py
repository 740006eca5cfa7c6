"""Every class of anomaly is found where a healthy history is made to tell of it, and nothing that Kafka allows is."""

import re
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from tests.histories import checker, cycles, offsets, polls
from tests.histories.__main__ import judged
from tests.histories.alterations import ALTERATIONS, Alteration
from tests.histories.checker import check
from tests.histories.components import components, cycle_through
from tests.histories.model import Model
from tests.histories.operation import INFO, OK, TXN, Operation, Poll, Send, write_history

CASES = [(kind, alteration) for kind, alterations in ALTERATIONS.items() for alteration in alterations]
SEEDS = (5, 6, 7)


@pytest.mark.parametrize(("kind", "alteration"), CASES, ids=[f"{kind}: {one.__name__}" for kind, one in CASES])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_anomaly_is_found(seed: int, kind: str, alteration: Alteration) -> None:
    operations = Model(Random(seed), partitions=2).run(3_000)
    assert check(operations).wrong == {}
    alteration(operations)
    assert kind in check(operations).wrong


def test_every_class_is_planted() -> None:
    named = {getattr(polls, name) for name in ("NONMONOTONIC", "REPEATED", "SKIPPED", "INTERMEDIATE", "TORN")}
    named |= set(re.findall(r'yield "([^"]+)",', Path(offsets.__file__).read_text() + Path(polls.__file__).read_text()))
    assert set(ALTERATIONS) == {*checker.CHECKS, *cycles.EXCLUDED, *named}


def of_two(sent: Iterable[tuple[int, str, int]], polled: Iterable[tuple[int, str, int]] = ()) -> list[Operation]:
    """Two transactions at the same time. (which, topic, offset) of what each sent, and of what each was shown."""
    both = [Operation(f"p{number}", TXN, 0, 100, OK, f"p{number}", 50 + number) for number in range(2)]
    values = {}
    for value, (number, topic, offset) in enumerate(sent):
        both[number].sends.append(Send((topic, 0), value, offset))
        values[topic, offset] = value
    for number, topic, offset in polled:
        both[number].polls.append(Poll(60, 70, [((topic, 0), offset, values[topic, offset])]))
    return both


@pytest.mark.parametrize(
    ("kind", "sent", "polled"),
    [
        ("G0", [(0, "a", 0), (1, "a", 1), (1, "b", 0), (0, "b", 1)], []),
        ("G1c with ww", [(0, "a", 0), (1, "a", 1), (1, "b", 0)], [(0, "b", 0)]),
        ("G-single or G2", [(0, "a", 0), (1, "a", 1), (1, "b", 0), (0, "b", 1)], [(0, "a", 0), (1, "a", 0)]),
    ],
)
def test_cycles_that_kafka_allows_are_counted_only(
    kind: str, sent: list[tuple[int, str, int]], polled: list[tuple[int, str, int]]
) -> None:
    verdict = check(of_two(sent, polled))
    assert kind in verdict.allowed
    assert not any(name.startswith("G1c") for name in verdict.wrong)


def test_a_rebalance_explains_what_else_were_an_anomaly() -> None:
    """A position that was set is where a reader goes on; without it the same polls are out of order."""
    operations = Model(Random(5), partitions=2).run(3_000)
    sets = [one for one in operations if one.kind == "assign" and one.process.startswith("writer")]
    assert check(one for one in operations if one not in sets).wrong.keys() & {"repeated poll", "nonmonotonic poll"}
    for one in sets:
        one.positions = dict.fromkeys(one.positions)
    assert check(operations).wrong == {}


def test_an_unknown_outcome_becomes_known_by_what_was_shown() -> None:
    """Of a commit that was not answered all or nothing is there; a part is torn."""
    sent = [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 2), (1, "b", 1)]
    for shown, wrong in (
        ([(1, "a", 2), (1, "b", 1)], set()),
        ([(1, "a", 0), (1, "a", 1), (1, "a", 2), (1, "b", 0), (1, "b", 1)], set()),
        ([(1, "a", 0), (1, "a", 1), (1, "a", 2), (1, "b", 1)], {"lost write", "skipped poll", "torn transaction"}),
    ):
        unknown, reader = of_two(sent, shown)
        unknown.outcome, unknown.completed = INFO, None
        polls_alone = Operation("r", "poll", 60, 70, polls=reader.polls)
        start = Operation("r", "assign", 0, 0, positions={("a", 0): 0, ("b", 0): 0})
        reader.polls, reader.decided = [], 55
        assert check([unknown, reader, start, polls_alone]).wrong.keys() == wrong


def test_components_are_those_of_reachability() -> None:
    """Held against the plain definition, on graphs by chance."""
    for seed in range(200):
        random = Random(seed)
        size = random.randrange(1, 9)
        edges = [[random.randrange(size) for _ in range(random.randrange(3))] for _ in range(size)]
        reached = [_reached(edges, node) for node in range(size)]
        together = {
            frozenset(other for other in range(size) if other in reached[node] and node in reached[other])
            for node in range(size)
        }
        found = components(edges)
        assert {frozenset(one) for one in found} == {one for one in together if len(one) > 1}
        for one in found:
            cycle = cycle_through(edges, one)
            assert all(after in edges[before] for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def _reached(edges: list[list[int]], start: int) -> set[int]:
    found, waiting = set(), [start]
    while waiting:
        new = set(edges[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def test_a_long_chain_needs_no_recursion() -> None:
    size = 100_000
    assert components([[node + 1] for node in range(size - 1)] + [[]]) == []
    assert len(components([[(node + 1) % size] for node in range(size)])[0]) == size


def test_the_command_judges_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operations = Model(Random(5)).run(500)
    write_history(tmp_path / "healthy", operations)
    ALTERATIONS["hanging transaction"][0](operations)
    write_history(tmp_path / "hanging", operations)
    assert judged([tmp_path / "healthy"]) is True
    assert "no anomaly" in capsys.readouterr().out
    assert judged([tmp_path / "hanging"]) is False
    assert "hanging transaction: the last stable offset of t-0" in capsys.readouterr().out
