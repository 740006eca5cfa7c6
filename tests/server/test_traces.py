"""Transactions as OpenTelemetry traces: what a collector is sent, and one that takes nothing holds nobody up."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tallystick import Broker, BrokerFailed
from tests.harness.confluent import make_topic, read_all
from tests.harness.otlp_collector import CollectedSpan, Collector, collecting

TIMES_OUT_SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}


@dataclass(frozen=True)
class Traced:
    broker: Broker
    collector: Collector


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    with collecting() as collector:
        broker = Broker(in_memory=True, durability="page-cache", config=TIMES_OUT_SOON)
        broker.process.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.address
        with broker:
            make_topic(broker.bootstrap, "orders", 2)
            yield Traced(broker, collector)
            assert "Traceback" not in broker.process.log.read_text()


def producer(broker: Broker, name: str, **settings: object) -> Producer:
    known = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "client.id": "copier", "log_level": 0}
    made = Producer({**known, **settings})
    made.init_transactions(60)
    return made


def written(broker: Broker, name: str, **settings: object) -> Producer:
    sender = producer(broker, name, **settings)
    sender.begin_transaction()
    for partition in range(2):
        for _ in range(3):
            sender.produce("orders", b"x" * 10, partition=partition)
    sender.flush(60)
    return sender


def trace_of(traced: Traced, name: str) -> tuple[CollectedSpan, list[CollectedSpan]]:
    root, children = traced.collector.wait_for_root(lambda span: span.name == f"transaction {name}")
    assert all(root.start_ns <= one.start_ns <= one.end_ns <= root.end_ns for one in children)
    assert all(one.parent == root.id for one in children)
    assert root.attributes["tallystick.transaction.is_whole"]
    return root, children


def names(children: list[CollectedSpan]) -> list[str]:
    return sorted(one.name for one in children)


def test_a_committed_transaction_is_one_trace_with_its_offsets(traced: Traced) -> None:
    sender = written(traced.broker, "committed")
    reader = Consumer({"bootstrap.servers": traced.broker.bootstrap, "group.id": "copiers"})
    offsets = [TopicPartition("orders", 0, 1)]
    sender.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 60)
    reader.close()
    sender.commit_transaction(60)
    root, children = trace_of(traced, "committed")
    requests = {"AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "Produce orders", "TxnOffsetCommit"}
    assert requests | {"COMMIT markers", "PrepareCommit"} == set(names(children))
    assert names(children).count("Produce orders") == 2
    said = root.attributes
    assert said["tallystick.transaction.outcome"] == "commit"
    assert said["messaging.batch.message_count"] == 6
    assert said["tallystick.transaction.partitions"] == 3  # one of them is the offsets'
    assert said["messaging.client.id"] == "copier"
    assert not root.is_error
    assert root.events == ("Ongoing", "PrepareCommit", "CompleteCommit")
    produced = sorted(
        (one.attributes["messaging.destination.partition.id"], one.attributes["messaging.batch.message_count"])
        for one in children
        if one.name == "Produce orders"
    )
    assert produced == [("0", 3), ("1", 3)]
    ended = next(one for one in children if one.name == "EndTxn")
    assert ended.attributes["tallystick.commit"] is True
    assert "tallystick.unanswered" not in ended.attributes
    (group,) = [one.attributes for one in children if one.name == "AddOffsetsToTxn"]
    assert group["messaging.consumer.group.name"] == "copiers"
    (asked,) = [span for span in traced.collector.spans if span.trace in root.links]
    assert asked.name == "InitProducerId"
    assert root.resource["service.name"] == "tallystick"
    assert root.resource["service.instance.id"] == "1"


def test_an_aborted_transaction_says_so(traced: Traced) -> None:
    written(traced.broker, "aborted").abort_transaction(60)
    root, children = trace_of(traced, "aborted")
    assert root.attributes["tallystick.transaction.outcome"] == "abort"
    assert root.is_error
    assert root.message == "aborted: EndTxn, abort"
    assert {"ABORT markers", "EndTxn", "PrepareAbort", "Produce orders"} <= set(names(children))


def test_a_transaction_that_times_out_has_no_end_of_its_producer(traced: Traced) -> None:
    written(traced.broker, "late", **{"transaction.timeout.ms": 1000})
    root, children = trace_of(traced, "late")
    assert root.attributes["tallystick.transaction.outcome"] == "timeout"
    assert (root.is_error, root.message) == (True, "timed out")
    assert "EndTxn" not in names(children)
    assert root.end_ns - root.start_ns >= 1000 * 1_000_000


@pytest.mark.parametrize("is_heard", [False, True], ids=["refuses", "hangs"])
def test_a_collector_that_takes_nothing_holds_up_neither_transactions_nor_the_end(is_heard: bool) -> None:
    """One that hangs takes the connection and never answers: the broker ends while it still holds it."""
    came = threading.Event()
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        if is_heard:
            hanging.listen()

        def hear() -> None:
            connection, _ = hanging.accept()
            came.set()
            connection.recv(1)
            held.append(connection)

        held: list[socket.socket] = []
        listener = threading.Thread(target=hear, daemon=True)
        config = {"tallystick.traces.endpoint": f"http://127.0.0.1:{hanging.getsockname()[1]}"}
        with Broker(in_memory=True, durability="page-cache", config=config) as broker:
            make_topic(broker.bootstrap, "orders", 2)
            written(broker, "first").commit_transaction(60)
            if is_heard:
                listener.start()
                assert came.wait(60)
            for number in range(3):
                written(broker, f"more-{number}").commit_transaction(60)
            assert len(read_all(broker.bootstrap, "orders")) == 24
            assert broker.process.stop() == 0
            log = broker.process.log.read_text()
        assert "stopped" in log
        assert "Traceback" not in log
        for connection in held:
            connection.close()


def test_an_address_that_is_none_stops_the_start() -> None:
    with pytest.raises(BrokerFailed, match="no address of a collector"):
        Broker(in_memory=True, config={"tallystick.traces.endpoint": "localhost:4318"}).start()
