"""librdkafka, through confluent-kafka."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.drivers.driver import (
    ABORTABLE,
    FATAL,
    MOST_RECORDS,
    RETRIABLE,
    SESSION_MS,
    Failed,
    Place,
)

BACK_SOON = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "metadata.recovery.strategy": "none",
    "log_level": 2,
}
CALL_S = 15


class Producing:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, transactional_id: str | None, timeout_ms: int) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 2,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000 if transactional_id is None else timeout_ms,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._producer = Producer(settings | BACK_SOON)
        self._transactional = transactional_id is not None
        self._sent: list[int | None] = []

    def init(self) -> None:
        if self._transactional:
            _called(lambda: self._producer.init_transactions(CALL_S))

    def begin(self) -> None:
        self._sent.clear()
        _called(self._producer.begin_transaction)

    def send(self, place: Place, value: bytes, key: bytes) -> None:
        index = len(self._sent)
        sent = self._sent
        sent.append(None)

        def delivered(error: object, message: Message) -> None:
            if error is None:
                sent[index] = message.offset()

        _called(lambda: self._producer.produce(place[0], value, key, place[1], on_delivery=delivered))
        self._producer.poll(0)

    def sent(self) -> list[int | None]:
        if _called(lambda: self._producer.flush(130)):
            raise Failed(FATAL, "not everything was sent")
        found, self._sent = self._sent, []
        return found

    def send_offsets(self, group: str, offsets: Mapping[Place, int], member: "Joined | None") -> None:
        metadata = _metadata_of_nobody(group) if member is None else member.metadata()
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        _called(lambda: self._producer.send_offsets_to_transaction(positions, metadata, CALL_S))

    def commit(self) -> None:
        _called(lambda: self._producer.commit_transaction(CALL_S))

    def abort(self) -> None:
        _called(lambda: self._producer.abort_transaction(CALL_S))

    def close(self) -> None:
        self._producer.purge()


def _called(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except KafkaException as raised:
        error = raised.args[0]
        kind = RETRIABLE if error.retriable() else ABORTABLE if error.txn_requires_abort() else FATAL
        raise Failed(kind, error) from raised
    except BufferError as full:
        raise Failed(FATAL, full) from full


def _metadata_of_nobody(group: str) -> object:
    asker = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
    try:
        return asker.consumer_group_metadata()
    finally:
        asker.close()


class Joined:
    """A member; see `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, group: str, places: list[Place]) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings | BACK_SOON)
        self._found: list[tuple[Place, int, bytes]] = []
        self._assigned: dict[Place, int | None] | None = None
        self._consumer.subscribe([places[0][0]], on_assign=self._assign, on_revoke=self._revoke)

    def _assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._found.clear()
        self._assigned = {(one.topic, one.partition): None for one in partitions}

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._found.clear()

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        """Message by message: callbacks of a rebalance come in between, and what was there before counts no more."""
        self._found.clear()
        message = _called(lambda: self._consumer.poll(seconds))
        while message is not None:
            if message.error() is None:
                self._found.append(((message.topic(), message.partition()), message.offset(), message.value()))
            elif message.error().fatal():
                raise Failed(FATAL, message.error())
            if len(self._found) >= MOST_RECORDS:
                break
            message = _called(lambda: self._consumer.poll(0))
        return list(self._found)

    def assigned(self) -> dict[Place, int | None] | None:
        found, self._assigned = self._assigned, None
        return found

    def rewind(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            position = TopicPartition(*place, offset)
            _called(lambda position=position: self._consumer.seek(position))

    def metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        threading.Thread(target=self._consumer.close, daemon=True).start()  # it may wait for a broker


class Reading:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, places: list[Place]) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings | BACK_SOON)
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        found = []
        for message in self._consumer.consume(1000, seconds):
            if message.error() is None:
                found.append(((message.topic(), message.partition()), message.offset(), message.value()))
            elif not message.error().retriable() and message.error().fatal():
                raise Failed(FATAL, message.error())
        return found

    def close(self) -> None:
        self._consumer.close()
