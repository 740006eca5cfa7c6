"""aiokafka, on an event loop of its own thread. It repeats by itself what may be repeated; a call that takes too long
is given up together with its producer."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import IllegalOperation, KafkaError, NotCoordinatorForGroupError, ProducerFenced, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import TopicPartition

from tests.chaos.drivers.driver import FATAL, MOST_RECORDS, Failed, Place

CALL_S = 60.0


class Loop:
    """An event loop that runs beside."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        waited = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, CALL_S), self._loop)
        try:
            return waited.result()
        except (KafkaError, IllegalOperation, TimeoutError, AssertionError) as error:  # it asserts its own state
            raise Failed(FATAL, repr(error)) from error

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop)


class Producing:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, transactional_id: str | None, timeout_ms: int) -> None:
        self._loop = Loop()
        self._producer: Any = None
        self._sent: list[Any] = []
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "enable_idempotence": True,
            "request_timeout_ms": 5000 if transactional_id is not None else 120_000,
        }
        if transactional_id is not None:
            self._settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}

    def init(self) -> None:
        async def start() -> None:
            self._producer = AIOKafkaProducer(**self._settings)
            await self._producer.start()

        self._loop.call(start())

    def begin(self) -> None:
        self._sent.clear()
        self._loop.call(self._producer.begin_transaction())

    def send(self, place: Place, value: bytes, key: bytes) -> None:
        try:
            self._sent.append(self._loop.call(self._producer.send(place[0], value, key, partition=place[1])))
        except Failed:
            self.sent()  # one that was fenced meanwhile says "not in a transaction" here, and why it is not there
            raise

    def sent(self) -> list[int | None]:
        async def wait() -> list[Any]:
            return await asyncio.gather(*self._sent, return_exceptions=True)

        answers: list[Any] = self._loop.call(wait())
        self._sent.clear()
        for answer in answers:
            if isinstance(answer, ProducerFenced):
                raise Failed(FATAL, repr(answer))
        return [None if isinstance(answer, BaseException) else answer.offset for answer in answers]

    def send_offsets(self, group: str, offsets: Mapping[Place, int], member: object) -> None:
        positions = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.call(self._producer.send_offsets_to_transaction(positions, group))

    def commit(self) -> None:
        self._loop.call(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.call(self._producer.abort_transaction())

    def close(self) -> None:
        if self._producer is not None:
            self._loop.begin(self._producer.stop())


class Joined:
    """A consumer of a group's offsets that joins no group; see `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, group: str, places: list[Place]) -> None:
        self._loop = Loop()
        self._assigned: dict[Place, int | None] | None = {}

        async def start() -> Any:
            consumer = await _consumer(bootstrap, places, group)
            _heed_errors_of_the_group(consumer._coordinator)
            for place in places:
                offset = await consumer.committed(TopicPartition(*place)) or 0
                consumer.seek(TopicPartition(*place), offset)
                assert self._assigned is not None
                self._assigned[place] = offset
            return consumer

        self._consumer = self._loop.call(start())

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        waiting = self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=MOST_RECORDS)
        return _records(self._loop.call(waiting))

    def assigned(self) -> dict[Place, int | None] | None:
        found, self._assigned = self._assigned, None
        return found

    def rewind(self, offsets: Mapping[Place, int]) -> None:
        async def seek() -> None:
            for place, offset in offsets.items():
                self._consumer.seek(TopicPartition(*place), offset)

        self._loop.call(seek())

    def close(self) -> None:
        self._loop.begin(self._consumer.stop())


async def _consumer(bootstrap: str, places: list[Place], group: str | None = None) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="none",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign([TopicPartition(*place) for place in places])
    return consumer


def _heed_errors_of_the_group(coordinator: Any) -> None:
    """aiokafka (0.14) looks for errors of partitions alone: of a coordinator that loads, or is none any more, it takes
    the answer for "nothing is committed", and would begin anew."""
    send = coordinator._send_req

    async def sent(request: Any) -> Any:
        response = await send(request)
        if response.API_KEY == OffsetFetchRequest.API_KEY and getattr(response, "error_code", 0):
            error = for_code(response.error_code)()
            if isinstance(error, NotCoordinatorForGroupError):
                coordinator.coordinator_dead()
            raise error
        return response

    coordinator._send_req = sent


def _records(found: Mapping[TopicPartition, Any]) -> list[tuple[Place, int, bytes]]:
    return [
        ((place.topic, place.partition), record.offset, record.value)
        for place, records in found.items()
        for record in records
    ]


class Reading:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, places: list[Place]) -> None:
        self._loop = Loop()

        async def start() -> Any:
            consumer = await _consumer(bootstrap, places)
            for place in places:
                consumer.seek(TopicPartition(*place), 0)
            return consumer

        self._consumer = self._loop.call(start())

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        return _records(self._loop.call(self._consumer.getmany(timeout_ms=int(seconds * 1000))))

    def close(self) -> None:
        self._loop.begin(self._consumer.stop())
