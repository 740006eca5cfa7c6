"""The director: starts the writer and the workers, each a process of its own, and makes trouble for them.

Trouble comes by progress, not by the clock, so that it always hits a pipeline at work: at a fifth of the work one
worker is frozen on the brink of its commit, later another one is killed, later the broker, and then the primary of
its database where that is ours, too; at the end the frozen one wakes up in a world that has gone on without it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tallystick.demo.database import OwnDatabase
from tallystick.demo.nodes import Killable
from tallystick.demo.parts import CLIENT, FENCED_STATUS
from tallystick.demo.plan import GROUP, LEDGER_TOPIC, PARTITIONS, TRANSFERS_TOPIC, WORKERS, Settings
from tallystick.process import PACKAGES

FREEZE_AT, KILL_WORKER_AT, KILL_BROKER_AT, FAIL_OVER_AT = 0.15, 0.3, 0.45, 0.6
PATIENCE_SECONDS = 150.0


class DemoFailed(Exception):
    """The pipeline did not come to its end; the verdict would say nothing."""


class Part:
    """A writer's or worker's process, and what it has reported."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"tallystick.demo.{module}", *arguments]
        self.name = arguments[1] if len(arguments) > 1 else module
        self.facts: dict[str, object] = {}
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            command, cwd=PACKAGES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.facts.update(json.loads(line))

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return  # It has ended; its exit status says why.

    def count(self, fact: str) -> int:
        found = self.facts.get(fact, 0)
        return found if isinstance(found, int) else 0

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.running:
            self.process.kill()
        self.process.wait()
        self._listener.join()


@dataclass(slots=True)
class Progress:
    """What is shown while it runs."""

    written: int = 0
    posted: int = 0
    events: list[str] = field(default_factory=list)


