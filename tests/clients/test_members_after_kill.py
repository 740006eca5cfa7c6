"""Groups under load while members and their broker are killed: each record is copied once, whatever the protocol of the
group is, and while it goes from one to the other (KIP-848, KIP-447).

Members copy a topic in transactions that commit their offsets with their epochs. They vanish without a word, a static
one comes back, and the broker is killed; a group moves to the consumer protocol member by member, and back.
"""

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType

from tallystick.process import BrokerProcess
from tests.chaos.drivers import java
from tests.clients.test_consumer_groups import QUICK, group_of
from tests.harness import jars
from tests.harness.confluent import make_topic, read_all, wait_until, write

PARTITIONS, PART = 6, 100
SECONDS = 120.0


class Copiers:
    """Members, each a process of its own; one that has ended is started again."""

    def __init__(self, client: str, bootstrap: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.clients.copying"]
        if client == "java":
            try:
                classes = f"{java.compiled()}:{java.class_path()}"
            except jars.JarsMissing as reason:
                pytest.skip(f"Java's client needs a JDK and Kafka's jars: {reason}")
            small = ["-Xmx128m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
            self._command = [str(jars.java()), *small, "-cp", classes, "GroupCopier"]
        self._bootstrap = bootstrap
        self._output = (folder / "copiers.out").open("wb")
        self._told: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, protocol: str, *instance: str) -> None:
        self._told[name] = [self._bootstrap, "copiers", name, "in", "out", protocol, *instance]
        self._run(name)

    def _run(self, name: str) -> None:
        command = [*self._command, *self._told[name]]
        self._running[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._output, stderr=self._output)

    def vanish(self, name: str) -> None:
        """It dies; its successor fences its transaction."""
        self._running[name].kill()
        self._running[name].wait()

    def come_back(self) -> None:
        """Whoever has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                self._run(name)

    def change(self, name: str, protocol: str) -> None:
        """It leaves, and comes back with another protocol."""
        process = self._running[name]
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            process.stdin.write(b"\n")
            process.stdin.close()
        process.wait(SECONDS)
        self.start(name, protocol, *self._told[name][6:])

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        self._output.close()


class Load:
    """What was written, and what of it was copied."""

    def __init__(self, bootstrap: str, copiers: Copiers) -> None:
        self._bootstrap = bootstrap
        self._copiers = copiers
        self._written = 0

    def more(self) -> None:
        values = [b"%d" % number for number in range(self._written, self._written + PART)]
        assert write(self._bootstrap, "in", values).failed == []
        self._written += PART

    def copied(self) -> Counter[bytes]:
        self._copiers.come_back()
        return Counter(message.value() for message in read_all(self._bootstrap, "out"))

    def wait_for_some(self) -> None:
        """More than there are now, or all."""
        enough = min(len(self.copied()) + 1, self._written)
        wait_until(lambda: len(self.copied()) >= enough, "more copies", seconds=SECONDS)

    def is_copied_once(self) -> None:
        wait_until(lambda: len(self.copied()) == self._written, "all copies", seconds=SECONDS)
        assert set(self.copied().values()) == {1}


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    settings = QUICK | {"group.consumer.session.timeout.ms": "3000", "group.consumer.migration.policy": "bidirectional"}
    broker = own_broker(more=settings).start()
    make_topic(broker.bootstrap, "in", PARTITIONS)
    make_topic(broker.bootstrap, "out", 3)
    return broker


@pytest.fixture(params=["librdkafka", "java"])
def copiers(request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path) -> Iterator[Copiers]:
    made = Copiers(request.param, broker.bootstrap, tmp_path)
    yield made
    made.close()


def test_members_and_the_broker_die(broker: BrokerProcess, copiers: Copiers) -> None:
    """I43, I44: members of the consumer protocol, one of them static."""
    load = Load(broker.bootstrap, copiers)
    for name, instance in (("a", []), ("b", []), ("c", ["three"])):
        copiers.start(name, "consumer", *instance)
    load.more()
    load.wait_for_some()
    copiers.vanish("a")
    load.more()
    load.wait_for_some()
    copiers.vanish("c")
    broker.kill()
    broker.start()
    load.more()
    load.wait_for_some()
    copiers.vanish("b")
    copiers.vanish("c")
    load.more()
    load.is_copied_once()


def test_a_group_moves_member_by_member_and_back(broker: BrokerProcess, copiers: Copiers) -> None:
    """I43, I44, and somebody dies on the way, members and the broker."""
    load = Load(broker.bootstrap, copiers)
    for name in ("a", "b", "c"):
        copiers.start(name, "classic")
    load.more()
    load.wait_for_some()
    for protocol, kind in (("consumer", ConsumerGroupType.CONSUMER), ("classic", ConsumerGroupType.CLASSIC)):
        for name in ("a", "b", "c"):
            copiers.change(name, protocol)
            load.more()
            if name == "b":
                copiers.vanish("a")
                broker.kill()
                broker.start()
            load.wait_for_some()
        load.is_copied_once()
        assert group_of(broker.bootstrap, "copiers").type == kind  # type: ignore[attr-defined]
