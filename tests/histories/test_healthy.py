"""Nothing is found in the history of clients that Kafka treated well, however their steps interleave."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.histories.checker import check
from tests.histories.model import Model
from tests.histories.operation import operation


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=0), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.integers(0, 400))
def test_a_healthy_history_shows_no_anomaly(
    seed: int, partitions: int, transactional: int, plain: int, steps: int
) -> None:
    model = Model(Random(seed), partitions=partitions, transactional=transactional, plain=plain)
    verdict = check(model.run(steps))
    assert verdict.wrong == {}, str(verdict)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(0, 60))
def test_a_short_healthy_history_shows_no_anomaly(random: Random, steps: int) -> None:
    """Drawn choice by choice, so that a failure is shrunk."""
    verdict = check(Model(random, partitions=2, transactional=2).run(steps))
    assert verdict.wrong == {}, str(verdict)


def test_a_long_history_has_all_that_there_is_to_be_judged() -> None:
    """In particular the cycles that Kafka allows, and outcomes of every kind."""
    verdict = check(Model(Random(1)).run(20_000))
    assert verdict.wrong == {}, str(verdict)
    assert set(verdict.transactions) == {"ok", "fail", "info"}
    assert set(verdict.allowed) == {"G0", "G1c with ww", "G-single or G2"}
    assert verdict.shown > verdict.records > 1000


def test_a_history_outlives_its_lines() -> None:
    """What is written down is read as it was, and judged alike whatever the order of lines."""
    operations = Model(Random(2)).run(2_000)
    again = [operation(one.line()) for one in operations]
    assert again == operations
    assert str(check(reversed(again))) == str(check(operations))
