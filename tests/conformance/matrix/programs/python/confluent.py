"""confluent-kafka (librdkafka) in the stories."""

from functools import cached_property
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from telling import (
    PATIENCE_S,
    Member,
    NotOffered,
    Teller,
    headers_of,
    main,
    shown,
    streamed,
    wait_until,
    whole_record,
    written,
)

STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
NOWHERE = -1001
"""No offset."""


def address(at: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": at["bootstrap"], "log_level": 0}
    if "mechanism" in at:
        settings |= {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": at["authority"],
            "sasl.mechanism": at["mechanism"],
            "sasl.username": at["user"],
            "sasl.password": at["password"],
        }
    return settings


class Polled(Member):
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__()
        self._reader = Consumer(settings)
        self._reader.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self.thread.start()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned({one.partition for one in partitions})

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked({one.partition for one in partitions})

    def poll(self) -> None:
        while not self.leaving.is_set():
            message = self._reader.poll(0.02)
            if message is not None and message.error() is None:
                self.values.add(message.value())
        self._reader.close()


class Confluent(Teller):
    def __init__(self, at: dict[str, str]) -> None:
        super().__init__(at)
        self._settings = address(at)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._settings)

    def close(self) -> None:
        super().close()
        self.producers.clear()

    def _producer(self, **more: Any) -> Producer:
        settings = {"linger.ms": 5, "message.timeout.ms": int(PATIENCE_S * 1000), "message.max.bytes": 2_000_000}
        return Producer(self._settings | settings | {name.replace("__", "."): value for name, value in more.items()})

    @staticmethod
    def _write(producer: Producer, topic: str, records: list[dict[str, Any]]) -> list[int | None]:
        offsets: list[int | None] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            (errors if error else offsets).append(error or message.offset())

        for record in records:
            key, value = written(record.get("key")), written(record.get("value"))
            headers = headers_of(record) or None
            producer.produce(topic, value, key, partition=0, on_delivery=delivered, headers=headers)
        left = producer.flush(PATIENCE_S)
        if errors:
            raise KafkaException(errors[0])
        if left:
            raise TimeoutError(f"{left} records were not answered")
        return offsets

    def do_produce(self, *, topic: str, records: Any, codec: str = "none", acks: str = "all") -> list[int | None]:
        producer = self._producer(compression__type=codec, acks=acks, linger__ms=50)
        offsets = self._write(producer, topic, records)
        return [None] * len(offsets) if acks == "0" else offsets

    def do_stream(self, *, topic: str, count: int) -> int:
        producer = self._producer(enable__idempotence=True, reconnect__backoff__ms=10, reconnect__backoff__max__ms=50)
        for first in range(0, count, 50):
            self._write(producer, topic, [{"value": streamed(number).decode()} for number in range(first, first + 50)])
        return count

    def do_press(self, *, topic: str, client_id: str, count: int, size: int) -> dict[str, Any]:
        waits: list[float] = []
        producer = self._producer(
            client__id=client_id, batch__size=100_000, throttle_cb=lambda event: waits.append(event.throttle_time)
        )
        offsets = self._write(producer, topic, [{"value": "x" * size}] * count)
        producer.poll(0)
        return {"acknowledged": len(offsets), "throttled": any(wait > 0 for wait in waits)}

    def _reader(self, group: str, **more: Any) -> dict[str, Any]:
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return self._settings | settings | {name.replace("__", "."): value for name, value in more.items()}

    @staticmethod
    def _up_to_the_end(reader: Consumer) -> list[Any]:
        found: list[Any] = []

        def at_end() -> bool:
            message = reader.poll(0.1)
            if message is None:
                return False
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
            return message.value() == b"end"

        if not wait_until(at_end, bool):
            raise TimeoutError(f"no end behind {[shown(one.value()) for one in found]}")
        return found[:-1]

    def do_read(self, *, topic: str, committed: bool = False, whole: bool = False, **where: int) -> list[Any]:
        isolation = "read_committed" if committed else "read_uncommitted"
        reader = Consumer(self._reader("may-reader", isolation__level=isolation))
        reader.assign([TopicPartition(topic, 0, where.get("from", 0))])
        found = self._up_to_the_end(reader)
        reader.close()
        if whole:
            return [whole_record(one.key(), one.value(), one.headers()) for one in found]
        return [shown(one.value()) for one in found]

    def member(self, *, group: str, topic: str, strategy: str, instance: str | None = None) -> Member:
        if strategy not in STRATEGIES:
            raise NotOffered(f"no assignor {strategy}")
        more = {"group__instance__id": instance} if instance else {}
        settings = self._reader(group, partition__assignment__strategy=strategy, heartbeat__interval__ms=200, **more)
        return Polled(settings, topic)

    def do_resume(self, *, group: str, topic: str) -> list[Any]:
        reader = Consumer(self._reader(group))
        reader.subscribe([topic])
        try:
            found = self._up_to_the_end(reader)
            reader.commit(asynchronous=False)
        finally:
            reader.close()
        return [shown(one.value()) for one in found]

    def do_commit(self, *, group: str, topic: str, offset: int, metadata: str = "") -> None:
        reader = Consumer(self._reader(group))
        reader.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
        reader.close()

    def do_committed(self, *, group: str, topic: str) -> Any:
        reader = Consumer(self._reader(group))
        (found,) = reader.committed([TopicPartition(topic, 0)], PATIENCE_S)
        reader.close()
        if found.offset == NOWHERE:
            return None
        return {"offset": found.offset, "metadata": found.metadata or ""}

    # ------------------------------------------------------------------------------------------------ transactions

    def do_open(self, *, producer: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        made = self._producer(
            transactional__id=transactional_id, transaction__timeout__ms=timeout_ms, message__timeout__ms=timeout_ms
        )
        made.init_transactions(PATIENCE_S)
        self.producers[producer] = made

    def do_begin(self, *, producer: str) -> None:
        self.producers[producer].begin_transaction()

    def do_send(self, *, producer: str, topic: str, values: list[str]) -> None:
        self._write(self.producers[producer], topic, [{"value": value} for value in values])

    def do_offsets(self, *, producer: str, group: str, topic: str, offset: int) -> None:
        reader = Consumer(self._reader(group))
        position = [TopicPartition(topic, 0, offset)]
        self.producers[producer].send_offsets_to_transaction(position, reader.consumer_group_metadata(), PATIENCE_S)
        reader.close()

    def do_end(self, *, producer: str, commit: bool) -> None:
        one = self.producers[producer]
        (one.commit_transaction if commit else one.abort_transaction)(PATIENCE_S)

    def do_finish(self, *, producer: str, topic: str, values: list[str]) -> None:
        one = self.producers[producer]
        for value in values:
            one.produce(topic, value, partition=0)
        one.commit_transaction(PATIENCE_S)

    # ---------------------------------------------------------------------------------------------- administration

    def do_make(self, *, topic: str, partitions: int, settings: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(PATIENCE_S)

    def do_partitions(self, *, topic: str) -> int:
        admin = self._admin
        return wait_until(
            lambda: len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions), lambda count: count > 0
        )

    def do_grow(self, *, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)

    def do_drop(self, *, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def do_set(self, *, topic: str, name: str, value: str) -> None:
        changed = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[changed])
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)

    def do_setting(self, *, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self._admin.describe_configs([resource])[resource].result(PATIENCE_S)[name].value)

    def do_bounds(self, *, topic: str) -> list[int]:
        where, admin = TopicPartition(topic, 0), self._admin
        specs = (OffsetSpec.earliest(), OffsetSpec.latest())
        return [admin.list_offsets({where: spec})[where].result(PATIENCE_S).offset for spec in specs]

    def do_trim(self, *, topic: str, before: int) -> None:
        where = TopicPartition(topic, 0, before)
        self._admin.delete_records([where])[where].result(PATIENCE_S)

    def do_listed(self, *, group: str) -> bool:
        return group in [one.group_id for one in self._admin.list_consumer_groups().result(PATIENCE_S).valid]

    def do_state(self, *, group: str) -> str:
        found: ConsumerGroupState = self._admin.describe_consumer_groups([group])[group].result(PATIENCE_S).state
        return found.name.lower()

    def do_forget(self, *, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(PATIENCE_S)

    def do_quota(self, **_: Any) -> None:
        raise NotOffered("its administrator knows no quotas")


if __name__ == "__main__":
    main(Confluent)
