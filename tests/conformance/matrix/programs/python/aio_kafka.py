"""aiokafka in the stories: one loop in a thread of its own does everything."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from telling import (
    PATIENCE_S,
    Member,
    NotOffered,
    Teller,
    headers_of,
    main,
    shown,
    streamed,
    whole_record,
    written,
)

STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
LOOP = asyncio.new_event_loop()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, PATIENCE_S), LOOP).result()


def address(at: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": at["bootstrap"]}
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
        self._settings, self._topic = settings, topic
        self.thread.start()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned({one.partition for one in assigned})

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked({one.partition for one in revoked})

    async def _poll(self) -> None:
        reader = AIOKafkaConsumer(**self._settings)
        reader.subscribe([self._topic], listener=self)
        await reader.start()
        while not self.leaving.is_set():
            for records in (await reader.getmany(timeout_ms=20)).values():
                self.values |= {record.value for record in records}
        await reader.stop()

    def poll(self) -> None:
        asyncio.run_coroutine_threadsafe(self._poll(), LOOP).result()


class AioKafka(Teller):
    def __init__(self, at: dict[str, str]) -> None:
        super().__init__(at)
        self._settings = run(self._address())

    async def _address(self) -> dict[str, Any]:
        return address(self.at)

    def close(self) -> None:
        super().close()
        for producer in self.producers.values():
            with contextlib.suppress(Exception):
                run(producer.stop())

    @contextlib.asynccontextmanager
    async def _producer(self, **more: Any) -> Any:
        # A value of 1 MB and what is around it are a little more than the default.
        producer = AIOKafkaProducer(**self._settings, **{"max_request_size": 2_000_000} | more)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    @staticmethod
    async def _write(producer: AIOKafkaProducer, topic: str, records: list[dict[str, Any]]) -> list[Any]:
        sent = [
            await producer.send(
                topic,
                written(record.get("value")),
                key=written(record.get("key")),
                partition=0,
                headers=headers_of(record),
            )
            for record in records
        ]
        return [await one for one in sent]

    def do_produce(self, *, topic: str, records: Any, codec: str = "none", acks: str = "all") -> list[int | None]:
        async def produce() -> list[int | None]:
            more = {"compression_type": None if codec == "none" else codec, "linger_ms": 50}
            async with self._producer(acks=acks if acks == "all" else int(acks), **more) as producer:
                told = await self._write(producer, topic, records)
            return [None if acks == "0" else one.offset for one in told]

        return run(produce())

    def do_stream(self, *, topic: str, count: int) -> int:
        async def stream() -> None:
            async with self._producer(enable_idempotence=True, retry_backoff_ms=20) as producer:
                for first in range(0, count, 50):
                    values = [streamed(number).decode() for number in range(first, first + 50)]
                    await self._write(producer, topic, [{"value": value} for value in values])

        run(stream())
        return count

    def do_press(self, *, topic: str, client_id: str, count: int, size: int) -> dict[str, Any]:
        async def press() -> int:
            async with self._producer(client_id=client_id) as producer:
                return len(await self._write(producer, topic, [{"value": "x" * size}] * count))

        return {"acknowledged": run(press()), "throttled": None}

    @contextlib.asynccontextmanager
    async def _reader(self, group: str | None, **more: Any) -> Any:
        reader = AIOKafkaConsumer(**self._reading(group, **more))
        await reader.start()
        try:
            yield reader
        finally:
            await reader.stop()

    def _reading(self, group: str | None, **more: Any) -> dict[str, Any]:
        settings = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return self._settings | settings | more

    @staticmethod
    async def _up_to_the_end(reader: AIOKafkaConsumer) -> list[Any]:
        found: list[Any] = []
        while not found or found[-1].value != b"end":
            found.append(await reader.getone())
        return found[:-1]

    def do_read(self, *, topic: str, committed: bool = False, whole: bool = False, **where: int) -> list[Any]:
        async def read() -> list[Any]:
            isolation = "read_committed" if committed else "read_uncommitted"
            async with self._reader(None, isolation_level=isolation) as reader:
                partition = TopicPartition(topic, 0)
                reader.assign([partition])
                reader.seek(partition, where.get("from", 0))
                return await self._up_to_the_end(reader)

        found = run(read())
        if whole:
            return [whole_record(one.key, one.value, one.headers) for one in found]
        return [shown(one.value) for one in found]

    def member(self, *, group: str, topic: str, strategy: str, instance: str | None = None) -> Member:
        if strategy not in STRATEGIES:
            raise NotOffered(f"no assignor {strategy}")
        more = {"partition_assignment_strategy": [STRATEGIES[strategy]], "heartbeat_interval_ms": 200}
        return Polled(self._reading(group, group_instance_id=instance, **more), topic)

    def do_resume(self, *, group: str, topic: str) -> list[Any]:
        async def resume() -> list[Any]:
            async with self._reader(group) as reader:
                reader.subscribe([topic])
                found = await self._up_to_the_end(reader)
                await reader.commit()
                return found

        return [shown(one.value) for one in run(resume())]

    def do_commit(self, *, group: str, topic: str, offset: int, metadata: str = "") -> None:
        async def commit() -> None:
            async with self._reader(group) as reader:
                reader.assign([TopicPartition(topic, 0)])
                await reader.commit({TopicPartition(topic, 0): (offset, metadata)})

        run(commit())

    def do_committed(self, *, group: str, topic: str) -> Any:
        partition = TopicPartition(topic, 0)
        found = self._administer(lambda admin: admin.list_consumer_group_offsets(group, partitions=[partition]))[
            partition
        ]
        return None if found.offset < 0 else {"offset": found.offset, "metadata": found.metadata}

    # ------------------------------------------------------------------------------------------------ transactions

    def do_open(self, *, producer: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        async def start() -> None:
            made = AIOKafkaProducer(
                **self._settings, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            self.producers[producer] = made
            await made.start()

        run(start())

    def do_begin(self, *, producer: str) -> None:
        run(self.producers[producer].begin_transaction())

    def do_send(self, *, producer: str, topic: str, values: list[str]) -> None:
        run(self._write(self.producers[producer], topic, [{"value": value} for value in values]))

    def do_offsets(self, *, producer: str, group: str, topic: str, offset: int) -> None:
        run(self.producers[producer].send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group))

    def do_end(self, *, producer: str, commit: bool) -> None:
        one = self.producers[producer]
        run(one.commit_transaction() if commit else one.abort_transaction())

    def do_finish(self, *, producer: str, topic: str, values: list[str]) -> None:
        self.do_send(producer=producer, topic=topic, values=values)
        self.do_end(producer=producer, commit=True)

    # ---------------------------------------------------------------------------------------------- administration

    def _administer(self, work: Any) -> Any:
        async def ask() -> Any:
            admin = AIOKafkaAdminClient(**self._settings)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return run(ask())

    def do_make(self, *, topic: str, partitions: int, settings: dict[str, str]) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=settings)
        self._administer(lambda admin: admin.create_topics([wanted]))

    def do_partitions(self, *, topic: str) -> int:
        (found,) = self._administer(lambda admin: admin.describe_topics([topic]))
        return len(found["partitions"])

    def do_grow(self, *, topic: str, partitions: int) -> None:
        self._administer(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))

    def do_drop(self, *, topic: str) -> None:
        self._administer(lambda admin: admin.delete_topics([topic]))

    def do_set(self, *, topic: str, name: str, value: str) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        self._administer(lambda admin: admin.alter_configs([wanted]))

    def do_setting(self, *, topic: str, name: str) -> str:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._administer(lambda admin: admin.describe_configs([asked]))
        return str(next(entry[1] for entry in answer.resources[0][4] if entry[0] == name))

    def do_bounds(self, *, topic: str) -> list[int]:
        async def ask() -> list[int]:
            async with self._reader(None) as reader:
                where = TopicPartition(topic, 0)
                first, last = await reader.beginning_offsets([where]), await reader.end_offsets([where])
                return [first[where], last[where]]

        return run(ask())

    def do_trim(self, *, topic: str, before: int) -> None:
        wanted = {TopicPartition(topic, 0): RecordsToDelete(before)}
        self._administer(lambda admin: admin.delete_records(wanted))

    def do_listed(self, *, group: str) -> bool:
        return group in [one[0] for one in self._administer(lambda admin: admin.list_consumer_groups())]

    def do_state(self, *, group: str) -> str:
        (answer,) = self._administer(lambda admin: admin.describe_consumer_groups([group]))
        return str(answer.groups[0][2]).lower()

    def do_forget(self, **_: Any) -> None:
        raise NotOffered("its administrator does not delete groups")

    def do_quota(self, **_: Any) -> None:
        raise NotOffered("its administrator knows no quotas")


if __name__ == "__main__":
    threading.Thread(target=LOOP.run_forever, daemon=True).start()
    main(AioKafka)
