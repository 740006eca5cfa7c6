"""Kafka Streams with exactly_once_v2: the application that leans hardest on transactions, through kills.

It makes topics of its own (a repartition topic that it trims, a changelog that is compacted), commits the offsets of
many partitions in one transaction, and reads its state back from committed records. Skips where there is no JDK.
"""

import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.chaos.drivers import java
from tests.harness import jars
from tests.harness.confluent import make_topic, producer, read_all, wait_until

KEYS, PER_TRANSACTION, TRANSACTIONS, PARTITIONS = 20, 50, 80, 3
SECONDS = 180


class Applications:
    """Instances of the application; whatever still runs in the end is killed."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        try:
            self._classes = f"{java.compiled()}:{java.class_path()}"
        except jars.JarsMissing as reason:
            pytest.skip(f"Kafka Streams needs a JDK and Kafka's jars: {reason}")
        self._bootstrap = bootstrap
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, program: str = "StreamsCounts", *arguments: str, more: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """Its arguments are the broker, these, a folder for its state, and `more`."""
        number = len(self._running)
        small = ["-Xmx200m", *jars.SHORT_LIFE, "-Dlog4j2.level=OFF"]
        named = arguments or ("counts", "in", "out")
        told = [self._bootstrap, *named, str(self._folder / f"state-{number}"), *more]
        with (self._folder / f"application-{number}.out").open("wb") as output:
            process = subprocess.Popen(
                [str(jars.java()), *small, "-cp", self._classes, program, *told],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        self._running.append(process)
        return process

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return own_broker().start()


@pytest.fixture
def applications(broker: BrokerProcess, tmp_path: Path) -> Iterator[Applications]:
    made = Applications(broker.bootstrap, tmp_path)
    yield made
    made.close()


def write(bootstrap: str, transactions: range) -> None:
    """Every fourth transaction is aborted: its values are never to be counted."""
    sender = producer(bootstrap, transactional__id="writer")
    sender.init_transactions(SECONDS)
    for number in transactions:
        sender.begin_transaction()
        for index in range(PER_TRANSACTION):
            sender.produce("in", b"k%d" % (index % KEYS), partition=index % PARTITIONS)
        sender.flush(SECONDS)
        if number % 4 == 3:
            sender.abort_transaction(SECONDS)
        else:
            sender.commit_transaction(SECONDS)


def counts(bootstrap: str) -> dict[bytes, list[int]]:
    """Every count that a reader of committed records is shown, by value, in order."""
    shown: dict[bytes, list[int]] = defaultdict(list)
    for message in read_all(bootstrap, "out"):
        shown[message.key()].append(int(message.value()))
    return shown


def test_every_count_appears_once_when_instances_and_broker_are_killed(
    broker: BrokerProcess, applications: Applications
) -> None:
    """I43, I44: counted once, written once, and the offsets with them, whichever process dies in between."""
    bootstrap = broker.bootstrap
    for topic in ("in", "out"):
        make_topic(bootstrap, topic, PARTITIONS)
    quarter = TRANSACTIONS // 4

    def counted() -> int:
        return sum(map(len, counts(bootstrap).values()))

    def await_more(before: int) -> None:
        wait_until(lambda: counted() > before, "more counts", seconds=SECONDS)

    write(bootstrap, range(quarter))
    victim = applications.start()
    await_more(0)
    heir = applications.start()
    write(bootstrap, range(quarter, 2 * quarter))
    victim.kill()
    await_more(counted())
    before = counted()
    write(bootstrap, range(2 * quarter, 3 * quarter))
    broker.kill()
    broker.start()
    await_more(before)  # Where others serve meanwhile, all of them may be there by now.
    write(bootstrap, range(3 * quarter, TRANSACTIONS))
    committed = [number for number in range(TRANSACTIONS) if number % 4 != 3]
    values = [b"k%d" % (index % KEYS) for index in range(PER_TRANSACTION)]
    expected = {value: list(range(1, values.count(value) * len(committed) + 1)) for value in set(values)}

    def all_there() -> bool:
        return sum(map(len, counts(bootstrap).values())) >= sum(map(len, expected.values()))

    wait_until(all_there, "the last count", seconds=SECONDS)
    assert heir.stdin is not None
    heir.stdin.close()
    assert heir.wait(SECONDS) == 0
    assert counts(bootstrap) == expected
