"""Readers of a rack are sent to a node of theirs, which reads what others lead out of the store (KIP-392)."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer

import tallystick
from broker.api.fetching.fetch_attempt import NEAR_SINCE
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from protocol.records.batch import headers_in
from tests.harness.confluent import (
    SECONDS,
    Deliveries,
    admin,
    make_topic,
    producer,
    values_of,
    wait_until,
    write,
)
from tests.harness.kafka_tools import run_tool
from tests.harness.together import answer_of

RACKS = {1: "a", 2: "b", 3: "c"}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COMMITTED = 1
BEHIND_MS = 20_000
"""How long a fetch waits for what is to come."""


@pytest.fixture(scope="module")
def in_racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tallystick.Broker]:
    config = {"broker.rack": ",".join(RACKS.values()), "replica.selector.class": SELECTOR}
    with tallystick.Broker(folder=tmp_path_factory.mktemp("racks"), nodes=3, control=True, config=config) as running:
        yield running


@pytest.fixture
def nodes(in_racks: tallystick.Broker) -> Iterator[tallystick.Broker]:
    yield in_racks
    in_racks.clear_faults()
    in_racks.start_nodes()
    in_racks.wipe()
    assert "Traceback" not in in_racks.process.log.read_text()


class Reader:
    """One of a rack, who reads the only partition of a topic."""

    def __init__(self, nodes: tallystick.Broker, rack: str, *, isolation: int = COMMITTED) -> None:
        self._nodes, self._rack, self._isolation = nodes, rack, isolation
        self._topic_id = _described(nodes, "t").topic_id

    def fetch(self, node: int, offset: int, max_wait_ms: int = BEHIND_MS, version: int | None = None) -> PartitionData:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", topic_id=self._topic_id, partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id=self._rack,
        )
        (topic,) = answer_of(self._nodes.node_addresses()[node], request, version=version).responses
        found: PartitionData = topic.partitions[0]
        return found


def _described(nodes: tallystick.Broker, topic: str) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    address = next(one for node, one in nodes.node_addresses().items() if node == nodes.controller())
    found: MetadataResponseTopic
    (found,) = answer_of(address, request).topics
    return found


def offsets(found: PartitionData) -> list[int]:
    return [header.base_offset for _, header in headers_in(found.records or b"")]


def another(node: int) -> int:
    return next(one for one in RACKS if one != node)


def test_the_leader_sends_readers_of_another_rack_to_a_node_of_theirs(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0", b"1"])
    leader = nodes.leader("t", 0)
    near = another(leader)
    told = Reader(nodes, RACKS[near]).fetch(leader, 0)
    assert (told.error_code, told.preferred_read_replica, told.records) == (ErrorCode.NONE, near, b"")
    assert (told.high_watermark, told.log_start_offset) == (2, 0)
    found = Reader(nodes, RACKS[near]).fetch(near, 0)
    assert (found.error_code, found.preferred_read_replica, found.high_watermark) == (ErrorCode.NONE, -1, 2)
    assert offsets(found)[0] == 0
    for rack in (RACKS[leader], "d", ""):
        assert offsets(Reader(nodes, rack).fetch(leader, 0))[0] == 0, "who has no node nearer reads here"
    beyond = Reader(nodes, RACKS[near]).fetch(leader, 7)
    assert (beyond.error_code, beyond.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_node_that_does_not_lead_reads_for_all_who_know_of_that(nodes: tallystick.Broker) -> None:
    """librdkafka stays at a node that has led, where it is told of the new leader and of an error in one answer."""
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0"])
    leader = nodes.leader("t", 0)
    near = another(leader)
    for rack in (RACKS[near], "", "d", RACKS[leader]):
        assert offsets(Reader(nodes, rack).fetch(near, 0)) == [0]
    assert Reader(nodes, RACKS[near]).fetch(near, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    too_old = Reader(nodes, RACKS[near]).fetch(near, 0, version=NEAR_SINCE - 1)
    assert too_old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets(Reader(nodes, RACKS[near]).fetch(leader, 0, version=NEAR_SINCE - 1)) == [0]


def test_clients_hear_of_all_nodes_that_they_may_read_from(nodes: tallystick.Broker) -> None:
    """Java's consumers go to no other."""
    make_topic(nodes.bootstrap, "t")
    leader = nodes.leader("t", 0)
    others = [one for one in RACKS if one != leader]
    (told,) = _described(nodes, "t").partitions
    assert (told.replica_nodes, told.isr_nodes, told.offline_replicas) == ([leader, *others], [leader, *others], [])
    nodes.kill_node(others[0])
    wait_until(lambda: _described(nodes, "t").partitions[0].replica_nodes == [leader, others[1]], "one is gone")


