"""A chaos run over several nodes: the workers, histories and checkers of `tests.chaos.run`, other troubles.

Clients stand still for good where a node of several goes at the wrong moment: calls outlive their own timeouts, threads
die of exceptions of their library. One that was silent for long is killed, as its user would do, and another takes its
place; that one has to get on, or the brokers are to blame. How often it happened is in the report.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path

from tallystick.client.client import Client
from tests.chaos.cluster.brokers import FOLDER, Brokers
from tests.chaos.cluster.bucket import wait_until_it_holds_what_is_named
from tests.chaos.cluster.database import SCHEMA
from tests.chaos.cluster.trouble import Troubles
from tests.chaos.look import until_nothing_is_open, verdict
from tests.chaos.recording import Loaded
from tests.chaos.run import SETTINGS, Chaos, Report, Trouble, offsets_of_the_last
from tests.histories.checker import Verdict
from tests.histories.operation import Operation

FENCED = re.compile(r"stopped, because storage failed: incarnation \d+ of node \d+ is over\s*$")
A_BUG = "Traceback (most recent call last)"
SILENT_S = 75.0
"""Longer than any trouble lasts, and than a client may take to find its way again."""


class ClusterChaos(Chaos):
    """One run in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        has_bucket: bool = False,
        in_namespaces: bool = False,
        settings: Mapping[str, str] = SETTINGS,
    ) -> None:
        super().__init__(folder, seed=seed, settings={})
        self.broker: Brokers = Brokers(  # type: ignore[assignment]
            folder, settings, has_bucket=has_bucket, in_namespaces=in_namespaces
        )
        self._troubles = Troubles(self.broker, seed)
        self._members: list[dict[str, str]] = []

    def befall(self, seconds: float, members: list[dict[str, str]]) -> Report:
        self._members = members
        return self.run(seconds, members, self._troubles)

    def end(self, nemesis: Trouble) -> None:
        """What is not to be in the bucket is removed from it before everything is read. A machine with much to do may
        have kept a node silent for its session; it is asked like the others."""
        super().end(nemesis)
        ended = [one.process.log_end() for one in self.broker.nodes if not one.process.running]
        self.violations += [f"a node ended though everything healed: {log}" for log in ended if not FENCED.search(log)]
        self._troubles.done.update(["fenced after everything healed"] * len(ended))
        self.broker.start()
        if self.broker.bucket is not None:
            wait_until_it_holds_what_is_named(self.broker.bucket, FOLDER, self.broker.database, SCHEMA)

    def _is_over(self, worker: str) -> bool:
        if super()._is_over(worker):
            return True
        is_silent = "-reader-" not in worker and time.time() - self._last_word(worker) > SILENT_S
        if is_silent:
            self._give_up(worker)
        return is_silent

    def _last_word(self, worker: str) -> float:
        """Or when it was hired, of one that has said nothing yet."""
        words, log = self.history_folder / f"{worker}.jsonl", self.folder / f"{worker}.log"
        return (words if words.exists() else log).stat().st_mtime

    def _give_up(self, worker: str) -> None:
        self.workers[worker].kill()
        self.workers[worker].wait()
        self.killed.add(worker)
        self._troubles.done[f"a client stood still: {worker.rpartition('-')[0]}"] += 1

    def _stuck(self) -> list[str]:
        """What is left of those whose successors do not get on either."""
        stuck = super()._stuck()
        if not stuck:
            return []
        for worker in stuck:
            self._give_up(worker)
        (self.history_folder / "stop").unlink()
        places = {name: place for place, name in self.at_work.items()}
        free = [places[worker] for worker in stuck if worker in places]  # others have a successor already
        for place in free:
            self._hire(place, self._members[place])
        self._wait_until_they_work([self.at_work[place] for place in free])
        return super()._stuck()

    def judge(self, loaded: Loaded, operations: Verdict) -> list[str]:
        found = [*verdict(loaded.history), *operations.sentences(), *offsets_of_the_last(loaded)]
        for name, log in self.broker.logs():
            if "belongs to nobody" in log:
                found.append(f"{name} found a transaction that belongs to nobody (I50)")
            if A_BUG in log:
                found.append(f"{name} logged what nobody expected: …{log[log.index(A_BUG) :][:2000]}")
        return found

    async def _look(self, loaded: Loaded) -> list[Operation]:
        """Each node tells of the transactions that it coordinates."""
        for one in self.broker.nodes:
            client = await Client.connect(one.bootstrap)
            try:
                await until_nothing_is_open(client, loaded.history)
            finally:
                await client.close()
        return await super()._look(loaded)
