"""What is done to the broker in a chaos run: one life after the other, each with its own end.

A life begins with some fault points armed (drawn from the seed; Apache Kafka has none), may be frozen for a while, and
ends by a fault of its own, by SIGKILL, or in order.
"""

import random
import time
from collections import Counter
from collections.abc import Callable

from broker.faults.points import POINTS
from tallystick.process import BrokerFailed, BrokerProcess
from tests.chaos.forked_broker import is_frozen

PASSES = (1, 2, 3, 5, 10, 30, 100, 300)
COMMON = [
    f"{family}.{moment}"
    for family in ("init", "ongoing", "produce", "offsets", "prepare", "complete")
    for moment in ("before-append", "after-append", "after-sync")
] + ["marker.before", "marker.after-append", "marker.after-sync"]
"""Points that are passed all the time under load; it is safe to freeze there."""
REFUSALS = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR")
LOSSES = ("EndTxn", "InitProducerId", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit", "Fetch", "FindCoordinator")
LOOK_S = 0.02


class Nemesis:
    """See the head of this file."""

    def __init__(
        self,
        broker: BrokerProcess,
        seed: int,
        *,
        has_faults: bool = True,
        life_s: tuple[float, float] = (0.5, 5.0),
    ) -> None:
        self.broker = broker
        self._has_faults = has_faults
        self._life_s = life_s
        self._killed = False
        """While it was frozen, in this life."""
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def rage(self, until: float, healthy: Callable[[], None]) -> None:
        """Until that moment of the monotonic clock; `healthy` raises when something beside the broker is wrong."""
        while time.monotonic() < until:
            healthy()
            if not self.broker.running and not self._begin():
                continue
            self._live(min(until, time.monotonic() + self.random.uniform(*self._life_s)))
            self._end()

    def heal(self) -> None:
        """A broker that is up and has no faults in it."""
        if self.broker.running:
            self.broker.kill()
        self.broker.environment.pop("TALLYSTICK_FAULTS", None)
        self.broker.start()

    def _begin(self) -> bool:
        self._killed = False
        if self._has_faults:
            armed = [fault for fault in (self._deadly(), self._harmless()) if fault]
            self.broker.environment["TALLYSTICK_FAULTS"] = ",".join(armed)
        try:
            self.broker.start()
        except BrokerFailed as failed:
            if "a fault strikes" not in self.broker.log_end():
                raise AssertionError(f"the broker does not start: {failed}") from failed
            self.done["died while starting"] += 1
            return False
        return True

    def _deadly(self) -> str:
        """What ends this life; often nothing."""
        drawn, passes = self.random.random(), self.random.choice(PASSES)
        if drawn < 0.25:
            return ""
        if drawn < 0.65:
            return f"{self.random.choice(COMMON)}=crash@{passes}"
        if drawn < 0.85:
            return f"{self.random.choice(list(POINTS))}=crash@{passes}"
        if drawn < 0.92:
            return f"log.before-append=fail:ENOSPC@{passes}"
        return f"log.before-sync=fail:EIO@{passes}"

    def _harmless(self) -> str:
        """What clients have to live with."""
        drawn, passes = self.random.random(), self.random.choice(PASSES)
        if drawn < 0.4:
            return ""
        if drawn < 0.55:
            return f"log.before-sync=delay:{self.random.choice((20, 200))}@{passes}x{self.random.choice((1, 20))}"
        if drawn < 0.7:
            kind = self.random.choice(("answer", "answer", "request"))
            return f"{kind}.{self.random.choice(LOSSES)}=drop@{passes}x{self.random.choice((1, 3))}"
        if drawn < 0.85:
            return f"marker.before=fail:{self.random.choice(REFUSALS)}@{passes}x{self.random.choice((1, 5))}"
        return f"{self.random.choice(COMMON)}=freeze@{passes}"

    def _live(self, until: float) -> None:
        freeze_at = time.monotonic() + self.random.uniform(0.2, 8.0)
        while self.broker.running and time.monotonic() < until:
            if self._is_frozen():
                self._thaw("froze at a point")
            elif time.monotonic() > freeze_at:
                self.broker.freeze()
                freeze_at = until
                self._thaw("SIGSTOP")
            time.sleep(LOOK_S)

    def _thaw(self, why: str) -> None:
        self.done[why] += 1
        time.sleep(self.random.choice((0.05, 0.5, 2.0)))
        if self.random.random() < 0.8:
            self.broker.thaw()
        else:
            self.broker.kill()
            self.done["SIGKILL while frozen"] += 1
            self._killed = True

    def _is_frozen(self) -> bool:
        return is_frozen(self.broker.pid)

    def _end(self) -> None:
        if not self.broker.running:
            self.done["died by a fault"] += not self._killed
        elif self._is_frozen() or self.random.random() < 0.7:
            self.broker.kill()
            self.done["SIGKILL"] += 1
        elif self.random.random() < 0.5:
            self.broker.environment["TALLYSTICK_FAULTS"] = ""
            self.done["SIGTERM"] += 1
            self._stop_in_order()

    def _stop_in_order(self) -> None:
        """A fault that is still armed may strike in the middle of it."""
        try:
            self.broker.stop()
        except BrokerFailed:
            if not self._is_frozen():
                raise
            self.broker.kill()

    def struck(self) -> Counter[str]:
        return struck_by(self.broker)


def struck_by(broker: BrokerProcess) -> Counter[str]:
    """The points at which faults struck, from the broker's log."""
    lines = broker.log.read_text(errors="replace").splitlines()
    return Counter(line.split("point=")[1].split()[0] for line in lines if "a fault strikes" in line)
