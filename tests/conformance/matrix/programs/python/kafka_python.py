"""kafka-python in the stories."""

import ssl
from functools import cached_property
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType, NewTopic, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
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

STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}

LONG_MS = 1000
"""A poll that ends while the client joins again, because it has heard of the partitions since, loses the assignment
(3.0.12): what it waits for is looked at by the next poll only where that finds a reason to join. So polls are long.
"""


def address(at: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": at["bootstrap"], "request_timeout_ms": 40_000}
    if "mechanism" in at:
        settings |= {
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=at["authority"]),
            "sasl_mechanism": at["mechanism"],
            "sasl_plain_username": at["user"],
            "sasl_plain_password": at["password"],
        }
    return settings


class Polled(Member, ConsumerRebalanceListener):
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__()
        self._reader = KafkaConsumer(**settings)
        self._reader.subscribe([topic], listener=self)
        self.thread.start()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned({one.partition for one in assigned})

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked({one.partition for one in revoked})

    def poll(self) -> None:
        while not self.leaving.is_set():
            for records in self._reader.poll(LONG_MS).values():
                self.values |= {record.value for record in records}
        self._reader.close(autocommit=False)


class KafkaPython(Teller):
    def __init__(self, at: dict[str, str]) -> None:
        super().__init__(at)
        self._settings = address(at)

    @cached_property
    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(**self._settings)

    def close(self) -> None:
        super().close()
        if "_admin" in self.__dict__:
            self._admin.close()
        for producer in self.producers.values():
            producer.close(timeout=0)

    def _producer(self, **more: Any) -> KafkaProducer:
        # A value of 1 MB and what is around it are a little more than the default.
        return KafkaProducer(**self._settings, **{"linger_ms": 5, "max_request_size": 2_000_000} | more)

    @staticmethod
    def _write(producer: KafkaProducer, topic: str, records: list[dict[str, Any]]) -> list[int]:
        if any(content is None for record in records for _, content in headers_of(record)):
            raise NotOffered("it takes no header that is null")
        sent = [
            producer.send(
                topic,
                value=written(record.get("value")),
                key=written(record.get("key")),
                headers=headers_of(record),
                partition=0,
            )
            for record in records
        ]
        return [one.get(PATIENCE_S).offset for one in sent]

    def do_produce(self, *, topic: str, records: Any, codec: str = "none", acks: str = "all") -> list[int | None]:
        more = {"compression_type": None if codec == "none" else codec, "acks": acks if acks == "all" else int(acks)}
        if acks != "all":
            more["enable_idempotence"] = False
        producer = self._producer(linger_ms=50, **more)
        try:
            offsets = self._write(producer, topic, records)
        finally:
            producer.close()
        return [None] * len(offsets) if acks == "0" else offsets

    def do_stream(self, *, topic: str, count: int) -> int:
        producer = self._producer(enable_idempotence=True, reconnect_backoff_ms=10, reconnect_backoff_max_ms=50)
        for first in range(0, count, 50):
            self._write(producer, topic, [{"value": streamed(number).decode()} for number in range(first, first + 50)])
        producer.close()
        return count

    def do_press(self, *, topic: str, client_id: str, count: int, size: int) -> dict[str, Any]:
        producer = self._producer(client_id=client_id)
        offsets = self._write(producer, topic, [{"value": "x" * size}] * count)
        waits = [
            value for of in producer.metrics().values() for name, value in of.items() if "throttle-time-max" in name
        ]
        producer.close()
        return {"acknowledged": len(offsets), "throttled": max(waits, default=0) > 0}

    def _reader(self, group: str | None, **more: Any) -> dict[str, Any]:
        settings = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return self._settings | settings | more

    @staticmethod
    def _up_to_the_end(reader: KafkaConsumer) -> list[Any]:
        found: list[Any] = []

        def at_end() -> bool:
            for records in reader.poll(2 * LONG_MS, max_records=1).values():
                found.extend(records)
            return bool(found) and found[-1].value == b"end"

        if not wait_until(at_end, bool):
            raise TimeoutError(f"no end behind {[shown(one.value) for one in found]}")
        return found[:-1]

    def do_read(self, *, topic: str, committed: bool = False, whole: bool = False, **where: int) -> list[Any]:
        isolation = "read_committed" if committed else "read_uncommitted"
        reader = KafkaConsumer(**self._reader(None, isolation_level=isolation))
        partition = TopicPartition(topic, 0)
        reader.assign([partition])
        reader.seek(partition, where.get("from", 0))
        found = self._up_to_the_end(reader)
        reader.close()
        if whole:
            return [whole_record(one.key, one.value, one.headers) for one in found]
        return [shown(one.value) for one in found]

    def member(self, *, group: str, topic: str, strategy: str, instance: str | None = None) -> Member:
        more = {"partition_assignment_strategy": [STRATEGIES[strategy]], "heartbeat_interval_ms": 200}
        return Polled(self._reader(group, group_instance_id=instance, **more), topic)

    def do_resume(self, *, group: str, topic: str) -> list[Any]:
        reader = KafkaConsumer(**self._reader(group))
        reader.subscribe([topic])
        try:
            found = self._up_to_the_end(reader)
            reader.commit()
        finally:
            reader.close(autocommit=False)
        return [shown(one.value) for one in found]

    def do_commit(self, *, group: str, topic: str, offset: int, metadata: str = "") -> None:
        reader, partition = KafkaConsumer(**self._reader(group)), TopicPartition(topic, 0)
        reader.assign([partition])
        reader.commit({partition: OffsetAndMetadata(offset, metadata, -1)})
        reader.close(autocommit=False)

    def do_committed(self, *, group: str, topic: str) -> Any:
        reader = KafkaConsumer(**self._reader(group))
        found = reader.committed(TopicPartition(topic, 0), metadata=True)
        reader.close(autocommit=False)
        return {"offset": found.offset, "metadata": found.metadata} if found else None

    # ------------------------------------------------------------------------------------------------ transactions

    def do_open(self, *, producer: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        made = self._producer(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        self.producers[producer] = made
        made.init_transactions()

    def do_begin(self, *, producer: str) -> None:
        self.producers[producer].begin_transaction()

    def do_send(self, *, producer: str, topic: str, values: list[str]) -> None:
        self._write(self.producers[producer], topic, [{"value": value} for value in values])

    def do_offsets(self, *, producer: str, group: str, topic: str, offset: int) -> None:
        reader = KafkaConsumer(**self._reader(group))
        position = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self.producers[producer].send_offsets_to_transaction(position, reader.group_metadata())
        reader.close(autocommit=False)

    def do_end(self, *, producer: str, commit: bool) -> None:
        one = self.producers[producer]
        (one.commit_transaction if commit else one.abort_transaction)()

    def do_finish(self, *, producer: str, topic: str, values: list[str]) -> None:
        self.do_send(producer=producer, topic=topic, values=values)
        self.do_end(producer=producer, commit=True)

    # ---------------------------------------------------------------------------------------------- administration

    def do_make(self, *, topic: str, partitions: int, settings: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)], wait_for_metadata=True)

    def do_partitions(self, *, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def do_grow(self, *, topic: str, partitions: int) -> None:
        self._admin.create_partitions({topic: partitions})

    def do_drop(self, *, topic: str) -> None:
        self._admin.delete_topics([topic])

    def do_set(self, *, topic: str, name: str, value: str) -> None:
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def do_setting(self, *, topic: str, name: str) -> str:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})
        found = self._admin.describe_configs([asked], config_filter=ConfigFilterType.ALL)
        return str(found["topic"][topic][name]["value"])

    def do_bounds(self, *, topic: str) -> list[int]:
        where = TopicPartition(topic, 0)
        specs = (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        return [self._admin.list_partition_offsets({where: spec})[where].offset for spec in specs]

    def do_trim(self, *, topic: str, before: int) -> None:
        self._admin.delete_records({TopicPartition(topic, 0): before})

    def do_listed(self, *, group: str) -> bool:
        return group in [one["group_id"] for one in self._admin.list_groups()]

    def do_state(self, *, group: str) -> str:
        return str(self._admin.describe_groups([group])[group]["group_state"]).lower()

    def do_forget(self, *, group: str) -> None:
        answer = self._admin.delete_groups([group])
        if answer != {group: "OK"}:
            raise KafkaError(answer)

    def do_quota(self, **_: Any) -> None:
        raise NotOffered("its administrator knows no quotas")


if __name__ == "__main__":
    main(KafkaPython)
