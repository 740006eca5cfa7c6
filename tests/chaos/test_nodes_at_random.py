"""Three nodes in one process, of which one after the other is killed, crashed by a fault, started and robbed of what it
leads, at random, under producers: what was committed is read once, what was aborted never, nothing acknowledged is
lost or doubled.
"""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

import tallystick
from tests.harness.confluent import SECONDS, Deliveries, make_topic, producer, read_all, wait_until

NODES = (1, 2, 3)
PARTITIONS = 5
PLAIN = PARTITIONS - 1
"""The partition that the producer without transactions writes to, too."""
STEPS = 40
FEW = 4
"""Transactions of one id: its next marker would make up for one that was lost."""
POINTS = (
    *("ongoing.after-append", "produce.after-append", "produce.after-sync", "prepare.after-append"),
    *("prepare.after-sync", "marker.before", "marker.after-append", "complete.before-append", "complete.after-sync"),
    *("metadata.after-append", "epoch.after-append", "answer.EndTxn", "request.AddPartitionsToTxn"),
)


class Transactions:
    """Writes some records in each, commits most, and keeps what was committed."""

    def __init__(self, broker: tallystick.Broker, name: str, seed: str) -> None:
        self.name, self.ended = name, 0
        self.transactional_id = ""
        self.committed: set[bytes] = set()
        self._draw = random.Random(seed)
        self._bootstrap = broker.bootstrap

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            if self.ended % FEW == 0:
                self.transactional_id = f"{self.name}-{self.ended}"
                writer = producer(self._bootstrap, transactional__id=self.transactional_id, log_level=0)
                writer.init_transactions(SECONDS)
            writer.begin_transaction()
            places = self._draw.sample(range(PARTITIONS), 3)
            values = {b"%s-%d-%d" % (self.name.encode(), self.ended, place) for place in places}
            if self._is_committed(writer, values):
                self.committed |= values
            self.ended += 1

    def _is_committed(self, writer: Producer, values: set[bytes]) -> bool:
        try:
            for value in values:
                writer.produce("orders", value, partition=int(value[-1:]))
            if self._draw.random() >= 0.2:
                surely(lambda: writer.commit_transaction(SECONDS))
                return True
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
        surely(lambda: writer.abort_transaction(SECONDS))
        return False


def surely(end: Callable[[], None]) -> None:
    """As its client says: again, where that is of use."""
    while True:
        try:
            return end()
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise


class Plain:
    """An idempotent producer."""

    def __init__(self, broker: tallystick.Broker) -> None:
        self.written = 0
        self.deliveries = Deliveries()
        self._bootstrap = broker.bootstrap

    def run(self, stop: threading.Event) -> None:
        writer = producer(self._bootstrap, enable__idempotence=True, log_level=0)
        while not stop.is_set():
            writer.produce("orders", b"plain-%d" % self.written, partition=PLAIN, on_delivery=self.deliveries)
            self.written += 1
            writer.poll(0.005)
        writer.flush(SECONDS)


def step(broker: tallystick.Broker, draw: random.Random, transactional_id: str) -> None:
    """One thing that happens to the nodes."""
    running = sorted(broker.node_addresses())
    if not running:
        broker.start_nodes()
        return
    killed = [node for node in NODES if node not in running]
    match draw.choice(("kill", "controller", "crash", "start", "start", "leader", "coordinator")):
        case "kill" if len(running) > 1:
            broker.kill_node(draw.choice(running))
        case "controller" if len(running) > 1:
            broker.kill_node(broker.controller())
        case "crash" if len(running) > 1:
            broker.fault(draw.choice(POINTS), "crash", at=draw.randrange(1, 4))
        case "start" if killed:
            broker.clear_faults()
            broker.start_node(draw.choice(killed))
        case "coordinator":
            broker.move_coordinator(transactional_id=transactional_id, to=draw.choice(running))
        case _:
            broker.move_leader("orders", draw.randrange(PARTITIONS), to=draw.choice(running))


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    few = {"transaction.state.log.num.partitions": 4, "offsets.topic.num.partitions": 4}
    with tallystick.Broker(folder=tmp_path, nodes=3, control=True, config=few) as broker:
        make_topic(broker.bootstrap, "orders", PARTITIONS)
        writers = [Transactions(broker, name, f"{seed} {name}") for name in ("one", "two")]
        plain = Plain(broker)
        stop = threading.Event()
        with ThreadPoolExecutor() as pool:
            running = [pool.submit(one.run, stop) for one in (*writers, plain)]
            try:
                strike(broker, random.Random(seed), writers)
            finally:
                broker.clear_faults()
                broker.start_nodes()
                stop.set()
            for one in running:
                one.result(2 * SECONDS)
        found = [message.value() for message in read_all(broker.bootstrap, "orders")]
        assert plain.deliveries.failed == []
        assert [one for one in found if one.startswith(b"plain")] == [b"plain-%d" % at for at in range(plain.written)]
        transactional = [one for one in found if not one.startswith(b"plain")]
        assert sorted(transactional) == sorted(set.union(*(one.committed for one in writers)))
        broker.audit()


def strike(broker: tallystick.Broker, draw: random.Random, writers: list[Transactions]) -> None:
    """Somebody gets on between two steps, so that they strike at work of all kinds; but where no node runs."""
    for _ in range(STEPS):
        seen = sum(one.ended for one in writers)
        try:
            step(broker, draw, draw.choice(writers).transactional_id)
        except tallystick.NotDone:
            assert broker.process.running
        wait_until(
            lambda: sum(one.ended for one in writers) > seen or not broker.node_addresses(),  # noqa: B023
            "a transaction that ends",
        )
