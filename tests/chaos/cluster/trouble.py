"""What befalls several nodes, their database, and their bucket.

Nodes are killed, stopped, crashed by armed faults, frozen, cut off from everybody, from the database or from the
bucket, and their clocks are set forward. In a network they are cut off from one other node or from everything, or
vanish with their machine, and nobody is told. The database loses connections, stands still, crashes, and fails over.
The bucket stands still, and is killed.
"""

import random
import time
from collections import Counter
from collections.abc import Callable

from broker.faults.points import POINTS
from tallystick.control import NotDone
from tallystick.process import BrokerFailed
from tests.chaos.cluster.brokers import SESSION_MS, Brokers, Node
from tests.chaos.cluster.links import Link
from tests.chaos.forked_broker import is_frozen
from tests.chaos.nemesis import COMMON, LOSSES, PASSES, REFUSALS, struck_by
from tests.shared_store.objects.s3_server import Versitygw

SHORT_S, LONG_S = 0.3, SESSION_MS / 1000 + 1.5
"""Far less, and more than a node may be silent."""
LONGER_THAN_A_WRITE_S = 17.0
"""After so long a write into a bucket is made once more, under another name."""
LONGER_THAN_SILENCE_S = 16.0
"""After so long a connection to the database that is silent is taken for lost."""
LONGER_THAN_A_REQUEST_S = 31.0
"""After so long nodes take their connections to each other for lost."""
LOOK_S = 0.02
WITH_A_MOVED_CLOCK = 0.5
"""How many lives have a clock that may be set, and with it asyncio's own loop."""
LEAPS_MS = (500, 4_000, 35_000, 90_000, 4_000_000)
"""As long as a heartbeat, a node's session, a client's transaction, a dead object, and a silent node's objects."""


