"""Readers far behind, whom the bucket does not answer: who writes, coordinates or opens a log does not wait for it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from broker.shared.bucket import LEFT_BY_READERS, READS_AT_ONCE
from broker.shared.objects_in_s3 import ObjectsInS3
from storage.shared.store import Run, StoredRun
from tests.shared_store.engines import appended, object_of, read_of
from tests.shared_store.objects.line import Fault, Line
from tests.shared_store.objects.nodes_apart import NodesApart
from tests.shared_store.objects.shared_s3 import SharedS3, with_a_log
from tests.shared_store.objects.test_a_broker_over_a_bucket import with_offsets
from tests.shared_store.postgresql_server import PostgresqlServer
from tests.shared_store.test_a_broker import PATIENCE_S, everything, insist, producer_of

DATA = [b"0123456789"]
READERS = READS_AT_ONCE - LEFT_BY_READERS
PARTITIONS = 20


@contextmanager
def gets_that_hang(line: Line, *, but: str = "nothing") -> Iterator[None]:
    """All but those of one object."""
    line.spoil = lambda method, path: Fault.UNANSWERED if method == "GET" and not path.endswith(but) else None
    try:
        yield
    finally:
        line.mend()


async def _asked(line: Line, count: int) -> None:
    """Until the bucket was asked for so many."""

    def wait() -> None:
        with line.changed:
            assert line.changed.wait_for(lambda: len(line.spoiled) >= count, PATIENCE_S), "nothing was asked"

    await asyncio.to_thread(wait)


def test_reads_that_hang_leave_a_way_to_who_opens_a_log(
    any_line: Line, postgresql: PostgresqlServer, schema: str
) -> None:
    async def story() -> None:
        shared = SharedS3(postgresql, schema, any_line.port, kind=ObjectsInS3)
        store = shared.objects
        try:
            who, log = await with_a_log(store)
            for number in range(PARTITIONS):
                upload = await store.upload(who, object_of(who, number), DATA)
                assert not await store.commit(who, object_of(who, number), upload, [appended(log, 1, at=number)])
            runs = [StoredRun(object_of(who, number), Run(number, number, 0, 10, 0)) for number in range(PARTITIONS)]
            *far, near = runs
            with gets_that_hang(any_line, but=f"{PARTITIONS - 1:08x}"):
                reading = [asyncio.create_task(store.read([one], for_reader=True)) for one in far]
                await _asked(any_line, READERS)
                async with asyncio.timeout(PATIENCE_S):
                    assert await read_of(store, near.object_id, 0, 10) == DATA[0]
                assert len(any_line.spoiled) == READERS < len(far)
                assert not any(one.done() for one in reading)
            assert await asyncio.gather(*reading) == [DATA] * len(far)
        finally:
            any_line.mend()
            await shared.close()

    asyncio.run(story())


def test_producers_and_coordinators_go_on_while_readers_wait_for_the_bucket(nodes: NodesApart) -> None:
    node = nodes.node(1, tallystick_store_memory_bytes="1").start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    made = admin.create_topics([NewTopic("far", PARTITIONS), NewTopic("t", 1)])
    for one in made.values():
        one.result(PATIENCE_S)
    settings: dict[str, Any] = {"bootstrap.servers": node.bootstrap, "linger.ms": 0, "enable.idempotence": True}
    producer = Producer(settings)
    for index in range(PARTITIONS):  # Each is an object.
        producer.produce("far", b"first", partition=index)
        assert producer.flush(PATIENCE_S) == 0
    for index in range(PARTITIONS):  # What was committed last is in memory.
        producer.produce("far", b"last", partition=index)
    assert producer.flush(PATIENCE_S) == 0
    transactional = producer_of(node.bootstrap)
    asked = {"bootstrap.servers": node.bootstrap, "group.id": "far", "enable.auto.commit": False}
    consumer = Consumer(asked | {"fetch.error.backoff.ms": 10})
    with gets_that_hang(nodes.line):
        consumer.assign([TopicPartition("far", index, 0) for index in range(PARTITIONS)])
        asyncio.run(_asked(nodes.line, READERS))
        for number in range(20):
            producer.produce("t", f"{number}".encode())
            assert producer.flush(PATIENCE_S) == 0
        transactional.begin_transaction()
        transactional.produce("t", b"20")
        insist(transactional.commit_transaction)
        with_offsets(node.bootstrap)
        assert not consumer.consume(1, 0.0), "it is waited for"
    found, deadline = 0, time.monotonic() + PATIENCE_S
    while found < 2 * PARTITIONS:
        assert time.monotonic() < deadline, "it is never read"
        found += sum(message.error() is None for message in consumer.consume(100, 1.0))
    consumer.close()
    assert everything(node.bootstrap, "t") == [str(number) for number in range(21)]
    assert node.stop() == 0
