"""librdkafka, through confluent-kafka."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.drivers.driver import ABORTABLE, FATAL, RETRIABLE, Failed, Place

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

    def send(self, place: Place, value: bytes) -> None:
        index = len(self._sent)
        sent = self._sent
        sent.append(None)

        def delivered(error: object, message: Message) -> None:
            if error is None:
                sent[index] = message.offset()

        _called(lambda: self._producer.produce(place[0], value, partition=place[1], on_delivery=delivered))
        self._producer.poll(0)

    def sent(self) -> list[int | None]:
        if _called(lambda: self._producer.flush(130)):
            raise Failed(FATAL, "not everything was sent")
        found, self._sent = self._sent, []
        return found

    def send_offsets(self, group: str, place: Place, offset: int) -> None:
        asker = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        try:
            metadata = asker.consumer_group_metadata()
        finally:
            asker.close()
        position = [TopicPartition(*place, offset)]
        _called(lambda: self._producer.send_offsets_to_transaction(position, metadata, CALL_S))

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
