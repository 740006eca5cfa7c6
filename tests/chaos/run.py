"""A chaos run: a broker as users start it, workers with real clients, a nemesis, and a last look.

`python -m tests.chaos --minutes 10` runs both durability modes, half of the time each.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from protocol.messages.transactions import ListTransactionsRequest
from tallystick.client.client import GROUP, TRANSACTION, Client
from tallystick.process import BrokerProcess
from tests.chaos.drivers import java
from tests.chaos.look import look, verdict
from tests.chaos.nemesis import Nemesis
from tests.chaos.operations import Operations, last_look
from tests.chaos.recording import Loaded
from tests.chaos.worker import TIMEOUT_MS, Assignment
from tests.harness.jars import JarsMissing
from tests.histories.checker import Verdict, check
from tests.histories.operation import Operation, write_history

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 3
START_S, FINISH_S = 180.0, 180.0
ZOMBIES = 0.3
"""How often somebody falls asleep between two lives of the broker."""
TOPICS: Mapping[str, Mapping[str, str]] = {"transactional": {"segment.ms": "4000"}, "plain": {"segment.ms": "4000"}}
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "200000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "50000",
    "log.cleaner.backoff.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.retention.check.interval.ms": "1000",
    "group.min.session.timeout.ms": "1000",
}


@dataclass
class Report:
    """What came of a run."""

    violations: list[str]
    verdict: Verdict
    """On the history of operations; what is wrong with it is among the violations."""
    seconds: float
    faults: Counter[str]
    points: Counter[str]
    committed: Counter[str] = field(default_factory=Counter)
    records: int = 0
    shown: int = 0

    def __str__(self) -> str:
        lines = [
            f"{self.seconds:.0f} s, {self.records} records, {self.shown} shown to readers meanwhile,"
            f" committed transactions: {_counted(self.committed)}",
            f"the broker's ends: {_counted(self.faults)}",
            f"faults struck at {len(self.points)} points: {_counted(self.points)}",
        ]
        return "\n".join([*lines, self.verdict.head(), *(self.violations or ["no anomaly"])])


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


def crew(clients: Sequence[str], readers: Sequence[str]) -> list[dict[str, str]]:
    """The workers: of each client one with transactions and one without, and some readers."""
    made = []
    for client in clients:
        made.append({"kind": "transactional", "client": client, "transactional_id": client})
        made.append({"kind": "idempotent", "client": client})
    return [*made, *({"kind": "reader", "client": client} for client in readers)]


def usable_clients() -> list[str]:
    """Those that are there; Java wants a JDK and jars."""
    try:
        java.compiled()
    except JarsMissing:
        return ["librdkafka", "kafka-python", "aiokafka"]
    return ["librdkafka", "java", "kafka-python", "aiokafka"]


class Trouble(Protocol):
    """What befalls the broker."""

    @property
    def done(self) -> Counter[str]: ...

    def rage(self, until: float, healthy: Callable[[], None]) -> None:
        """Until that moment of the monotonic clock; `healthy` raises when something beside the broker is wrong."""

    def heal(self) -> None:
        """A broker that is up and has no faults in it."""

    def struck(self) -> Counter[str]:
        """The fault points at which anything happened."""


class Chaos:
    """One run in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        durability: str = "fsync",
        seed: int,
        settings: Mapping[str, str] = SETTINGS,
        topics: Mapping[str, Mapping[str, str]] = TOPICS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """`timeout_ms`: after so long a transaction is given up, by its client and by the broker."""
        self.folder = folder
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.seed = seed
        self.history_folder = folder / "history"
        self.history_folder.mkdir(parents=True)
        options = ["--durability", durability]
        options += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        self.broker = BrokerProcess(folder, options=options, start_seconds=60)
        self.random = random.Random(seed)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.at_work: dict[int, str] = {}
        """Which worker fills which place of the crew now."""
        self.asleep: subprocess.Popen[bytes] | None = None
        self.zombies = 0
        self.killed: set[str] = set()
        """Workers that a run has ended itself."""
        self.violations: list[str] = []

    def run(self, seconds: float, members: list[dict[str, str]], nemesis: Trouble | None = None) -> Report:
        began = time.monotonic()
        nemesis = nemesis or Nemesis(self.broker, self.seed)
        try:
            self.broker.start()
            asyncio.run(self._prepare())
            if any(member["client"] == "java" for member in members):
                java.compiled()  # once, for all workers
            for place, member in enumerate(members):
                self._hire(place, member)
            self.begin()
            self._wait_until_they_work(self.workers)
            nemesis.rage(time.monotonic() + seconds, lambda: self._between_lives(members))
            self.end(nemesis)
            return self._report(nemesis, time.monotonic() - began)
        finally:
            for worker in self.workers.values():
                worker.kill()
                worker.wait()
            self.broker.close()

    def begin(self) -> None:
        """Whoever else is to be at work begins."""

    def end(self, nemesis: Trouble) -> None:
        """All is well again, and everybody comes to an end."""
        nemesis.heal()
        self._dismiss()

    def judge(self, loaded: Loaded, operations: Verdict) -> list[str]:
        """What is wrong with all that was seen, and with what is there now."""
        found = [*verdict(loaded.history), *operations.sentences(), *offsets_of_the_last(loaded)]
        if "belongs to nobody" in self.broker.log.read_text(errors="replace"):
            found.append("a start found a transaction that belongs to nobody (I50)")
        return found

    async def _prepare(self) -> None:
        client = await Client.connect(self.broker.bootstrap)
        for topic, configs in self.topics.items():
            await client.create_topic(topic, PARTITIONS, dict(configs))
        await client.coordinator("any", GROUP)
        await client.coordinator("any", TRANSACTION)
        await client.close()

    def _hire(self, place: int, member: dict[str, str]) -> None:
        number = len(self.workers)
        assignment = Assignment(
            **member,
            name=f"{member['client']}-{member['kind']}-{number}",
            bootstrap=self.broker.bootstrap,
            folder=str(self.history_folder),
            number=number,
            seed=self.seed * 100 + number,
            partitions=PARTITIONS,
            timeout_ms=self.timeout_ms,
        )
        with (self.folder / f"{assignment.name}.log").open("wb") as log:
            self.workers[assignment.name] = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", json.dumps(assignment.__dict__)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        self.at_work[place] = assignment.name

    def _wait_until_they_work(self, names: Iterable[str]) -> None:
        """Clients need a while to start, a JVM most of all; it is not to be taken off the time of the run."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self._all_well()
            written = {path.stem for path in self.history_folder.glob("*.jsonl") if '"acked"' in path.read_text()}
            if all(name in written or "-reader-" in name for name in names):
                return
            time.sleep(0.05)
        raise AssertionError("the workers did not begin")

    def _between_lives(self, members: list[dict[str, str]]) -> None:
        """A worker is suspended and another takes over; the first resumes, is fenced, and ends."""
        self._all_well()
        self._wake()
        for place, member in enumerate(members):
            if self._is_over(self.at_work[place]):
                self._hire(place, member)
        if self.random.random() < ZOMBIES:
            place = self.random.choice([place for place, one in enumerate(members) if one["kind"] == "transactional"])
            self.asleep = self.workers[self.at_work[place]]
            self.asleep.send_signal(signal.SIGSTOP)
            self._hire(place, members[place])
            self.zombies += 1

    def _is_over(self, worker: str) -> bool:
        """Whether another one is to take its place."""
        return self.workers[worker].poll() is not None

    def _wake(self) -> None:
        if self.asleep is not None:
            self.asleep.send_signal(signal.SIGCONT)
            self.asleep = None

    def _all_well(self) -> None:
        for name, worker in self.workers.items():
            if worker.poll() not in (None, 0) and name not in self.killed:
                raise AssertionError(f"worker {name} failed:\n{(self.folder / f'{name}.log').read_text()[-3000:]}")

    def _dismiss(self) -> None:
        """All workers finish what they are at; one that does not is stuck, and that is a finding."""
        self._wake()
        for name in self._stuck():
            self.violations.append(f"worker {name} is stuck though everything healed")
        self._all_well_but_killed()

    def _stuck(self) -> list[str]:
        """Ask all to come to an end; those that do not are killed."""
        (self.history_folder / "stop").touch()
        deadline, stuck = time.monotonic() + FINISH_S, []
        for name, worker in self.workers.items():
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                stuck.append(name)
                worker.kill()
        return stuck

    def _all_well_but_killed(self) -> None:
        for name, worker in self.workers.items():
            if worker.wait() not in (0, -9):
                self.violations.append(
                    f"worker {name} ended with {worker.wait()}: {(self.folder / f'{name}.log').read_text()[-3000:]}"
                )

    def _report(self, nemesis: Trouble, seconds: float) -> Report:
        loaded = Loaded(self.history_folder.glob("*.jsonl"))
        operations = asyncio.run(self._look(loaded))
        history = loaded.history
        verdict_on_operations = check(operations)
        found = [*self.violations, *self.judge(loaded, verdict_on_operations)]
        report = Report(found, verdict_on_operations, seconds, nemesis.done, nemesis.struck())
        report.records = len(history.writes)
        report.shown = sum(len(reading.seen) for reading in history.readings)
        for transaction in history.transactions:
            report.committed[transaction.client.rpartition("-")[0]] += transaction.outcome is True
        report.faults["workers that woke up late"] = self.zombies
        return report

    async def _look(self, loaded: Loaded) -> list[Operation]:
        """Look at the broker as it is in the end. The history of operations, written to a file."""
        history, began = loaded.history, time.monotonic_ns()
        client = await Client.connect(self.broker.bootstrap)
        places = [(topic, index) for topic in self.topics for index in range(PARTITIONS)]
        groups = sorted({group for one in history.transactions for group, _, _ in one.offsets})
        try:
            await look(client, history, places, groups)
            answer = await client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
            assert not answer.error_code
        finally:
            await client.close()
        operations = Operations(self.history_folder.glob("*.jsonl")).all
        operations += last_look(history, began, time.monotonic_ns())
        write_history(self.folder / "operations.jsonl", operations)
        for final in history.final.values():
            final.committed[:] = _known(loaded, final.committed)
            final.everything[:] = _known(loaded, final.everything)
        return operations


def _known(loaded: Loaded, records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    unknown = [number for _, number in records if number not in loaded.index]
    if unknown:
        loaded.history.violation(f"records that nobody wrote: {unknown[:5]}")
    return [(offset, loaded.index[number]) for offset, number in records if number in loaded.index]


def offsets_of_the_last(loaded: Loaded) -> list[str]:
    """Offsets go with their transaction: a group stands where the last visible one of its worker put it (I37)."""
    history = loaded.history
    visible = {number for final in history.final.values() for _, number in final.committed}
    found = []
    for (group, topic, partition), committed in history.final_offsets.items():
        sent = [one for one in history.transactions if (group, topic, partition) in one.offsets]
        shown = [one for one in sent if any(write.number in visible for write in one.writes)]
        if shown and shown[-1].offsets[group, topic, partition] != committed:
            found.append(f"{group} stands at {committed}, its last visible transaction put it at {shown[-1].offsets}")
    return found
