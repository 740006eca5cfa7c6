"""Brokers in processes of their own over one PostgreSQL: what clients were told holds, whoever dies.

Each story ends with a look at everything: what was committed is there once and in its order, nothing else is.
"""

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tallystick.process import BrokerFailed, BrokerProcess
from tests.shared_store.postgresql_server import PostgresqlServer

PATIENCE_S = 60.0
SILENT_MS = 1_500
SETTINGS = {
    "broker.session.timeout.ms": str(SILENT_MS),
    "broker.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class Nodes:
    """Those of one store, each with its own port."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self.all: list[BrokerProcess] = []

    def node(self, node_id: int, **settings: str) -> BrokerProcess:
        """Not started yet."""
        named = SETTINGS | {"node.id": str(node_id)} | {name.replace("_", "."): text for name, text in settings.items()}
        options = ["--store", self._url]
        options += [part for name, text in named.items() for part in ("--set", f"{name}={text}")]
        made = BrokerProcess(self._folder / f"node-{len(self.all)}", options=options, start_seconds=PATIENCE_S)
        self.all.append(made)
        return made

    def close(self) -> None:
        for one in self.all:
            one.close()


@pytest.fixture
def nodes(tmp_path: Path, postgresql: PostgresqlServer, schema: str) -> Iterator[Nodes]:
    made = Nodes(tmp_path, postgresql.url(f"broker_{schema}"))
    try:
        yield made
    finally:
        made.close()


def make_topic(bootstrap: str, name: str, **configs: str) -> None:
    topic = NewTopic(name, 1, config={key.replace("_", "."): text for key, text in configs.items()})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result(PATIENCE_S)


def transactions(producer: Producer, topic: str, numbers: range, *, abort_each: int = 5) -> Iterator[int]:
    """One of two records for each number, every so many aborted; yields the numbers that were committed. Where the
    broker is gone in the middle, the same is asked again until it is back."""
    for number in numbers:
        producer.begin_transaction()
        for part in "ab":
            producer.produce(topic, f"{number}{part}".encode())
        if number % abort_each == 0:
            insist(producer.abort_transaction)
        else:
            producer.flush(PATIENCE_S)
            insist(producer.commit_transaction)
            yield number


def insist(ask: object) -> None:
    assert callable(ask)
    while True:
        try:
            ask(PATIENCE_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def everything(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[str]:
    """All values that such a reader sees, up to where the topic ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"look-at-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no end after {len(found)} records"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append(message.value().decode())
    finally:
        consumer.close()


def of(numbers: list[int]) -> list[str]:
    return [f"{number}{part}" for number in numbers for part in "ab"]


def producer_of(bootstrap: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "writer", "transaction.timeout.ms": 60_000, "linger.ms": 0}
    )
    insist(producer.init_transactions)
    return producer


def killed_again_and_again(node: BrokerProcess) -> None:
    """Under transactions, of which those that were committed are there. It runs in the end."""
    make_topic(node.bootstrap, "t")
    producer, committed = producer_of(node.bootstrap), []
    for number in transactions(producer, "t", range(60)):
        committed.append(number)
        if number % 10 == 7:
            node.kill()
            node.start()
    assert everything(node.bootstrap, "t") == of(committed)
    assert node.stop() == 0
    node.start()
    assert everything(node.bootstrap, "t") == of(committed)


def test_a_node_that_is_killed_again_and_again_leaves_what_was_committed(nodes: Nodes) -> None:
    killed_again_and_again(nodes.node(1).start())


def test_a_second_node_takes_over_what_one_that_is_gone_has_led(nodes: Nodes) -> None:
    first, second = nodes.node(1).start(), nodes.node(2)
    make_topic(first.bootstrap, "t")
    producer = producer_of(first.bootstrap)
    committed = list(transactions(producer, "t", range(1, 10)))
    second.start()
    assert everything(second.bootstrap, "t") == of(committed), "both serve"
    first.kill()
    producer = producer_of(second.bootstrap)
    committed += transactions(producer, "t", range(11, 20))
    assert everything(second.bootstrap, "t") == of(committed)
    assert second.stop() == 0


def test_one_that_stood_still_acknowledges_nothing_more(nodes: Nodes) -> None:
    first, second = nodes.node(1).start(), nodes.node(2)
    make_topic(first.bootstrap, "t")
    told: list[object] = []
    zombie = Producer({"bootstrap.servers": first.bootstrap, "message.timeout.ms": 5_000, "linger.ms": 0, "retries": 0})
    zombie.produce("t", b"1a")
    assert zombie.flush(PATIENCE_S) == 0
    first.freeze()
    zombie.produce("t", b"never", on_delivery=lambda error, message: told.append(error))
    second.start()
    first.thaw()
    assert zombie.flush(PATIENCE_S) == 0
    assert told and told[0] is not None, "what the zombie was sent is not acknowledged"
    assert first._process is not None
    assert first._process.wait(PATIENCE_S) != 0
    assert "is over" in first.log_end()
    assert everything(second.bootstrap, "t") == ["1a"]


def test_a_later_start_of_the_same_node_takes_over_at_once(nodes: Nodes) -> None:
    first = nodes.node(1, broker_session_timeout_ms="600000").start()
    make_topic(first.bootstrap, "t")
    again = nodes.node(1, broker_session_timeout_ms="600000").start()
    assert first._process is not None
    assert first._process.wait(PATIENCE_S) != 0
    assert everything(again.bootstrap, "t") == []


