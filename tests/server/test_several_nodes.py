"""Three nodes in one process, as a test of clients has them: leaders and coordinators move, nodes are killed and come
back, and clients lose nothing and double nothing.
"""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import tallystick
from tests.harness.confluent import (
    SECONDS,
    Deliveries,
    admin,
    consumer,
    make_topic,
    producer,
    read_all,
    values_of,
    wait_until,
    write,
)


@pytest.fixture
def broker(nodes: tallystick.Broker) -> tallystick.Broker:
    return nodes


def leaders(broker: tallystick.Broker, topic: str) -> dict[int, int]:
    """As clients are told."""
    found = admin(broker.bootstrap).list_topics(topic, timeout=SECONDS).topics[topic].partitions
    return {index: partition.leader for index, partition in found.items()}


def transactional(broker: tallystick.Broker, name: str) -> Producer:
    made = producer(broker.bootstrap, transactional__id=name)
    made.init_transactions(SECONDS)
    return made


def numbered(count: int, word: str = "") -> list[bytes]:
    return [f"{word}{number}".encode() for number in range(count)]


class Running:
    """A producer that writes numbers until it is stopped, and what was acknowledged of them."""

    def __init__(self, broker: tallystick.Broker, topic: str) -> None:
        self.deliveries = Deliveries()
        self.written = 0
        self._topic = topic
        self._stop = threading.Event()
        self._producer = producer(broker.bootstrap, enable__idempotence=True)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"%d" % self.written, on_delivery=self.deliveries)
            self.written += 1
            self._producer.poll(0.001)
        self._producer.flush(SECONDS)

    def goes_on(self) -> None:
        """Until more is acknowledged."""
        wanted = len(self.deliveries.acknowledged) + 20
        wait_until(lambda: len(self.deliveries.acknowledged) >= wanted, "records that are acknowledged")

    def stop(self) -> list[bytes]:
        self._stop.set()
        self._thread.join(SECONDS)
        assert self.deliveries.failed == []
        assert len(self.deliveries.acknowledged) == self.written
        return numbered(self.written)


def test_each_node_leads_its_share_and_is_a_bootstrap_server(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 6)
    assert sorted(leaders(broker, "orders").values()) == [1, 1, 2, 2, 3, 3]
    addresses = broker.node_addresses()
    assert broker.bootstrap == ",".join(addresses[node] for node in (1, 2, 3))
    for address in addresses.values():
        found = admin(address).list_topics(timeout=SECONDS)
        assert {node: f"{one.host}:{one.port}" for node, one in found.brokers.items()} == addresses
        assert found.controller_id == broker.controller()


def test_records_of_all_leaders_are_read(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 6)
    assert len(write(broker.bootstrap, "orders", numbered(300)).acknowledged) == 300
    assert sorted(values_of(read_all(broker.bootstrap, "orders"))) == sorted(numbered(300))


def test_a_transaction_across_nodes_is_committed_or_aborted_as_a_whole(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 3)
    assert set(leaders(broker, "orders").values()) == {1, 2, 3}
    writer = transactional(broker, "copier")
    for commits in (True, False, True):
        writer.begin_transaction()
        for partition in range(3):
            writer.produce("orders", b"%r" % commits, partition=partition)
        writer.flush(SECONDS)
        (writer.commit_transaction if commits else writer.abort_transaction)(SECONDS)
    assert values_of(read_all(broker.bootstrap, "orders")) == [b"True"] * 6
    broker.audit()


@pytest.mark.parametrize("whom", ["the leader", "the controller"])
def test_a_producer_goes_on_when_a_node_is_killed(broker: tallystick.Broker, whom: str) -> None:
    make_topic(broker.bootstrap, "orders")
    if whom == "the controller":
        controller = broker.controller()
        broker.move_leader("orders", 0, to=controller % 3 + 1)
        killed = controller
    else:
        killed = broker.leader("orders", 0)
    running = Running(broker, "orders")
    running.goes_on()
    broker.kill_node(killed)
    assert killed not in broker.node_addresses()
    running.goes_on()
    assert killed not in (broker.controller(), broker.leader("orders", 0))
    broker.start_node(killed)
    running.goes_on()
    written = running.stop()
    assert values_of(read_all(broker.bootstrap, "orders")) == written


