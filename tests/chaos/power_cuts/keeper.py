"""An operator at work through power cuts, with librdkafka: topics made, deleted and made again, records deleted, a
compacted topic, settings, the offsets of a group. It writes down what each answer has promised.

A thread of the runner. What is not answered may have happened or not; nothing is believed of it.
"""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.chaos.drivers.librdkafka import BACK_SOON
from tests.harness.confluent import SECONDS, Deliveries, admin, consumer, producer, read_all

CALL_S = 5.0
TRIMMED, KEYED, GROUP = "trimmed", "keyed", "keeper"
KEYS = 4
LONG_MS = 100_000_000
RETENTION = "retention.ms"
TOPICS = {
    TRIMMED: {"segment.ms": "200"},
    KEYED: {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    },
}


class Last:
    """A number that only grows: the last one that was acknowledged, and the last one that was sent."""

    def __init__(self, value: int = -1) -> None:
        self.acked = self.sent = value

    def allows(self, found: int) -> bool:
        return self.acked <= found <= self.sent


class Keeper:
    """See the head of this file."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._random = random.Random(seed)
        self._admin = admin(bootstrap, **_kept(BACK_SOON))
        self._producer = producer(
            bootstrap, acks="all", max__in__flight=1, message__timeout__ms=int(SECONDS * 1000), **_kept(BACK_SOON)
        )
        self._consumer: Consumer = consumer(bootstrap, group__id=GROUP, **_kept(BACK_SOON))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="keeper", daemon=True)
        self._number = 0
        self.made: dict[str, set[bytes]] = {}
        """Topics that are there for certain, and what was acknowledged of each."""
        self.deleted: set[str] = set()
        """Topics that are not."""
        self.numbers: dict[str, int] = {}
        """Whose values are in a topic: those of its last creation."""
        self.trims, self.commits, self.retention = Last(0), Last(), Last()
        self.trimmed: dict[bytes, int] = {}
        """Acknowledged values, and where they stand."""
        self.keyed = {b"%d" % key: Last() for key in range(KEYS)}
        self.troubles = self.done = 0
        self.failure: BaseException | None = None

    def start(self) -> None:
        made = self._admin.create_topics([NewTopic(name, 1, 1, config=configs) for name, configs in TOPICS.items()])
        for future in made.values():
            future.result(SECONDS)
        self._thread.start()

    def stop(self) -> list[str]:
        """Once all is well. What is wrong with the keeper itself."""
        self._stopping.set()
        self._thread.join(2 * SECONDS)
        if self._thread.is_alive():
            return ["the keeper is stuck though everything healed"]
        return [f"the keeper failed: {self.failure!r}"] if self.failure is not None else []

    def _work(self) -> None:
        chores: list[Callable[[], None]] = [self._make, self._make, self._delete, self._write]
        chores += [self._trim, self._write_keys, self._commit, self._configure]
        try:
            while not self._stopping.is_set():
                try:
                    self._random.choice(chores)()
                    self.done += 1
                except (KafkaException, BufferError, TimeoutError):
                    self.troubles += 1
                self._stopping.wait(self._random.choice((0.0, 0.01, 0.05)))
        except BaseException as failed:
            self.failure = failed

    # -- chores --------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _make(self) -> None:
        """A topic of a new name, or of one that was deleted."""
        number = self._next()
        again = sorted(self.deleted)
        name = self._random.choice(again) if again and self._random.random() < 0.5 else f"made-{number}"
        self.deleted.discard(name)
        self.numbers[name] = number
        wanted = NewTopic(name, self._random.choice((1, 3)), 1, config={"segment.ms": "300"})
        _answered(self._admin.create_topics([wanted], request_timeout=CALL_S))
        self.made[name] = set()

    def _delete(self) -> None:
        if self.made:
            name = self._random.choice(sorted(self.made))
            del self.made[name]
            _answered(self._admin.delete_topics([name], request_timeout=CALL_S))
            self.deleted.add(name)

    def _write(self) -> None:
        if self.made:
            name = self._random.choice(sorted(self.made))
            values = [b"%d:%d" % (self.numbers[name], self._next()) for _ in range(5)]
            self.made[name] |= {message.value() for message in self._sent(name, [(None, value) for value in values])}

    def _sent(self, topic: str, records: list[tuple[bytes | None, bytes]]) -> list[Message]:
        deliveries = Deliveries()
        for key, value in records:
            self._producer.produce(topic, value, key=key, partition=0, on_delivery=deliveries)
        if self._producer.flush(2 * SECONDS):
            raise TimeoutError
        return deliveries.acknowledged

    def _trim(self) -> None:
        """Records, and the deletion of some."""
        for message in self._sent(TRIMMED, [(None, b"%d" % self._next()) for _ in range(20)]):
            self.trimmed[message.value()] = message.offset()
        if self.trimmed:
            offset = max(self.trims.sent, max(self.trimmed.values()) - self._random.randrange(30))
            self.trims.sent = offset
            answer = self._admin.delete_records([TopicPartition(TRIMMED, 0, offset)], request_timeout=CALL_S)
            self.trims.acked = _answered(answer).low_watermark

    def _write_keys(self) -> None:
        records = []
        for key, last in self.keyed.items():
            last.sent = self._next()
            records.append((key, b"%d" % last.sent))
        for message in self._sent(KEYED, records):
            self.keyed[message.key()].acked = int(message.value())

    def _commit(self) -> None:
        self.commits.sent += 1
        position = TopicPartition(TRIMMED, 0, self.commits.sent)
        (answer,) = self._consumer.commit(offsets=[position], asynchronous=False)
        if answer.error is not None:
            raise KafkaException(answer.error)
        self.commits.acked = self.commits.sent

    def _configure(self) -> None:
        self.retention.sent += 1
        entry = ConfigEntry(RETENTION, str(LONG_MS + self.retention.sent), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TRIMMED, incremental_configs=[entry])
        _answered(self._admin.incremental_alter_configs([resource], request_timeout=CALL_S))
        self.retention.acked = self.retention.sent

    # -- promises ------------------------------------------------------------------------------------------------

    def broken_promises(self) -> Iterator[str]:
        """What was answered, and does not hold."""
        there = self._admin.list_topics(timeout=SECONDS).topics
        for name, values in self.made.items():
            if name not in there:
                yield f"topic {name} was made, and is not there"
                continue
            found = {message.value() for message in read_all(self._bootstrap, name)}
            if lost := values - found:
                yield f"{name}: {sorted(lost)} were acknowledged, and are gone"
            if others := [value for value in found if int(value.split(b":")[0]) != self.numbers[name]]:
                yield f"{name}: {others} are of a topic that was deleted"
        for name in self.deleted & set(there):
            yield f"topic {name} was deleted, and is there"
        yield from self._broken_logs()
        yield from self._broken_settings()

    def _broken_logs(self) -> Iterator[str]:
        low, _ = self._consumer.get_watermark_offsets(TopicPartition(TRIMMED, 0), SECONDS)
        if not self.trims.allows(low):
            yield f"{TRIMMED} begins at {low}; {self.trims.acked} was answered, {self.trims.sent} asked for"
        found = {message.value(): message.offset() for message in read_all(self._bootstrap, TRIMMED)}
        for value, offset in self.trimmed.items():
            if offset >= low and found.get(value) != offset:
                yield f"{TRIMMED}: {value!r} was acknowledged at {offset}, and is at {found.get(value)}"
        latest = {message.key(): int(message.value()) for message in read_all(self._bootstrap, KEYED)}
        for key, last in self.keyed.items():
            if not last.allows(latest.get(key, -1)):
                yield f"{KEYED}: {key!r} is {latest.get(key)}; {last.acked} was acknowledged, {last.sent} sent"

    def _broken_settings(self) -> Iterator[str]:
        (position,) = self._consumer.committed([TopicPartition(TRIMMED, 0)], SECONDS)
        committed = max(-1, position.offset)
        if not self.commits.allows(committed):
            yield f"the group is at {committed}; {self.commits.acked} was answered, {self.commits.sent} sent"
        described = _answered(self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, TRIMMED)]))
        is_set = described[RETENTION].source == 1  # DYNAMIC_TOPIC_CONFIG
        retention = int(described[RETENTION].value) - LONG_MS if is_set else -1
        if not self.retention.allows(retention):
            yield f"{RETENTION} is {retention}; {self.retention.acked} was answered, {self.retention.sent} sent"


def _answered(futures: dict[Any, "Future[Any]"]) -> Any:
    """The one answer."""
    (future,) = futures.values()
    return future.result(3 * CALL_S)


def _kept(settings: dict[str, Any]) -> dict[str, Any]:
    """As keywords."""
    return {name.replace(".", "__"): value for name, value in settings.items()}
