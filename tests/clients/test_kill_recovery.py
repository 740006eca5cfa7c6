"""`kill -9` of the server at random moments under load: what was acknowledged is read, once, and nothing stays
undecided.

In both durability modes: a killed process loses nothing that reached the page cache, so page-cache mode must pass
as well.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tallystick.process import BrokerProcess
from tests.harness.broker import KAFKA
from tests.harness.confluent import SECONDS, Deliveries, admin, make_topic, producer, read_all, values_of, wait_until

KILLS = 1 if KAFKA else 4
PARTITIONS = 4
BACK_SOON = {
    "reconnect__backoff__ms": 10,
    "reconnect__backoff__max__ms": 100,
    "metadata__recovery__strategy": "none",  # Its default lets a transaction's requests wait for good.
}


class Load(threading.Thread):
    """Works until it is stopped; an exception fails the test that joins it."""

    def __init__(self, work: Callable[["Load"], None]) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.steps = 0
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self._work(self)
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self.stopping.set()
        self.join(180)
        assert not self.is_alive(), "the load did not end"
        if self.error is not None:
            raise self.error


def idempotent_load(bootstrap: str, topic: str, prefix: str, deliveries: Deliveries) -> Load:
    def work(load: Load) -> None:
        sender = producer(bootstrap, enable__idempotence=True, message__timeout__ms=120_000, **BACK_SOON)
        while not load.stopping.is_set():
            value = f"{prefix}-{load.steps:07d}".encode()
            sender.produce(topic, value, partition=load.steps % PARTITIONS, on_delivery=deliveries)
            load.steps += 1
            sender.poll(0.02 if load.steps % 50 == 0 else 0)
        assert sender.flush(120) == 0

    return Load(work)


class Outcomes:
    """What a transactional load knows of its transactions: (transaction → its values) by outcome."""

    def __init__(self) -> None:
        self.committed: list[list[bytes]] = []
        self.aborted: list[list[bytes]] = []
        self.unknown: list[list[bytes]] = []


def until_decided(step: Callable[[float], None]) -> None:
    """Repeat a step for as long as the client says that it may be repeated."""
    while True:
        try:
            return step(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def one_transaction(sender: Producer, topic: str, values: list[bytes], *, abort: bool, outcomes: Outcomes) -> None:
    """Raises what the client cannot go on after; by then the outcome is noted as unknown."""
    sender.begin_transaction()
    try:
        for number, value in enumerate(values):
            sender.produce(topic, value, partition=number % PARTITIONS)
        if abort:
            sender.flush(SECONDS)
            raise Unwanted
        until_decided(sender.commit_transaction)
        outcomes.committed.append(values)
    except Unwanted:
        until_decided(sender.abort_transaction)
        outcomes.aborted.append(values)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            outcomes.unknown.append(values)
            raise
        until_decided(sender.abort_transaction)
        outcomes.aborted.append(values)


class Unwanted(Exception):
    """This transaction is to be aborted on purpose."""


def transactional_load(bootstrap: str, topic: str, name: str, outcomes: Outcomes) -> Load:
    def work(load: Load) -> None:
        sender: Producer | None = None
        while not load.stopping.is_set():
            try:
                if sender is None:
                    sender = producer(bootstrap, transactional__id=name, transaction__timeout__ms=40_000, **BACK_SOON)
                    until_decided(sender.init_transactions)
                values = [f"{name}-{load.steps:06d}-{part}".encode() for part in range(6)]
                load.steps += 1
                one_transaction(sender, topic, values, abort=load.steps % 5 == 0, outcomes=outcomes)
            except KafkaException:
                sender = None

    return Load(work)


def kill_again_and_again(broker: BrokerProcess, loads: list[Load], seed: int) -> None:
    """Each kill comes when every load has moved on since the last one, at a moment drawn from the seed."""
    chosen = random.Random(seed)
    for _ in range(KILLS):
        seen = [load.steps for load in loads]
        wait_until(
            lambda before=seen: all(
                load.error or load.steps > steps + 20 for load, steps in zip(loads, before, strict=True)
            ),
            "progress of every load",
        )
        time.sleep(chosen.uniform(0, 0.4))
        broker.kill()
        broker.start()


def end_offsets(bootstrap: str, topic: str, isolation: IsolationLevel) -> list[int]:
    asker = admin(bootstrap)
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    found = asker.list_offsets(wanted, isolation_level=isolation, request_timeout=30)
    return [future.result(SECONDS).offset for future in found.values()]


def all_decided(bootstrap: str, topic: str) -> bool:
    """The last stable offset has reached the high watermark everywhere."""
    high = end_offsets(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)
    return end_offsets(bootstrap, topic, IsolationLevel.READ_COMMITTED) == high


@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_acknowledged_records_survive_kill_9(
    own_broker: Callable[..., BrokerProcess], name: str, durability: str
) -> None:
    """I40: acknowledged ⊆ read, no duplicates, transactions whole or not at all, nothing undecided for good."""
    broker = own_broker(durability=durability).start()
    plain, within = make_topic(broker.bootstrap, f"{name}-plain", 4), make_topic(broker.bootstrap, f"{name}-txn", 4)
    deliveries, outcomes = Deliveries(), Outcomes()
    loads = [idempotent_load(broker.bootstrap, plain, prefix, deliveries) for prefix in ("a", "b")]
    loads.append(transactional_load(broker.bootstrap, within, name, outcomes))
    left_open = producer(broker.bootstrap, transactional__id=f"{name}-left", transaction__timeout__ms=3000, **BACK_SOON)
    left_open.init_transactions(SECONDS)
    left_open.begin_transaction()
    left_open.produce(within, b"never decided by its producer", partition=0)
    left_open.flush(SECONDS)
    kill_again_and_again(broker, loads, seed=len(durability))
    for load in loads:
        load.finish()

    found = values_of(read_all(broker.bootstrap, plain))
    acknowledged = Counter(message.value() for message in deliveries.acknowledged)
    assert not deliveries.failed
    assert Counter(found) == acknowledged, "every acknowledged record, once"

    wait_until(lambda: all_decided(broker.bootstrap, within), "LSO = HW on every partition")
    visible = Counter(values_of(read_all(broker.bootstrap, within)))
    assert outcomes.committed and outcomes.aborted
    assert max(visible.values()) == 1, "no duplicates"
    assert all(visible[value] for values in outcomes.committed for value in values), "committed: all of it"
    assert not any(visible[value] for values in outcomes.aborted for value in values), "aborted: none of it"
    for values in outcomes.unknown:
        assert len({visible[value] for value in values}) == 1, "unknown: all of it or none"
    assert b"never decided by its producer" not in visible


def test_a_group_goes_on_where_it_was_after_kill_9(own_broker: Callable[..., BrokerProcess], name: str) -> None:
    """Committed offsets and the group itself come back from the log; no record is read twice after its commit."""
    from tests.harness.confluent import consumer, write

    broker = own_broker().start()
    make_topic(broker.bootstrap, name)
    write(broker.bootstrap, name, [f"{number}".encode() for number in range(20)])
    reader = consumer(broker.bootstrap, group__id=name, session__timeout__ms=6000, reconnect__backoff__max__ms=100)
    reader.subscribe([name])
    seen = []
    for number in range(20):
        message = wait_until(lambda: next((m for m in [reader.poll(0.2)] if m and not m.error()), None), "a record")
        seen.append(message.value())
        wait_until(lambda at=message: committed(reader, at), "the commit")
        if number == 9:
            broker.kill()
            broker.start()
    assert seen == [f"{number}".encode() for number in range(20)]
    reader.close()


def committed(reader: object, message: object) -> bool:
    try:
        reader.commit(message=message, asynchronous=False)  # type: ignore[attr-defined]
    except KafkaException:
        return False
    return True
