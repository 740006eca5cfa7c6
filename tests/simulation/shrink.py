"""From a plan that fails to the smallest one that fails the same way: fewer clients, fewer faults, calmer weather."""

from collections.abc import Iterator
from dataclasses import replace

from tests.harness.network import NetworkFaults
from tests.simulation.plan import Plan
from tests.simulation.simulation import Result, run

ATTEMPTS = 120


def kind_of(result: Result) -> str:
    """What is kept while shrinking: the name of the first wrong."""
    return result.violations[0].split(":")[0][:60] if result.violations else ""


def shrink(plan: Plan, result: Result) -> tuple[Plan, Result]:
    """The smallest plan found, and what its run gave."""
    wanted = kind_of(result)
    attempts = ATTEMPTS
    progress = True
    while progress and attempts > 0:
        progress = False
        for smaller in _smaller(plan):
            attempts -= 1
            if attempts < 0:
                break
            found = run(smaller)
            if kind_of(found) == wanted:
                plan, result, progress = smaller, found, True
                break
    return plan, result


def _smaller(plan: Plan) -> Iterator[Plan]:
    for index in reversed(range(len(plan.clients))):
        yield plan.without_client(index)
    for index in reversed(range(len(plan.faults))):
        yield plan.without_fault(index)
    for index in reversed(range(len(plan.silence.ends) if plan.silence else 0)):
        assert plan.silence is not None
        yield replace(plan, silence=plan.silence.without_end(index))
    if plan.duration_s > 0.25:
        yield replace(plan, duration_s=plan.duration_s / 2)
    if plan.final:
        yield replace(plan, final="")
    calmer: tuple[Plan, ...] = (
        replace(plan, record_bytes=0),
        replace(plan, twins=0.0),
        replace(plan, threads=0),
        replace(plan, silence=None),
        replace(plan, wide=None if plan.wide is None else replace(plan.wide, topics=1, partitions=plan.wide.used)),
        replace(plan, repeat=0.0),
    )
    yield from (one for one in calmer if one != plan)
    if plan.network != (calm := NetworkFaults(delay_s=plan.network.delay_s)):
        yield replace(plan, network=calm)
    if plan.partitions > 1:
        yield replace(plan, partitions=1)
    if plan.internal_partitions > 1:
        yield replace(plan, internal_partitions=1)
    if plan.slow_disk or plan.any_subset:
        yield replace(plan, slow_disk=0.0, any_subset=False)
    for index in range(len(plan.settings)):
        yield replace(plan, settings=plan.settings[:index] + plan.settings[index + 1 :])
