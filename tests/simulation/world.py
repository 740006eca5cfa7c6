"""What the clients of a run share: the loop they live on, the network, the history, and whether to finish."""

from random import Random
from typing import TYPE_CHECKING

from broker.faults.control import Faults
from tests.harness.loop import ProcessLoop, Scheduler
from tests.harness.network import Network
from tests.simulation.history import History
from tests.simulation.shape import Plan

if TYPE_CHECKING:
    from tests.simulation.broker_process import BrokerProcess


class World:
    """See the head of this file."""

    def __init__(self, plan: Plan, scheduler: Scheduler, loop: ProcessLoop, network: Network) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.loop = loop
        self.network = network
        self.history = History()
        self.history.forgets_producers_ms = plan.forgets_producers_ms
        self.history.forgets_offsets = plan.forgets_offsets
        self.history.loses = plan.loses
        self.history.record_bytes = plan.record_bytes if plan.segment_bytes >= 1 << 20 else 0
        self.history.trace.now = lambda: scheduler.now
        self.history.circumstances = plan.circumstances
        sharers = [one for one in plan.clients if one.kind == "sharer"]
        if sharers:
            self.history.shares = "committed" if sharers[0].option("committed") else "everything"
        self.closing = False
        """Faults are over: bring what was begun to an end."""
        self.operations = 0
        self.hits: dict[str, int] = {}
        self.random = Random(plan.seed + 1)
        self.twin_random = Random(f"twins of {plan.seed}")
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.ports: dict[int, int] = {}
        """Where each node is reached, where there are several."""
        self.beside: list[BrokerProcess] = []
        """The nodes beside the first one."""
        self.points: list[Faults] = []
        """The fault points of each process of the broker, where it has any."""

    def hit(self, name: str) -> None:
        """A state or fault that a run is meant to reach was reached."""
        self.hits[name] = self.hits.get(name, 0) + 1

    def count_points(self) -> None:
        """Which fault points were passed, by all processes together."""
        for points in self.points:
            for name, count in points.hits.items():
                self.hits[f"passed.{name}"] = self.hits.get(f"passed.{name}", 0) + count