def test_kafka_python_reads_everything_in_its_rack(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t", 6)
    values = [b"%d" % number for number in range(60)]
    write(nodes.bootstrap, "t", values)
    reader = KafkaConsumer(
        "t",
        bootstrap_servers=nodes.bootstrap.split(","),
        client_rack=RACKS[2],
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(SECONDS * 1000),
    )
    found = [next(reader).value for _ in values]
    reader.close()
    assert sorted(found) == sorted(values)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_reads_everything_in_its_rack(nodes: tallystick.Broker, protocol: str) -> None:
    """It goes to a node of its rack only where that is told of as a replica in sync; of what leads elsewhere it would
    otherwise read nothing."""
    make_topic(nodes.bootstrap, "t", 6)
    values = [b"%d" % number for number in range(60)]
    write(nodes.bootstrap, "t", values)
    said = ["--bootstrap-server", nodes.bootstrap, "--topic", "t", "--from-beginning", "--timeout-ms", "60000"]
    for setting in (f"client.rack={RACKS[2]}", f"group.protocol={protocol}", "isolation.level=read_committed"):
        said += ["--command-property", setting]
    done = run_tool("consumer.ConsoleConsumer", *said, "--max-messages", str(len(values)))
    assert sorted(done.output.encode().split()) == sorted(values), done.errors[-2000:]


def test_what_the_leader_has_shown_is_there_at_once(nodes: tallystick.Broker) -> None:
    """The last look of the other node is older than what its reader has seen."""
    make_topic(nodes.bootstrap, "t")
    leader = nodes.leader("t", 0)
    near = another(leader)
    reader = Reader(nodes, RACKS[near])
    for number in range(20):
        write(nodes.bootstrap, "t", [b"%d" % number])
        assert reader.fetch(near, number + 1, max_wait_ms=0).high_watermark == number + 1
        assert offsets(reader.fetch(near, number)) == [number]


def test_a_reader_waits_there_for_what_comes(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0"])
    near = another(nodes.leader("t", 0))
    reader = Reader(nodes, RACKS[near])
    assert offsets(reader.fetch(near, 0)) == [0]
    found: list[PartitionData] = []
    waits = threading.Thread(target=lambda: found.append(reader.fetch(near, 1)))
    waits.start()
    write(nodes.bootstrap, "t", [b"1"])
    waits.join(SECONDS)
    assert offsets(found[0]) == [1]


def test_undecided_and_aborted_transactions_are_as_at_the_leader(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    near = another(leader := nodes.leader("t", 0))
    reader, dirty = Reader(nodes, RACKS[near]), Reader(nodes, RACKS[near], isolation=0)
    at_leader = Reader(nodes, RACKS[leader])
    writer = producer(nodes.bootstrap, transactional__id="x")
    writer.init_transactions(SECONDS)
    count = 0
    for ends in (writer.abort_transaction, writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        writer.produce("t", b"open")
        assert writer.flush(SECONDS) == 0
        there = at_leader.fetch(leader, 0)
        assert dirty.fetch(near, there.high_watermark - 1).high_watermark == there.high_watermark
        found = reader.fetch(near, 0) if there.last_stable_offset else None
        if found is not None:
            assert found.last_stable_offset == there.last_stable_offset == there.high_watermark - 1
            assert found.aborted_transactions == there.aborted_transactions
            assert bytes(found.records) == bytes(there.records)
        ends(SECONDS)
        count += 2
        wait_until(lambda: at_leader.fetch(leader, 0).last_stable_offset == count, "a marker")  # noqa: B023
    there = at_leader.fetch(leader, 0)
    found = reader.fetch(near, there.last_stable_offset - 1)
    assert found.last_stable_offset == there.last_stable_offset == 6
    found = reader.fetch(near, 0)
    assert found.aborted_transactions == there.aborted_transactions and len(found.aborted_transactions or []) == 2


def test_records_that_are_deleted_leave_the_other_nodes_too(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0", b"1", b"2"])
    near = another(nodes.leader("t", 0))
    reader = Reader(nodes, RACKS[near])
    assert reader.fetch(near, 0).log_start_offset == 0
    asker = admin(nodes.bootstrap)
    for future in asker.delete_records([TopicPartition("t", 0, 2)]).values():
        future.result(SECONDS)

    def gone() -> bool:
        return bool(reader.fetch(near, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE)

    wait_until(gone, "they are not read any more")
    assert reader.fetch(near, 2).log_start_offset == 2


def test_a_node_becomes_the_leader_of_what_it_has_followed(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0"])
    leader = nodes.leader("t", 0)
    near = another(leader)
    reader = Reader(nodes, RACKS[near])
    assert offsets(reader.fetch(near, 0)) == [0]
    nodes.move_leader("t", 0, to=near)
    write(nodes.bootstrap, "t", [b"1"])
    assert offsets(reader.fetch(near, 1)) == [1]
    assert Reader(nodes, RACKS[leader]).fetch(near, 1).preferred_read_replica == leader
    assert offsets(Reader(nodes, RACKS[leader]).fetch(leader, 1)) == [1]


def test_a_topic_that_is_deleted_and_made_again_is_another(nodes: tallystick.Broker) -> None:
    make_topic(nodes.bootstrap, "t")
    write(nodes.bootstrap, "t", [b"0"])
    near = another(nodes.leader("t", 0))
    before = Reader(nodes, RACKS[near])
    assert offsets(before.fetch(near, 0)) == [0]
    asker = admin(nodes.bootstrap)
    asker.delete_topics(["t"])["t"].result(SECONDS)
    make_topic(nodes.bootstrap, "t")
    assert before.fetch(near, 0).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    write(nodes.bootstrap, "t", [b"anew"])
    near = another(nodes.leader("t", 0))
    assert Reader(nodes, RACKS[near]).fetch(near, 0).high_watermark == 1


class Reading:
    """librdkafka in a rack, and which node it has read from."""

    def __init__(self, nodes: tallystick.Broker, rack: str) -> None:
        self.values: list[bytes] = []
        self.read_from: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": nodes.bootstrap,
                "group.id": f"of-{rack}",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "statistics.interval.ms": 50,
                "stats_cb": self._told,
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(["t"])

    def _told(self, told: str) -> None:
        for partition in json.loads(told)["topics"].get("t", {}).get("partitions", {}).values():
            if partition["partition"] >= 0 and partition["fetch_state"] == "active":
                self.read_from.add(partition["broker"])

    def poll(self) -> None:
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values += values_of([message])

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        def has_happened() -> bool:
            self.poll()
            return happened()

        wait_until(has_happened, what)

    def close(self) -> None:
        self._consumer.close()


def test_librdkafka_reads_everything_from_its_own_rack(nodes: tallystick.Broker) -> None:
    """While leaders move, transactions are aborted, and the node of its rack is killed and comes back."""
    make_topic(nodes.bootstrap, "t")
    leader = nodes.leader("t", 0)
    near = another(leader)
    third = next(one for one in RACKS if one not in (leader, near))
    reading = Reading(nodes, RACKS[near])
    writer = producer(nodes.bootstrap, transactional__id="x")
    writer.init_transactions(SECONDS)
    committed: list[bytes] = []

    def some(word: bytes) -> None:
        for number in range(30):
            writer.begin_transaction()
            value = b"%s-%d" % (word, number)
            writer.produce("t", value, on_delivery=Deliveries())
            if number % 3:
                writer.commit_transaction(SECONDS)
                committed.append(value)
            else:
                writer.abort_transaction(SECONDS)
            reading.poll()

        reading.wait_for(lambda: len(reading.values) >= len(committed), "all that is committed")
        assert reading.values == committed

    some(b"first")
    assert near in reading.read_from
    nodes.move_leader("t", 0, to=third)
    some(b"moved")
    nodes.kill_node(near)
    some(b"killed")
    nodes.start_node(near)
    some(b"back")
    reading.read_from.clear()
    reading.wait_for(lambda: near in reading.read_from, "it reads from its rack again")
    reading.close()


def test_a_selector_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tallystick.BrokerFailed, match=r"replica\.selector\.class.*String must be one of"):
        tallystick.Broker(folder=tmp_path, config={"replica.selector.class": "mine"}).start()
