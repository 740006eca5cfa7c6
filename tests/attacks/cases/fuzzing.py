"""The fuzz as an attack among the others, with the honest client beside it."""

from collections.abc import Callable

from tests.attacks.fuzz import deliver, made_world, plan_of
from tests.attacks.registry import case
from tests.attacks.trial import Trial
from tests.attacks.wire import Link


@case(short={"first": 0, "seeds": 500}, long={"first": 500, "seeds": 20_000}, kept_mb=96)
def fuzz(trial: Trial, *, first: int, seeds: int) -> None:
    """Requests of every API and version with lies in their structure, cut, crowded and left unread."""
    fuzzed(trial, first, seeds)


def fuzzed(
    trial: Trial, first: int, seeds: int, bootstrap: str = "", greet: Callable[[Link], None] = lambda link: None
) -> None:
    world = made_world(trial.bootstrap)
    tracebacks = trial.tracebacks()
    for seed in range(first, first + seeds):
        plan = plan_of(seed, world)
        try:
            deliver(plan, bootstrap or trial.bootstrap, greet)
        except AssertionError as error:
            trial.require(False, f"{plan}: {error}")
        except OSError as error:
            trial.require(False, f"{plan} or one before it: no connection, {error}")
            return
        if trial.tracebacks() > tracebacks:
            trial.require(False, f"{plan} or one before it: {trial.last_traceback()}")
            tracebacks = trial.tracebacks()
