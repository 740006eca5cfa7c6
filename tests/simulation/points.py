"""The fault points of the broker in a run (`broker.faults`), struck as the plan says: what "crash" and "freeze" mean to
a process that is simulated.

What is armed and has not struck when a process dies is armed in the next one: some points are passed at the start only.
"""

from collections.abc import Callable

from broker.faults.control import Fault, Faults
from broker.faults.points import Action
from tests.harness.loop import ProcessDied
from tests.simulation.broker_process import BrokerProcess
from tests.simulation.shape import FaultPlan
from tests.simulation.world import World


class Points:
    """See the head of this file."""

    def __init__(self, world: World, broker: BrokerProcess, die: Callable[[FaultPlan], None]) -> None:
        self._world = world
        self._broker = broker
        self._die = die
        self._to_strike: dict[str, FaultPlan] = {}
        """By name of the point."""
        self._last: dict[str, FaultPlan] = {}

    def put_in(self) -> None:
        """From its next start on the broker has them."""
        self._broker.make_faults = self._made

    def end(self) -> None:
        """Nothing strikes any more."""
        self._to_strike.clear()
        for faults in self._world.points[-1:]:
            faults.disarm()

    def arm(self, fault: FaultPlan) -> None:
        name = fault.operation.partition("=")[0]
        self._to_strike[name] = self._last[name] = fault
        if self._broker.alive and self._world.points:
            self._world.points[-1].arm(fault.operation)

    def _made(self) -> Faults:
        faults = CountedFaults(self)
        for fault in self._to_strike.values():
            faults.arm(fault.operation)
        self._world.points.append(faults)
        return faults

    def struck(self, name: str, action: Action) -> None:
        self._world.hit(f"struck.{name}")
        self._world.hit(f"fault.at-a-point.{action.value}")
        self._to_strike.pop(name, None)

    # -- what it means ---------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        self._die(self._last[name])
        raise ProcessDied

    def stand_still(self, seconds: float) -> None:
        loop = self._broker.loop
        assert loop is not None
        loop.stand_still(seconds)

    def freeze(self, name: str) -> None:
        self.stand_still(self._last[name].amount)


class CountedFaults(Faults):
    """Fault points that record which of them struck; the victim is the simulated process."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._passing = ""
        super().__init__(self)

    def reach(self, name: str, *, waits: bool = False, topic: str = "", partition: int = -1) -> Fault | None:
        self._passing = name
        struck = super().reach(name, waits=waits, topic=topic, partition=partition)
        if struck is not None:
            self._points.struck(name, struck.action)
        return struck

    # -- broker.faults.control.Victim ------------------------------------------------------------------------

    def crash(self) -> None:
        self._points.struck(self._passing, Action.CRASH)
        self._points.crash(self._passing)

    def freeze(self) -> None:
        self._points.struck(self._passing, Action.FREEZE)
        self._points.freeze(self._passing)

    def stand_still(self, milliseconds: int) -> None:
        self._points.struck(self._passing, Action.DELAY)
        self._points.stand_still(milliseconds / 1000)
