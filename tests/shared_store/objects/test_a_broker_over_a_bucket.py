"""Brokers in processes of their own over a database and a bucket: what clients were told holds, whoever dies and
whatever is away; and coordinators do not wait for the bucket.
"""

import re
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from broker.http.metrics.store import METRICS
from tallystick.process import BrokerFailed, BrokerProcess
from tests.harness.http import ask
from tests.shared_store.objects.line import Fault
from tests.shared_store.objects.nodes_apart import NodesApart
from tests.shared_store.objects.s3_server import SECRET
from tests.shared_store.test_a_broker import (
    PATIENCE_S,
    everything,
    insist,
    killed_again_and_again,
    make_topic,
    of,
    producer_of,
    transactions,
)


def test_a_node_that_is_killed_again_and_again_leaves_what_was_committed(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    killed_again_and_again(node)
    assert set(nodes.named()) <= set(nodes.objects()), "what is named is there"
    assert nodes.sql("SELECT FROM object WHERE upload_id IS NULL AND bytes <> ''"), "coordinators are in the database"
    assert SECRET not in node.log_end(1 << 20)


def test_a_node_that_dies_between_bringing_and_committing_leaves_an_object_that_goes(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    producer.produce("t", b"before")
    assert producer.flush(PATIENCE_S) == 0
    nodes.line.spoil_next(Fault.UNANSWERED, "PUT")
    told: list[object] = []
    producer.produce("t", b"in between", on_delivery=lambda error, message: told.append(error))
    producer.poll(0)
    nodes.line.wait_until_done(1)
    assert told == [], "it is in the bucket, and nobody was told so"
    node.kill()
    orphans = set(nodes.objects()) - set(nodes.named())
    assert len(orphans) == 1
    nodes.line.mend()
    node.start()
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None]
    nodes.grow_old()
    nodes.wait_until(lambda: not orphans & set(nodes.objects()), "the orphan goes")
    assert set(nodes.named()) <= set(nodes.objects())
    assert everything(node.bootstrap, "t") == ["before", "in between"]
    assert node.stop() == 0


def test_coordinators_go_on_while_the_bucket_is_away(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = producer_of(node.bootstrap)
    committed = list(transactions(producer, "t", range(1, 5)))
    nodes.wait_until(lambda: everything(node.bootstrap, "t") == of(committed), "its markers are in the bucket, too")
    nodes.line.cut()
    producer.begin_transaction()
    producer.produce("t", b"5a")
    producer.produce("t", b"5b")
    assert producer.flush(1.0) > 0, "nothing is acknowledged that is not there"
    other = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "other"})
    insist(other.init_transactions)
    with_offsets(node.bootstrap)
    assert everything(node.bootstrap, "t") == of(committed), "what is in memory is read"
    nodes.line.open()
    insist(producer.commit_transaction)
    nodes.wait_until(lambda: everything(node.bootstrap, "t") == of([*committed, 5]), "and the marker of the last one")
    assert node.stop() == 0