class Director:
    """One run of the pipeline over a broker that serves. `broker` is None where it is not ours to kill."""

    def __init__(self, settings: Settings, broker: Killable | None, show: Callable[[Progress], None]) -> None:
        self._settings = settings
        self._broker = broker
        self._show = show
        self._progress = Progress()
        self._posted_by_ended = 0
        self._lives = 0
        self._writer: Part | None = None
        self._workers: dict[str, Part] = {}
        self._zombie: Part | None = None
        self._frozen_until = 0.0
        self.zombies_fenced = 0
        kinds = ("workers_frozen", "workers_killed", "brokers_killed", "databases_failed_over", "workers_fenced")
        self.faults = dict.fromkeys(kinds, 0)

    def run(self) -> None:
        """From empty topics to the last offset committed."""
        self._make_topics()
        self._writer = Part("writer", self._settings.to_json())
        for number in range(1, WORKERS + 1):
            self._start_worker(f"ledger-worker-{number}")
        self._until(lambda: self._share_done() >= FREEZE_AT, "work under way")
        self._freeze(self._workers["ledger-worker-1"])
        self._until(lambda: self._share_done() >= KILL_WORKER_AT, "work going on beside a frozen worker")
        self._kill_worker("ledger-worker-2")
        if self._broker is not None:
            self._until(lambda: self._share_done() >= KILL_BROKER_AT, "work going on with a new worker")
            self._kill_broker(self._broker)
            if self._broker.database is not None:
                self._until(lambda: self._share_done() >= FAIL_OVER_AT, "work going on after a broker was killed")
                self._fail_over(self._broker.database)
        self._wake_the_zombie()
        self._until(self._all_committed, "the last transfer's commit")
        for worker in self._workers.values():
            worker.say("stop")
        self._until(lambda: not any(worker.running for worker in self._workers.values()), "the workers' end")

    def close(self) -> None:
        for part in [self._writer, self._zombie, *self._workers.values()]:
            if part is not None:
                part.kill()

    def _make_topics(self) -> None:
        admin = AdminClient({**CLIENT, "bootstrap.servers": self._settings.bootstrap})
        found = admin.list_topics(timeout=30).topics
        taken = [topic for topic in (TRANSFERS_TOPIC, LEDGER_TOPIC) if topic in found]
        if taken:
            raise DemoFailed(f"the broker already has {' and '.join(taken)}; the demo wants to make them itself")
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (TRANSFERS_TOPIC, LEDGER_TOPIC)])
        for future in made.values():
            future.result(30)

    def _start_worker(self, name: str) -> Part:
        self._lives += 1
        self._workers[name] = Part("worker", self._settings.to_json(), name, str(self._lives))
        return self._workers[name]

    def _event(self, text: str) -> None:
        self._progress.events.append(text)
        self._show(self._progress)

    def _share_done(self) -> float:
        return self._posted() / self._settings.transfers

    def _posted(self) -> int:
        return self._posted_by_ended + sum(worker.count("posted") for worker in self._workers.values())

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise DemoFailed(f"waited {PATIENCE_SECONDS:.0f} s for {what}")
            self._look_after_parts()
            self._progress.posted = self._posted()
            self._progress.written = self._writer.count("written") if self._writer else 0
            self._show(self._progress)
            time.sleep(0.05)

    def _look_after_parts(self) -> None:
        """A part that ended by itself: fenced workers are replaced, anything else ends the run."""
        if self._writer is not None and self._writer.process.poll() not in (None, 0):
            raise DemoFailed(f"the writer ended with status {self._writer.process.returncode}")
        for name, worker in list(self._workers.items()):
            status = worker.process.poll()
            if status in (None, 0):
                continue
            if status != FENCED_STATUS:
                raise DemoFailed(f"{name} ended with status {status}")
            self.faults["workers_fenced"] += 1
            self._retire(worker)
            self._start_worker(name)

    def _retire(self, worker: Part) -> None:
        worker.kill()
        self._posted_by_ended += worker.count("posted")

    def _freeze(self, worker: Part) -> None:
        worker.say("brink")
        self._until(lambda: "brink" in worker.facts, f"{worker.name} on the brink of a commit")
        worker.signal(signal.SIGSTOP)
        worker.say("go on")
        self._zombie = worker
        self.faults["workers_frozen"] += 1
        self._event(f"SIGSTOP {worker.name} (pid {worker.process.pid}), on the brink of a commit")
        self._frozen_until = time.monotonic() + 1.5 * self._settings.session_ms / 1000
        self._posted_by_ended += worker.count("posted")
        del self._workers[worker.name]

    def _kill_worker(self, name: str) -> None:
        worker = self._workers[name]
        self._retire(worker)
        self.faults["workers_killed"] += 1
        self._event(f"SIGKILL {name} (pid {worker.process.pid}), and a new one in its place")
        self._start_worker(name)

    def _kill_broker(self, broker: Killable) -> None:
        what = broker.what
        broker.kill()
        began = time.monotonic()
        broker.start()
        self.faults["brokers_killed"] += 1
        self._event(f"SIGKILL {what}; it serves again after {1000 * (time.monotonic() - began):.0f} ms")

    def _fail_over(self, database: OwnDatabase) -> None:
        began = time.monotonic()
        database.fail_over()
        self.faults["databases_failed_over"] += 1
        took_ms = 1000 * (time.monotonic() - began)
        self._event(f"SIGKILL the database's primary; its standby was promoted after {took_ms:.0f} ms")

    def _wake_the_zombie(self) -> None:
        """Past its session, with a successor under the same transactional id: it must be fenced."""
        zombie = self._zombie
        assert zombie is not None
        self._until(lambda: time.monotonic() >= self._frozen_until, "the frozen worker's session to end")
        successor = self._start_worker(zombie.name)
        self._event(f"a new {zombie.name} takes the frozen one's place")
        self._until(lambda: "ready" in successor.facts, "the successor of the frozen worker")
        zombie.signal(signal.SIGCONT)
        self._event(f"SIGCONT {zombie.name} (pid {zombie.process.pid}): a zombie now")
        before = zombie.count("posted")
        self._until(lambda: not zombie.running or zombie.count("posted") > before, "what becomes of the zombie")
        if zombie.process.poll() == FENCED_STATUS:
            self.zombies_fenced += 1
            self._event("the zombie was fenced")
        else:
            self._event("the zombie was NOT fenced")
        zombie.kill()

    def _all_committed(self) -> bool:
        """The group's offsets have reached the last transfer that the writer committed, on every partition."""
        assert self._writer is not None
        last = self._writer.facts.get("last")
        if not isinstance(last, dict):
            return False
        wanted = [TopicPartition(TRANSFERS_TOPIC, int(partition)) for partition in last]
        reader = Consumer({**CLIENT, "bootstrap.servers": self._settings.bootstrap, "group.id": GROUP})
        try:
            found = reader.committed(wanted, 10)
        except KafkaException:
            return False
        finally:
            reader.close()
        return all(partition.offset > int(last[str(partition.partition)]) for partition in found)