def test_a_leader_moves_under_a_producer(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    running = Running(broker, "orders")
    for to in (1, 2, 3, 1, 3, 2):
        broker.move_leader("orders", 0, to=to)
        assert leaders(broker, "orders") == {0: to}
        running.goes_on()
    written = running.stop()
    assert values_of(read_all(broker.bootstrap, "orders")) == written


def test_a_coordinator_moves_in_the_middle_of_a_transaction(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 3)
    writer = transactional(broker, "copier")
    for round_number in range(3):
        writer.begin_transaction()
        for partition in range(3):
            writer.produce("orders", b"%d" % round_number, partition=partition)
        writer.flush(SECONDS)
        to = broker.coordinator(transactional_id="copier") % 3 + 1
        broker.move_coordinator(transactional_id="copier", to=to)
        assert broker.coordinator(transactional_id="copier") == to
        assert [one["transactionalId"] for one in broker.open_transactions()] == ["copier"]
        writer.produce("orders", b"%d again" % round_number, partition=0)
        writer.commit_transaction(SECONDS)
    expected = sorted([b"0", b"1", b"2"] * 3 + [b"0 again", b"1 again", b"2 again"])
    assert sorted(values_of(read_all(broker.bootstrap, "orders"))) == expected
    broker.audit()


def test_the_coordinator_of_an_open_transaction_is_killed(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 3)
    writer = transactional(broker, "copier")
    writer.begin_transaction()
    for partition in range(3):
        writer.produce("orders", b"x", partition=partition)
    writer.flush(SECONDS)
    broker.kill_node(broker.coordinator(transactional_id="copier"))
    writer.commit_transaction(SECONDS)
    assert values_of(read_all(broker.bootstrap, "orders")) == [b"x"] * 3
    broker.audit()


def test_a_group_goes_on_with_another_coordinator(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 3)
    write(broker.bootstrap, "orders", numbered(30))
    reader = consumer(broker.bootstrap, group__id="readers")
    reader.subscribe(["orders"])
    found = [value_of(reader) for _ in range(30)]
    reader.commit(asynchronous=False)
    broker.move_coordinator(group="readers", to=broker.coordinator(group="readers") % 3 + 1)
    write(broker.bootstrap, "orders", numbered(30, "more "))
    found += [value_of(reader) for _ in range(30)]
    reader.commit(asynchronous=False)
    reader.close()
    assert sorted(found) == sorted(numbered(30) + numbered(30, "more "))
    asker = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    committed = asker.committed([TopicPartition("orders", partition) for partition in range(3)], timeout=SECONDS)
    asker.close()
    assert sum(one.offset for one in committed) == 60


def value_of(reader: Consumer) -> bytes:
    message = wait_until(lambda: reader.poll(1.0), "a record")
    assert message.error() is None, message.error()
    value: bytes = message.value()
    return value


def test_time_goes_by_for_all_of_them(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    writer = transactional(broker, "copier")
    writer.begin_transaction()
    writer.produce("orders", b"x")
    writer.flush(SECONDS)
    broker.advance_time("40d")
    wait_until(lambda: broker.open_transactions() == [], "the abort by timeout")
    with pytest.raises(KafkaException):
        writer.commit_transaction(SECONDS)
    assert sorted(broker.node_addresses()) == [1, 2, 3]
    assert len(write(broker.bootstrap, "orders", [b"behind"]).acknowledged) == 1


def test_what_is_not_there_is_refused_in_a_sentence(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders")
    broker.kill_node(2)
    for ask, said in (
        (lambda: broker.kill_node(2), "node 2 does not run"),
        (lambda: broker.kill_node(4), "there is no node 4; there are 1, 2, 3"),
        (lambda: broker.start_node(1), "node 1 runs"),
        (lambda: broker.start_node(4), "there is no node 4"),
        (lambda: broker.move_leader("orders", 0, to=2), "no node 2 runs"),
        (lambda: broker.move_leader("orders", 1, to=1), "there is no partition orders-1"),
        (lambda: broker.leader("nothing", 0), "there is no partition nothing-0"),
        (broker.fork, "in memory alone"),
        (broker.mark, "in memory alone"),
    ):
        with pytest.raises(tallystick.NotDone, match=said):
            ask()


def test_what_happened_in_any_node_is_told(broker: tallystick.Broker) -> None:
    make_topic(broker.bootstrap, "orders", 3)
    writer = transactional(broker, "copier")
    writer.begin_transaction()
    for partition in range(3):
        writer.produce("orders", b"x", partition=partition)
    writer.flush(SECONDS)
    (one,) = broker.open_transactions()
    assert (one["transactionalId"], one["state"], one["written"]["records"]) == ("copier", "Ongoing", 3)
    assert one["client"]["clientId"] == "rdkafka"
    writer.commit_transaction(SECONDS)
    wait_until(lambda: broker.timeline("copier")["events"][-1].get("state") == "CompleteCommit", "it is complete")
    events = broker.timeline("copier")["events"]
    written = {(event["topic"], event["partition"]) for event in events if event["is"] == "records"}
    assert written == {("orders", 0), ("orders", 1), ("orders", 2)}
    marked = {tuple(place[:2]) for event in events if event["is"] == "markers" for place in event["places"]}
    assert marked == written
    assert not any(event["byOperator"] for event in events if event["is"] == "markers"), "a coordinator has sent them"


def test_all_have_certificates_and_trust_one_another(tmp_path: Path) -> None:
    with tallystick.Broker(folder=tmp_path, nodes=3, tls=True) as broker:
        asker = AdminClient(broker.client_settings)
        asker.create_topics([NewTopic("orders", 3, 1)])["orders"].result(SECONDS)
        writer = Producer({**broker.client_settings, "transactional.id": "copier"})
        writer.init_transactions(SECONDS)
        writer.begin_transaction()
        for partition in range(3):
            writer.produce("orders", b"x", partition=partition)
        writer.commit_transaction(SECONDS)
        broker.audit()


def test_by_the_command_line(tmp_path: Path) -> None:
    with tallystick.Broker(folder=tmp_path, nodes=2, config={"node.id": 5}) as broker:
        found = admin(broker.bootstrap).list_topics(timeout=SECONDS)
        assert sorted(found.brokers) == [5, 6]
        make_topic(broker.bootstrap, "orders", 2)
        assert len(write(broker.bootstrap, "orders", numbered(10)).acknowledged) == 10
        assert broker.stop() == 0
        assert f"tallystick listens on {broker.bootstrap}; data in memory" in broker.process.log_end()
        broker.process.options += ["--data-dir", str(tmp_path / "data")]
        with pytest.raises(tallystick.BrokerFailed, match=r"(?s)ended with status 2 .* have no data folder"):
            broker.start()


def test_all_are_gone_and_come_back_where_they_were(tmp_path: Path) -> None:
    with tallystick.Broker(folder=tmp_path, nodes=3, control=True) as broker:
        addresses = broker.node_addresses()
        make_topic(broker.bootstrap, "orders")
        assert broker.stop() == 0
        broker.start()
        assert broker.node_addresses() == addresses
        assert "orders" not in admin(broker.bootstrap).list_topics(timeout=SECONDS).topics
        broker.restart(kill=True)
        assert broker.node_addresses() == addresses


def test_one_node_has_no_others(tmp_path: Path) -> None:
    with tallystick.Broker(folder=tmp_path, control=True) as broker:
        with pytest.raises(tallystick.NotDone, match="it is one node; start it with several"):
            broker.kill_node(1)
        broker.wipe()