def with_offsets(bootstrap: str) -> None:
    """Offsets of a group are committed, and found."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    wanted = TopicPartition("t", 0, 3)
    consumer.commit(offsets=[wanted], asynchronous=False)
    (found,) = consumer.committed([TopicPartition("t", 0)], PATIENCE_S)
    consumer.close()
    assert found.offset == 3


def test_beyond_a_limit_writers_are_sent_back_until_the_bucket_is_there(nodes: NodesApart) -> None:
    node = nodes.node(1, tallystick_store_pending_bytes=str(1 << 20)).start()
    make_topic(node.bootstrap, "t")
    nodes.line.cut()
    settings: dict[str, Any] = {"bootstrap.servers": node.bootstrap, "linger.ms": 0, "enable.idempotence": True}
    writers = [Producer(settings) for _ in range(5)]
    for number, writer in enumerate(writers):
        writer.produce("t", f"{number}{'v' * 400_000}".encode())
    assert sum(writer.flush(1.0) for writer in writers) == 5
    said: list[Any] = []
    one_more = Producer({"bootstrap.servers": node.bootstrap, "retries": 0, "linger.ms": 0})
    one_more.produce("t", b"more", on_delivery=lambda error, message: said.append(error.name()))
    assert one_more.flush(PATIENCE_S) == 0
    assert said == ["NOT_ENOUGH_REPLICAS"]
    nodes.line.open()
    assert sum(writer.flush(PATIENCE_S) for writer in writers) == 0
    assert sorted(value[0] for value in everything(node.bootstrap, "t")) == ["0", "1", "2", "3", "4"]
    assert node.stop() == 0


def test_what_is_no_longer_in_memory_is_brought_from_the_bucket(nodes: NodesApart) -> None:
    node = nodes.node(1, tallystick_store_memory_bytes="1").start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "batch.num.messages": 50})
    values = [f"{number}{'v' * 500}" for number in range(3_000)]
    for value in values:
        producer.produce("t", value.encode(), timestamp=1_000_000 + int(value.split("v")[0]))
    assert producer.flush(PATIENCE_S) == 0
    before = nodes.line.asked["GET"]
    assert everything(node.bootstrap, "t") == values
    assert nodes.line.asked["GET"] > before
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "times"})
    (found,) = consumer.offsets_for_times([TopicPartition("t", 0, 1_000_777)], PATIENCE_S)
    consumer.close()
    assert found.offset == 777


def test_many_small_objects_become_few_and_leave_the_bucket(nodes: NodesApart) -> None:
    settings = {"tallystick_store_memory_bytes": "1", "log_cleaner_backoff_ms": "200"}
    node = nodes.node(1, **settings).start()
    make_topic(node.bootstrap, "t", segment_bytes=str(1 << 20))
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    values = [f"{number}{'v' * 10_000}" for number in range(250)]
    for value in values:
        producer.produce("t", value.encode())
        assert producer.flush(PATIENCE_S) == 0
    several = "SELECT object_id FROM object WHERE upload_id IS NOT NULL AND live_runs > 0"
    nodes.wait_until(lambda: len(nodes.sql(several)) < 150, "runs are written anew as few")
    nodes.grow_old()
    nodes.wait_until(lambda: len(nodes.objects()) < 170, "what was replaced leaves")
    assert everything(node.bootstrap, "t") == values
    assert node.stop() == 0
    assert everything(node.start().bootstrap, "t") == values


def test_what_was_in_a_deleted_topic_leaves_the_bucket(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    make_topic(node.bootstrap, "stays")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for topic in ("t", "stays", "t"):
        producer.produce(topic, topic.encode())
        assert producer.flush(PATIENCE_S) == 0
    assert len(nodes.objects()) == 3
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics(["t"])["t"].result(PATIENCE_S)
    producer.produce("stays", b"again")  # The newest object of who lives is kept.
    assert producer.flush(PATIENCE_S) == 0

    def gone() -> bool:
        nodes.grow_old()
        return len(nodes.objects()) == 2

    nodes.wait_until(gone, "they leave")
    assert nodes.objects() == nodes.named()
    assert everything(node.bootstrap, "stays") == ["stays", "again"]


def test_an_object_that_is_gone_is_said_aloud_and_what_is_behind_it_is_read(nodes: NodesApart) -> None:
    node = nodes.node(1, tallystick_store_memory_bytes="1").start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    for value in (b"first", b"lost", b"last"):
        producer.produce("t", value)
        assert producer.flush(PATIENCE_S) == 0
    nodes.remove(nodes.objects()[1])
    assert node.stop() == 0
    node.start()
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", 0, 1)])
    deadline = time.monotonic() + PATIENCE_S
    while "is not there, and logs hold runs of it" not in node.log_end(1 << 16):
        assert time.monotonic() < deadline, node.log_end(4_000)
        message: Any = consumer.poll(0.2)
        assert message is None or message.error() is not None, "it is not passed over"
    consumer.close()
    assert node.running, "the others are served"


def test_who_watches_a_node_is_told_of_a_bucket_that_is_away(nodes: NodesApart) -> None:
    """It stays ready: all nodes have the same bucket, and what needs none goes on."""
    node = nodes.node(1)
    node.has_http = True
    node.start()

    def health() -> Any:
        return ask(f"{node.http_url}/health/ready")

    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    producer.produce("t", b"before")
    assert producer.flush(PATIENCE_S) == 0
    nodes.wait_until(lambda: health().status == 200, "it is ready")
    told = ask(f"{node.http_url}/metrics").text
    assert all(f"# TYPE {one.name} {one.kind.value}\n" in told for one in METRICS)
    assert _metric(node, "uploads_total") == 1 and _metric(node, "upload_oldest_seconds") == 0
    assert _metric(node, "memory_bytes") > len(b"before") and _metric(node, "read_ahead_bytes") == 0
    nodes.line.cut()
    producer.produce("t", b"meanwhile")
    producer.poll(0)
    nodes.wait_until(lambda: health().said["held_up"] != [], "it says so")
    assert health().status == 200
    assert _metric(node, "uploads_failed_total") > 0 and _metric(node, "upload_oldest_seconds") >= 5
    assert _metric(node, "pending_bytes") > 0 and _metric(node, "silent_seconds") < PATIENCE_S
    nodes.line.open()
    assert producer.flush(PATIENCE_S) == 0
    assert health().said["held_up"] == []
    assert _metric(node, "uploads_total") == 2 and _metric(node, "upload_oldest_seconds") == 0


def _metric(node: BrokerProcess, name: str) -> float:
    text = ask(f"{node.http_url}/metrics").text
    (value,) = re.findall(rf"^tallystick_store_{name} (\S+)$", text, re.MULTILINE)
    return float(value)


def test_credentials_that_are_refused_end_the_start_with_a_sentence(nodes: NodesApart) -> None:
    nodes.line.spoil = lambda method, path: Fault.REFUSED
    node = nodes.node(1)
    with pytest.raises(BrokerFailed, match="ended with status 2"):
        node.start()
    assert "refuses these credentials: AccessDenied: Access Denied." in node.log_end(1 << 16)
    assert SECRET not in node.log_end(1 << 20)
    nodes.line.mend()
    node.start()
    assert node.stop() == 0


def test_a_bucket_that_is_away_is_waited_for_at_the_start(nodes: NodesApart) -> None:
    nodes.line.cut()
    node = nodes.node(1)
    starting = threading.Thread(target=node.start)
    starting.start()
    try:
        nodes.wait_until(lambda: "the store cannot be reached" in _log_of(node), "it says that it waits")
    finally:
        nodes.line.open()
        starting.join()
    assert node.stop() == 0


def _log_of(node: BrokerProcess) -> str:
    return node.log_end(1 << 16) if node.log.exists() else ""


def test_clients_that_ask_for_the_settings_are_told_the_bucket_and_no_secret(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    asked = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    found = admin.describe_configs([asked])[asked].result(PATIENCE_S)
    assert str(found["tallystick.store.objects"].value).startswith("s3://bucket/")
    assert SECRET not in str({name: one.value for name, one in found.items()})
    assert node.stop() == 0


def test_an_orderly_end_does_not_wait_for_a_bucket_that_is_gone(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap, "message.timeout.ms": 60_000, "linger.ms": 0})
    producer.produce("t", b"a")
    assert producer.flush(PATIENCE_S) == 0
    nodes.line.cut()
    producer.produce("t", b"b")
    assert producer.flush(1.0) == 1
    assert node.stop(seconds=PATIENCE_S) == 1
    nodes.line.open()
    node.start()
    assert producer.flush(PATIENCE_S) == 0
    assert everything(node.bootstrap, "t") == ["a", "b"]


def test_a_node_without_the_bucket_is_refused(nodes: NodesApart) -> None:
    node = nodes.node(1).start()
    make_topic(node.bootstrap, "t")
    bare = super(NodesApart, nodes).node(2)
    with pytest.raises(BrokerFailed, match="ended with status 2"):
        bare.start()
    assert "tallystick.store.objects has to say so" in bare.log_end(1 << 16)
    try:
        make_topic(node.bootstrap, "other")
    except KafkaException as error:
        pytest.fail(f"the first is disturbed: {error}")
