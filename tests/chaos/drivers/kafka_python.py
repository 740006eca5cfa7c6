"""kafka-python. Whatever goes wrong, the producer is thrown away and another takes its id: that is always right.

So it is when a call does not come back: after a restart of the broker 3.0.12 may find its coordinator and then neither
connect to it nor report it.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.chaos.drivers.driver import FATAL, MOST_RECORDS, RETRIABLE, SESSION_MS, Failed, Place

BACK_SOON = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100}

CALL_S = 60.0


class Producing:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, transactional_id: str | None, timeout_ms: int) -> None:
        settings: dict[str, Any] = {"delivery_timeout_ms": 120_000, "max_block_ms": 40_000, **BACK_SOON}
        if transactional_id is not None:
            settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
            settings["delivery_timeout_ms"] = 40_000  # at least its request timeout, or it gives up for good
        self._producer = _called(
            lambda: KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, **settings)
        )
        self._transactional = transactional_id is not None
        self._sent: list[Any] = []

    def init(self) -> None:
        if self._transactional:
            _called(self._producer.init_transactions)

    def begin(self) -> None:
        self._sent.clear()
        _called(self._producer.begin_transaction)

    def send(self, place: Place, value: bytes, key: bytes) -> None:
        self._sent.append(_called(lambda: self._producer.send(place[0], value, key, partition=place[1])))

    def sent(self) -> list[int | None]:
        found: list[int | None] = []
        for future in self._sent:
            try:
                found.append(future.get(130).offset)
            except KafkaError:
                found.append(None)
        self._sent.clear()
        return found

    def send_offsets(self, group: str, offsets: Mapping[Place, int], member: "Joined | None") -> None:
        positions = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        metadata = group if member is None else member.metadata()
        _called(lambda: self._producer.send_offsets_to_transaction(positions, metadata))

    def commit(self) -> None:
        _called(self._producer.commit_transaction)

    def abort(self) -> None:
        _called(self._producer.abort_transaction)

    def close(self) -> None:
        # On the side: it may wait for answers that nobody will give.
        threading.Thread(target=lambda: self._producer.close(timeout=0), daemon=True).start()


def _called(call: Callable[[], Any]) -> Any:
    answer: Future[Any] = Future()
    threading.Thread(target=lambda: _settle(answer, call), daemon=True).start()
    try:
        return answer.result(CALL_S)
    except TimeoutError as lost:
        raise Failed(FATAL, "the client does not come back") from lost
    except KafkaTimeoutError as late:
        raise Failed(RETRIABLE, late) from late
    except (KafkaError, AssertionError) as error:
        raise Failed(FATAL, repr(error)) from error


def _settle(answer: "Future[Any]", call: Callable[[], Any]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:
        answer.set_exception(error)


class Joined(ConsumerRebalanceListener):  # type: ignore[misc]
    """A member; see `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, group: str, places: list[Place]) -> None:
        self._assigned: dict[Place, int | None] | None = None
        self._consumer = _called(
            lambda: KafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=SESSION_MS // 3,
                partition_assignment_strategy=(RangePartitionAssignor,),
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_records=MOST_RECORDS,
                **BACK_SOON,
            )
        )
        self._consumer.subscribe([places[0][0]], listener=self)

    def on_partitions_revoked(self, revoked: object) -> None:
        """What was polled was committed or given up before this call of poll."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._assigned = {(one.topic, one.partition): None for one in assigned}

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        return _polled(self._consumer, seconds)

    def assigned(self) -> dict[Place, int | None] | None:
        found, self._assigned = self._assigned, None
        return found

    def rewind(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            _called(lambda place=place, offset=offset: self._consumer.seek(TopicPartition(*place), offset))

    def metadata(self) -> object:
        return self._consumer.group_metadata()

    def close(self) -> None:
        threading.Thread(target=self._consumer.close, daemon=True).start()  # it may wait for a broker


def _polled(consumer: Any, seconds: float) -> list[tuple[Place, int, bytes]]:
    found = _called(lambda: consumer.poll(timeout_ms=int(seconds * 1000)))
    return [
        ((place.topic, place.partition), record.offset, record.value)
        for place, records in found.items()
        for record in records
    ]


class Reading:
    """See `tests.chaos.drivers.driver`."""

    def __init__(self, bootstrap: str, places: list[Place]) -> None:
        self._consumer = _called(
            lambda: KafkaConsumer(
                bootstrap_servers=bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="none",
                enable_auto_commit=False,
                **BACK_SOON,
            )
        )
        partitions = [TopicPartition(*place) for place in places]
        self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, 0)

    def poll(self, seconds: float) -> list[tuple[Place, int, bytes]]:
        return _polled(self._consumer, seconds)

    def close(self) -> None:
        self._consumer.close()
