"""How long members of consumer and streams groups take for their own what they were given."""

from dataclasses import replace

import pytest

from tests.harness.network import NetworkFaults
from tests.simulation.plan import draw
from tests.simulation.shape import ClientPlan, FaultPlan, Plan
from tests.simulation.simulation import run

SESSION_MS = 600


def calm(seed: int, kind: str, **settings: str) -> Plan:
    """Three members, and nothing else."""
    members = tuple(
        ClientPlan(kind, f"{kind}{number}", 10 * seed + number, options=(("process", 0),)) for number in range(3)
    )
    plan = Plan(seed, 2.0, 6000, 0.001, NetworkFaults(delay_s=0.001), "", partitions=3, clients=members)
    return replace(plan, settings=tuple(settings.items()))


@pytest.mark.parametrize(
    ("rate", "drifts", "expected_s"),
    [(1.0, (), 0.57), (0.5, (), 0.57), (3.0, (), 0.19), (1.0, (0.1, 5.0), 0.114), (3.0, (1.1,), 0.19)],
)
def test_the_fastest_clock_says_when_a_session_may_be_over(
    rate: float, drifts: tuple[float, ...], expected_s: float
) -> None:
    faults = (FaultPlan("clock", 0.1, amount=3600.0), *(FaultPlan("drift", 0.1, amount=drift) for drift in drifts))
    plan = replace(calm(0, "streams"), clock_rate=rate, faults=faults)
    assert plan.session_s(SESSION_MS) == pytest.approx(expected_s)


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_broker_that_ends_sessions_early_is_noticed(kind: str) -> None:
    """KIP-848, KIP-1071: what a member was given is another's when its session is over, and not before. Here the broker
    is told a third less than what the members reckon with."""
    early = {f"group.{kind}.session.timeout.ms": "400"}
    assert [run(calm(seed, kind)).violations for seed in range(8)] == [[]] * 8
    found = [text for seed in range(8) for text in run(calm(seed, kind, **early)).violations]
    assert found
    assert all(text.startswith("owned at once") for text in found), found


def test_a_seed_whose_clock_goes_five_times_as_fast() -> None:
    """The run that showed it: a member that sleeps is out after 120 ms, by the clock of the others."""
    assert run(draw(30000499)).violations == []
