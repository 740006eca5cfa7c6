"""What grows old in a silence is forgotten in its time, over restarts of each kind, and defects there are noticed."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from tests.harness.environment import WallClock
from tests.harness.loop import Scheduler
from tests.harness.network import NetworkFaults
from tests.mutants.tables import MUTANTS
from tests.simulation.checkers.writes import duplicated
from tests.simulation.history import FinalPartition, Forgetting, History, Write
from tests.simulation.plan import draw
from tests.simulation.plan_silence import draw_silence
from tests.simulation.shape import Plan, SilencePlan
from tests.simulation.silence import SILENT, age_of_producer_ms
from tests.simulation.simulation import Result, run

SEEDS = range(25)
DEFECTS = (
    "a producer is young again after every start",
    "an orderly end writes no ages down",
    "a snapshot forgets producers at half their time",
    "an id that was only claimed stays for ever",
)


def drawn(seed: int) -> SilencePlan:
    """A silence of its own for each seed."""
    random = Random(f"test {seed}")
    while (silence := draw_silence(random, page_cache=False)) is None:
        pass
    return silence


def calm(seed: int) -> Result:
    """Nothing but a silence."""
    plan = Plan(seed, 0.01, 6000, 0.001, NetworkFaults(delay_s=0.001), "", partitions=2, silence=drawn(seed))
    return run(plan)


def test_each_thing_is_forgotten_in_its_time_and_not_before() -> None:
    """I18, I33, I40: whatever ends of the broker there are before, in and behind the silence."""
    seen: set[str] = set()
    for seed in SEEDS:
        result = calm(seed)
        assert result.violations == [], seed
        seen.update(result.hits)
    assert {f"silence.{what}" for what in SILENT} <= seen


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_noticed(name: str) -> None:
    with MUTANTS[name].planted():
        assert any(calm(seed).violations for seed in SEEDS)


SENT_S, SET_S, SILENT_S, CAME_S = 1000.4, 1000.8, 1001.0, 1001.5
HOUR_MS = 3_600_000


class LateCopy:
    """A batch that stands twice, for a copy of it came in a silence, a second after the first; the clock of the broker
    was set an hour forward in between."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.clock = WallClock(self.scheduler)
        self.history = History()
        self.write = self.record(SENT_S)
        self.write.last_sent_s, self.write.sends = CAME_S, 2
        copies = [(offset, self.write.number) for offset in range(2)]
        self.history.final["a", 0] = FinalPartition(0, 2, 2, copies, copies)
        self.history.silence = Forgetting(SILENT_S, 30_000, partial(age_of_producer_ms, self.clock))
        self.sets(HOUR_MS)

    def record(self, sent_s: float) -> Write:
        write = self.history.write("producer", ("a", 0), producer=(7, 0), sequence=0)
        write.first_sent_s, write.acked = sent_s, True
        return write

    def sets(self, by_ms: int, at_s: float = SET_S) -> None:
        self.scheduler.now = at_s
        self.clock.step(by_ms)


def _nobody_set_the_clock(story: LateCopy) -> None:
    story.sets(-HOUR_MS)


def _it_had_been_set_before(story: LateCopy) -> None:
    story.write.first_sent_s = SET_S + 0.1


def _the_producer_went_on(story: LateCopy) -> None:
    story.record(SET_S + 0.1)


def _it_was_behind_and_is_right_again(story: LateCopy) -> None:
    """What the batch says of the time counts as seen, too."""
    story.clock = WallClock(story.scheduler)
    story.sets(-HOUR_MS, SENT_S - 0.1)
    story.sets(HOUR_MS)
    story.history.silence = Forgetting(SILENT_S, 30_000, partial(age_of_producer_ms, story.clock))


def _before_the_silence(story: LateCopy) -> None:
    story.write.last_sent_s = SILENT_S - 0.05


def _more_often_than_it_was_sent(story: LateCopy) -> None:
    story.write.sends = 1


@pytest.mark.parametrize(
    "otherwise",
    [
        _nobody_set_the_clock,
        _it_had_been_set_before,
        _the_producer_went_on,
        _it_was_behind_and_is_right_again,
        _before_the_silence,
        _more_often_than_it_was_sent,
    ],
    ids=lambda one: one.__name__.strip("_"),
)
def test_a_late_copy_stands_only_where_its_producer_was_forgotten(otherwise: Callable[[LateCopy], None]) -> None:
    """I21: a broker whose clock was set an hour forward, and that came back with an age of half a minute, has forgotten
    the producer; else the batch stands once."""
    story = LateCopy()
    assert list(duplicated(story.history)) == []
    otherwise(story)
    assert list(duplicated(story.history))


def test_what_a_producer_sent_in_vain_makes_it_no_younger() -> None:
    story = LateCopy()
    story.record(SET_S + 0.1).acked = False
    assert list(duplicated(story.history)) == []


def test_a_seed_with_a_late_copy_behind_a_clock_that_was_set() -> None:
    """The run that showed it."""
    assert run(draw(30001070)).violations == []
