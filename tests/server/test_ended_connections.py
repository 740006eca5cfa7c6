"""Clients that write with acks=0 and end their connections in order: whatever they have sent is there."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import pack

import pytest
from confluent_kafka import Producer

from protocol.records.record import NewRecord, build_batch
from tallystick import Broker
from tests.harness.confluent import wait_until
from tests.harness.framing import request_frame
from tests.server.test_bad_input import end_offset
from tests.server.test_many_and_slow import sockets
from tests.server.wire import SECONDS, Wire, make_topic, produce, still_serves

TOGETHER, EACH = 8, 200
"""More than the broker works on in one turn of its loop: most of it waits when the connections end."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(durability="page-cache") as running:
        yield running


def together(what: Callable[[], None]) -> None:
    threads = [threading.Thread(target=what) for _ in range(TOGETHER)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@pytest.mark.parametrize("end", ["close", "shutdown"])
@pytest.mark.parametrize("size", [1_000, 100_000])
def test_what_was_sent_before_the_end_is_there(broker: Broker, size: int, end: str) -> None:
    topic = f"{end}-{size}"
    make_topic(broker, topic)
    count = EACH * 1_000 // size or 1
    frame = request_frame(
        produce(topic, bytes(build_batch([NewRecord(value=bytes(size), timestamp_ms=1)])), acks=0), 9, 1
    )

    def send() -> None:
        with Wire(broker) as wire:
            wire.send(frame * count)
            if end == "shutdown":
                wire.socket.shutdown(socket.SHUT_WR)
                assert wire.closed()

    together(send)
    wait_until(lambda: end_offset(broker, topic) == TOGETHER * count, "all of it")
    still_serves(broker)


def test_a_producer_that_is_closed_behind_its_last_record(broker: Broker) -> None:
    make_topic(broker, "produced")

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": 0, "linger.ms": 0, "batch.num.messages": 1})
        for _ in range(EACH):
            producer.produce("produced", bytes(100))
        assert producer.flush(SECONDS) == 0
        producer.close()

    together(write)
    wait_until(lambda: end_offset(broker, "produced") == TOGETHER * EACH, "all of it")


@pytest.mark.parametrize("how", ["in order", "reset"])
def test_nothing_is_left_of_those_who_are_gone(broker: Broker, how: str) -> None:
    topic = how.replace(" ", "-")
    make_topic(broker, topic)
    records = bytes(build_batch([NewRecord(value=bytes(1_000), timestamp_ms=1)]))
    frame = request_frame(produce(topic, records, acks=0), 9, 1)  # an answer would show that nobody is there
    before = sockets(broker)
    for _ in range(TOGETHER):
        with Wire(broker) as wire, suppress(ConnectionError):
            wire.send(frame * EACH)
            if how == "reset":
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    wait_until(lambda: sockets(broker) <= before, "all are closed")
    still_serves(broker)
