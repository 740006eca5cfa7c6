"""A sender of Spark's tasks that tells when it has a turn: there a test kills, freezes or loses it."""

from collections.abc import Callable

from spark_connector.sink.turn_sender import TurnSender
from tallystick.client.sender import Queued, Sender


class SteppingSender(TurnSender):
    """The steps with a turn, in the thread of the connections: what dies or stays there has the turn."""

    reach: Callable[[str], None]

    async def _write(self, heads: list[Queued]) -> None:
        self.reach("taken")
        await super()._write(heads)
        self.reach("answered")


def stepping(made: Sender, reach: Callable[[str], None]) -> SteppingSender:
    """The same sender, with steps."""
    assert isinstance(made, TurnSender)
    made.__class__ = SteppingSender
    assert isinstance(made, SteppingSender)
    made.reach = reach
    return made
