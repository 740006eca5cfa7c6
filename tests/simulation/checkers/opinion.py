"""Every response is one that the model of `tests.opinion` allows."""

from collections.abc import Iterator

from tests.opinion.judge import judge
from tests.simulation.history import History


def objections(history: History) -> Iterator[str]:
    """What a second opinion says of the requests and responses of all clients."""
    for objection in judge(history.trace, history.circumstances):
        yield str(objection)