def test_writers_wait_while_the_database_is_gone(nodes: Nodes, postgresql: PostgresqlServer) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = producer_of(node.bootstrap)
    committed = list(transactions(producer, "t", range(1, 5)))
    postgresql.stop(signal.SIGQUIT)
    producer.begin_transaction()
    producer.produce("t", b"5a")
    producer.produce("t", b"5b")
    assert producer.flush(1.0) > 0, "nothing is acknowledged without the store"
    asyncio.run(postgresql.start())
    insist(producer.commit_transaction)
    assert everything(node.bootstrap, "t") == of([*committed, 5])
    assert node.stop() == 0


def test_an_orderly_end_does_not_wait_for_a_database_that_is_gone(nodes: Nodes, postgresql: PostgresqlServer) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "message.timeout.ms": 60_000, "linger.ms": 0})
    producer.produce("t", b"a")
    assert producer.flush(PATIENCE_S) == 0
    postgresql.stop(signal.SIGQUIT)
    try:
        producer.produce("t", b"b")
        assert producer.flush(1.0) == 1
        assert node.stop(seconds=PATIENCE_S) == 1
    finally:
        asyncio.run(postgresql.start())
    assert everything(node.start().bootstrap, "t")[:1] == ["a"]


def test_what_is_no_longer_in_memory_is_brought(nodes: Nodes) -> None:
    node = nodes.node(1, tallystick_store_memory_bytes="1").start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "batch.num.messages": 50})
    values = [f"{number}{'v' * 500}" for number in range(3_000)]
    for value in values:
        producer.produce("t", value.encode(), timestamp=1_000_000 + int(value.split("v")[0]))
    assert producer.flush(PATIENCE_S) == 0
    assert everything(node.bootstrap, "t") == values
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "times"})
    (found,) = consumer.offsets_for_times([TopicPartition("t", 0, 1_000_777)], PATIENCE_S)
    consumer.close()
    assert found.offset == 777


def test_a_start_that_cannot_commit_ends(nodes: Nodes, postgresql: PostgresqlServer, schema: str) -> None:
    node = nodes.node(1).start()
    assert node.stop() == 0
    named = "SELECT oid::regprocedure::text AS it FROM pg_proc WHERE oid::regprocedure::text LIKE $1"
    for row in asyncio.run(postgresql.sql(named, f"broker_{schema}.commit_object(%")):
        asyncio.run(postgresql.sql(f"ALTER FUNCTION {row['it']} RENAME TO gone"))
    with pytest.raises(BrokerFailed, match="ended with status 1"):
        node.start()


def test_a_database_that_refuses_who_asks_is_what_the_start_was_told(
    tmp_path: Path, postgresql: PostgresqlServer, schema: str
) -> None:
    parts = urlsplit(postgresql.url(f"broker_{schema}"))
    nodes = Nodes(tmp_path, urlunsplit(parts._replace(path="/nowhere")))
    try:
        node = nodes.node(1)
        with pytest.raises(BrokerFailed, match="ended with status 2"):
            node.start()
        assert 'tallystick: PostgreSQL: database "nowhere" does not exist' in node.log_end(1 << 16)
    finally:
        nodes.close()


def test_a_password_is_nowhere_to_be_read(nodes: Nodes, postgresql: PostgresqlServer, schema: str) -> None:
    url = re.sub(r"//([^@/]*@)?", "//postgres:geheim@", postgresql.url(f"broker_{schema}"), count=1)
    node = Nodes(nodes._folder / "secret", url)
    try:
        started = node.node(1)
        try:
            started.start()
        except BrokerFailed as failed:
            assert "geheim" not in str(failed)
        assert "geheim" not in started.log_end(1 << 20)
    finally:
        node.close()


def test_a_node_that_was_not_heard_of_for_long_is_read_no_more(nodes: Nodes, postgresql: PostgresqlServer) -> None:
    """It may have been replaced, and be behind: who has read on elsewhere would hear that there is no such offset."""
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), PATIENCE_S) == (0, 0)
    postgresql.stop(signal.SIGQUIT)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline, "it is read for ever"
            try:
                consumer.get_watermark_offsets(TopicPartition("t", 0), 1.0)
            except KafkaException as refused:
                if refused.args[0].name() in ("NOT_LEADER_FOR_PARTITION", "_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"):
                    break
                raise
    finally:
        asyncio.run(postgresql.start())
    while True:
        assert time.monotonic() < deadline, "it is not read again"
        try:
            assert consumer.get_watermark_offsets(TopicPartition("t", 0), 1.0) == (0, 0)
            break
        except KafkaException:
            continue
    consumer.close()
    assert node.stop() == 0


def test_what_was_in_a_deleted_topic_leaves_the_database(
    nodes: Nodes, postgresql: PostgresqlServer, schema: str
) -> None:
    """While the node goes on, and not with its next start."""
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("t", b"a")
    assert producer.flush(PATIENCE_S) == 0
    topics = "SELECT 1 FROM (SELECT count(DISTINCT topic_id) AS topics FROM log) AS there WHERE topics = {}"
    asyncio.run(postgresql.wait_until(topics.format(2), schema=f"broker_{schema}"))
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics(["t"])["t"].result(PATIENCE_S)
    asyncio.run(postgresql.wait_until(topics.format(1), schema=f"broker_{schema}"))
    assert node.stop() == 0
