"""Idempotence while connections are cut in mid-flight: nothing lost, nothing doubled, nothing out of order."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.harness.broker import EXTERNAL, server_behind_proxy
from tests.harness.confluent import SECONDS, Deliveries, make_topic, producer, read_all, values_of
from tests.harness.proxy import CuttingProxy

RECORDS = 20_000
PARTITIONS = 2


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[CuttingProxy]:
    """A broker that is reached through a proxy only."""
    if EXTERNAL:
        pytest.skip("needs a broker of its own")
    broker, between = server_behind_proxy(tmp_path)
    broker.start()
    between.start()
    try:
        yield between
    finally:
        between.stop()
        broker.close()


@contextmanager
def cutting(proxy: CuttingProxy, progress: Callable[[], int]) -> Iterator[None]:
    """Cut whenever the client has come on since the last cut, every other time losing answers to what the broker
    has done.
    """
    done = threading.Event()

    def work() -> None:
        seen = progress()
        while not done.wait(0.05 + 0.01 * (proxy.cuts % 7)):
            if progress() > seen:
                proxy.cut(losing_answers=proxy.cuts % 2 == 0)
                seen = progress()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_confluent_kafka_writes_each_record_once_through_cuts(proxy: CuttingProxy, name: str) -> None:
    """I21: a retried batch is answered with its first offset and not written again."""
    make_topic(proxy.bootstrap, name, PARTITIONS)
    sender = producer(
        proxy.bootstrap,
        enable__idempotence=True,
        reconnect__backoff__ms=10,
        reconnect__backoff__max__ms=50,
        retry__backoff__ms=20,
        message__timeout__ms=120_000,
        batch__num__messages=50,
    )
    deliveries, cuts_wanted, number = Deliveries(), 6, 0
    with cutting(proxy, lambda: len(deliveries.acknowledged)):
        while proxy.cuts < cuts_wanted or number < RECORDS:
            sender.produce(name, f"{number:08d}".encode(), partition=number % PARTITIONS, on_delivery=deliveries)
            number += 1
            sender.poll(0.01 if number % 100 == 0 else 0)
    assert sender.flush(SECONDS) == 0
    assert not deliveries.failed and len(deliveries.acknowledged) == number
    assert proxy.swallowed_bytes > 0
    found = read_all(proxy.bootstrap, name)
    for partition in range(PARTITIONS):
        values = values_of(message for message in found if message.partition() == partition)
        assert values == [f"{n:08d}".encode() for n in range(partition, number, PARTITIONS)]
    offsets = {(m.partition(), m.offset()): m.value() for m in found}
    assert all(offsets[m.partition(), m.offset()] == m.value() for m in deliveries.acknowledged)


def test_kafka_python_writes_each_record_once_through_cuts(proxy: CuttingProxy, name: str) -> None:
    make_topic(proxy.bootstrap, name)
    sender = KafkaProducer(
        bootstrap_servers=proxy.bootstrap, enable_idempotence=True, acks="all", reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50, retry_backoff_ms=20, batch_size=1000,
    )  # fmt: skip
    waiting = []
    with cutting(proxy, lambda: sum(future.is_done for future in waiting)):
        while proxy.cuts < 4:
            waiting.append(sender.send(name, f"{len(waiting):08d}".encode()))
            if len(waiting) % 500 == 0:
                waiting[-1].get(SECONDS)
    for future in waiting:
        future.get(SECONDS)
    sender.close()
    assert values_of(read_all(proxy.bootstrap, name)) == [f"{n:08d}".encode() for n in range(len(waiting))]


def test_a_transaction_commits_once_through_cuts(proxy: CuttingProxy, name: str) -> None:
    """Every step of a transaction may lose its answer; its retry must not do it twice."""
    make_topic(proxy.bootstrap, name, PARTITIONS)
    sender = producer(
        proxy.bootstrap, transactional__id=name, reconnect__backoff__ms=10, reconnect__backoff__max__ms=50,
        retry__backoff__ms=20,
    )  # fmt: skip
    sender.init_transactions(SECONDS)
    committed: list[bytes] = []
    number = 0
    with cutting(proxy, lambda: number):
        while proxy.cuts < 8:
            sender.begin_transaction()
            values = [f"{number:06d}-{part}".encode() for part in range(4)]
            for part, value in enumerate(values):
                sender.produce(name, value, partition=part % PARTITIONS)
            if number % 5 == 4:
                sender.abort_transaction(SECONDS)
            else:
                sender.commit_transaction(SECONDS)
                committed += values
            number += 1
    assert sorted(values_of(read_all(proxy.bootstrap, name))) == committed