class Troubles:
    """See the head of this file. One at a time; nodes that are down stay so for some of the others."""

    def __init__(self, brokers: Brokers, seed: int) -> None:
        self._brokers = brokers
        self._draw = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._whats: dict[Callable[[], None], float] = {
            self._kill: 4,
            self._stop: 2,
            self._freeze: 3,
            self._cut_off_from_all: 2,
            self._cut_off_from_database: 3,
            self._end_connections: 2,
            self._database_stands_still: 1.5,
            self._database_crashes: 1,
            self._fail_over: 2,
            self._kill_all: 0.5,
            self._set_a_clock: 1.5,
        }
        if brokers.network is not None:
            self._whats[self._cut_off_from_another] = 3
            self._whats[self._cut_off_altogether] = 3
            self._whats[self._vanish] = 3
        if (bucket := brokers.bucket) is not None:
            self._whats[self._cut_off_from_bucket] = 3
            self._whats[lambda: self._bucket_stands_still(bucket)] = 2
            self._whats[lambda: self._bucket_is_killed(bucket)] = 2

    def rage(self, until: float, healthy: Callable[[], None]) -> None:
        while time.monotonic() < until:
            healthy()
            self._start_some()
            (what,) = self._draw.choices(list(self._whats), list(self._whats.values()))
            what()
            self._live(min(until, time.monotonic() + self._draw.uniform(0.2, 3.0)))

    def heal(self) -> None:
        for one in self._brokers.nodes:
            one.mend()
            one.process.kill()
            one.process.environment.pop("TALLYSTICK_FAULTS", None)
            one.process.is_controlled = False
        self._brokers.start()

    def struck(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in self._brokers.nodes:
            if one.process.log.exists():
                found += struck_by(one.process)
        return found

    # -- nodes -------------------------------------------------------------------------------------------------

    @property
    def _running(self) -> list[Node]:
        return [one for one in self._brokers.nodes if one.process.running]

    def _start_some(self) -> None:
        for one in self._brokers.nodes:
            if not one.process.running and (self._draw.random() < 0.7 or not self._running):
                self._start(one)

    def _start(self, one: Node) -> None:
        one.process.environment["TALLYSTICK_FAULTS"] = ",".join(
            fault for fault in (self._deadly(), self._harmless()) if fault
        )
        one.process.is_controlled = self._draw.random() < WITH_A_MOVED_CLOCK
        try:
            one.start()
        except BrokerFailed as failed:
            if "a fault strikes" not in one.process.log_end():
                raise AssertionError(f"node {one.node_id} does not start: {failed}") from failed
            self.done["died while starting"] += 1

    def _deadly(self) -> str:
        drawn, passes = self._draw.random(), self._draw.choice(PASSES)
        if drawn < 0.5:
            return ""
        points = COMMON if drawn < 0.85 else list(POINTS)
        return f"{self._draw.choice(points)}=crash@{passes}"

    def _harmless(self) -> str:
        drawn, passes = self._draw.random(), self._draw.choice(PASSES)
        if drawn < 0.5:
            return ""
        if drawn < 0.7:
            return f"{self._draw.choice(('answer', 'answer', 'request'))}.{self._draw.choice(LOSSES)}=drop@{passes}"
        if drawn < 0.85:
            return f"marker.before=fail:{self._draw.choice(REFUSALS)}@{passes}x{self._draw.choice((1, 5))}"
        return f"{self._draw.choice(COMMON)}=freeze@{passes}"

    def _live(self, until: float) -> None:
        """Whoever is frozen by a fault wakes up."""
        while time.monotonic() < until:
            for one in self._running:
                if is_frozen(one.process.pid):
                    self._thaw(one, "froze at a point")
            time.sleep(LOOK_S)

    def _thaw(self, one: Node, why: str) -> None:
        self.done[why] += 1
        time.sleep(self._draw.choice((0.05, SHORT_S, LONG_S)))
        if self._draw.random() < 0.8:
            one.process.thaw()
        else:
            one.process.kill()
            self.done["SIGKILL while frozen"] += 1

    def _one(self) -> Node | None:
        return self._draw.choice(self._running) if self._running else None

    def _kill(self) -> None:
        if (one := self._one()) is not None:
            one.process.kill()
            self.done["SIGKILL"] += 1

    def _kill_all(self) -> None:
        for one in self._running:
            one.process.kill()
        self.done["SIGKILL of all"] += 1

    def _stop(self) -> None:
        """Who was fenced a moment ago, or meets a fault, does not end in order."""
        if (one := self._one()) is None:
            return
        self.done["SIGTERM"] += 1
        try:
            one.process.stop()
        except BrokerFailed:
            if not is_frozen(one.process.pid) and "a fault strikes" not in one.process.log_end():
                raise

    def _freeze(self) -> None:
        if (one := self._one()) is not None:
            one.process.freeze()
            self._thaw(one, "SIGSTOP")

    def _set_a_clock(self) -> None:
        """Forward, of one that can; with its next life it is right again, which is a step back."""
        able = [one for one in self._running if one.process.control is not None and not is_frozen(one.process.pid)]
        if not able:
            return
        one = self._draw.choice(able)
        assert one.process.control is not None
        try:
            one.process.control.ask("advance", milliseconds=self._draw.choice(LEAPS_MS))
        except NotDone:  # It froze or died in this moment, by a fault.
            return
        self.done["a clock set forward"] += 1

    # -- links -------------------------------------------------------------------------------------------------

    def _cut_off_from_all(self) -> None:
        """Clients and other nodes do not reach it; it reaches them, and the database."""
        one = self._draw.choice(self._brokers.nodes)
        self._cut_off(one.links.to_it)
        self._wait_and_mend(one, "cut off from clients and nodes")

    def _cut_off_from_database(self) -> None:
        """It is reached by clients and nodes all the time."""
        one = self._draw.choice(self._brokers.nodes)
        self._cut_off(one.links.to_database)
        self._wait_and_mend(one, "cut off from the database")

    def _cut_off_from_bucket(self) -> None:
        """It is reached by everybody, and reaches the database."""
        one = self._draw.choice(self._brokers.nodes)
        self._cut_off(one.links.to_bucket)
        self._wait_and_mend(one, "cut off from the bucket", LONGER_THAN_A_WRITE_S)

    def _cut_off_from_another(self) -> None:
        """Both are reached by clients, and reach the database."""
        one = self._draw.choice(self._brokers.nodes)
        self._cut_off([self._draw.choice(one.links.to_others)])
        self._wait_and_mend(one, "cut off from another node", LONGER_THAN_A_REQUEST_S)

    def _cut_off_altogether(self) -> None:
        """It runs, and nothing that it sends arrives, or nothing arrives there."""
        one = self._draw.choice(self._brokers.nodes)
        self._cut_off(one.links.to_all)
        self._wait_and_mend(one, "cut off from everything", LONGER_THAN_A_REQUEST_S)

    def _vanish(self) -> None:
        """A machine without power: nobody is told that its connections are over, until it is back and has none."""
        one = self._draw.choice(self._brokers.nodes)
        for way in one.links.to_all:
            way.shut()
        one.process.kill()
        self._wait_and_mend(one, "vanished", LONGER_THAN_A_REQUEST_S)

    def _cut_off(self, ways: list[Link]) -> None:
        is_shut, requests = self._draw.random() < 0.5, self._draw.random() < 0.7
        answers = not requests or self._draw.random() < 0.5
        for way in ways:
            if is_shut:
                way.shut()
            else:
                way.stand_still(requests=requests, answers=answers)

    def _wait_and_mend(self, one: Node, what: str, *longest_s: float) -> None:
        self.done[what] += 1
        silent_s = [] if self._brokers.network is None else [LONGER_THAN_SILENCE_S]
        time.sleep(self._draw.choice((SHORT_S, 1.0, LONG_S, *silent_s, *longest_s)))
        one.mend()

    # -- the bucket --------------------------------------------------------------------------------------------

    def _bucket_stands_still(self, bucket: Versitygw) -> None:
        self.done["the bucket: stood still"] += 1
        bucket.pause()
        try:
            time.sleep(self._draw.choice((SHORT_S, 1.0, LONG_S, LONGER_THAN_A_WRITE_S)))
        finally:
            bucket.resume()

    def _bucket_is_killed(self, bucket: Versitygw) -> None:
        """What is in it stays. For what was being written nobody answers, and nobody may for a while."""
        self.done["the bucket: killed"] += 1
        bucket.kill()
        time.sleep(self._draw.choice((0.0, SHORT_S, LONG_S)))
        bucket.start()

    # -- the database ------------------------------------------------------------------------------------------

    def _end_connections(self) -> None:
        self.done["the database: connections ended"] += 1
        self._brokers.database.end_some_connections(self._draw)

    def _database_stands_still(self) -> None:
        self.done["the database: stood still"] += 1
        self._brokers.database.stand_still(self._draw.choice((SHORT_S, 1.0, LONG_S)))

    def _database_crashes(self) -> None:
        self.done["the database: crashed"] += 1
        self._brokers.database.crash()

    def _fail_over(self) -> None:
        self.done["the database: failed over"] += 1
        wait_s, dark_s = self._draw.choice((0.0, SHORT_S, LONG_S)), self._draw.choice((0.0, LONGER_THAN_A_REQUEST_S))
        self._brokers.database.fail_over(wait_s, dark_s)
