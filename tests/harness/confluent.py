"""Helpers over confluent-kafka: write, read a topic to its end, make topics, use the admin client."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS = 60.0
"""How long a client call may take before a test is lost; never what a test measures."""


def admin(bootstrap: str, **settings: Any) -> AdminClient:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return AdminClient({"bootstrap.servers": bootstrap} | named)


def make_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> str:
    wanted = NewTopic(topic, partitions, 1, config={key.replace("__", "."): value for key, value in config.items()})
    asker = admin(bootstrap)
    asker.create_topics([wanted])[topic].result(SECONDS)
    return topic


def producer(bootstrap: str, **settings: Any) -> Producer:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 2} | named)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    defaults = {"group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 2}
    return Consumer({"bootstrap.servers": bootstrap} | defaults | named)


class Deliveries:
    """A delivery callback that keeps what was acknowledged and what failed."""

    def __init__(self) -> None:
        self.acknowledged: list[Message] = []
        self.failed: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message)
        else:
            self.failed.append(error)


def write(bootstrap: str, topic: str, values: Iterable[bytes], *, partition: int = -1, **settings: Any) -> Deliveries:
    """Produce all values and wait for every answer."""
    sender, deliveries = producer(bootstrap, **settings), Deliveries()
    for value in values:
        while True:
            try:
                sender.produce(topic, value, key=value[:8], partition=partition, on_delivery=deliveries)
                break
            except BufferError:
                sender.poll(0.05)
        sender.poll(0)
    assert sender.flush(SECONDS) == 0
    return deliveries


def read_all(bootstrap: str, topic: str, *, read_committed: bool = True, **settings: Any) -> list[Message]:
    """Every record of a topic, from the beginning to the end that the isolation level shows now."""
    isolation = "read_committed" if read_committed else "read_uncommitted"
    reader = consumer(bootstrap, isolation__level=isolation, enable__partition__eof=True, **settings)
    try:
        partitions = reader.list_topics(topic, SECONDS).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        at_end: set[int] = set()
        found: list[Message] = []
        deadline = time.monotonic() + SECONDS
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, (
                f"{topic}: {len(at_end)} of {len(partitions)} partitions read to the end"
            )
            for message in reader.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
        return found
    finally:
        reader.close()


def values_of(messages: Iterable[Message]) -> list[bytes]:
    return [message.value() for message in messages]


def wait_until(condition: Callable[[], Any], what: str, *, seconds: float = SECONDS) -> Any:
    """The condition's first true value. Polls, because the other side is a process that sends no notice."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)
