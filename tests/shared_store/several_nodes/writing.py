"""Writers that work beside the story: what they were told is noted, so that it can be compared with what is there."""

import threading
import time
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.shared_store.several_nodes.cluster import PARTITIONS, SeveralNodes, until
from tests.shared_store.test_a_broker import PATIENCE_S

MOST_UNDER_WAY = 200
SOON_TIRED = {"request.timeout.ms": 3_000, "socket.timeout.ms": 4_000}
"""One that stands still does not close its connections."""
PAUSE_S = 0.002


class Writer:
    """An idempotent producer without transactions in a thread of its own: 0, 1, 2, … one partition after the other."""

    def __init__(self, cluster: SeveralNodes, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                **cluster.clients,
                "enable.idempotence": True,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "linger.ms": 0,
                **SOON_TIRED,
            }
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0
        self.acknowledged = 0
        self.errors: list[str] = []

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._over.is_set():
            if self.written - self.acknowledged - len(self.errors) < MOST_UNDER_WAY:
                partition = self.written % PARTITIONS
                self._producer.produce(
                    self._topic, str(self.written).encode(), partition=partition, on_delivery=self._delivered
                )
                self.written += 1
            self._producer.poll(PAUSE_S)
        if self._producer.flush(PATIENCE_S):
            self.errors.append("not everything was answered")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(str(error))

    def wait_for_more(self, count: int = 100) -> None:
        """Until that many more were acknowledged, of every partition."""
        wanted = self.acknowledged + MOST_UNDER_WAY + count
        until(lambda: self.acknowledged >= wanted or bool(self.errors), "more is acknowledged")
        assert self.errors == []

    def expected(self) -> dict[int, list[str]]:
        """What is to be found when it has ended: everything once, and in order."""
        numbers = range(self.written)
        return {index: [str(one) for one in numbers[index::PARTITIONS]] for index in range(PARTITIONS)}


class Transforming:
    """Consumes `source`, and produces to `target` in transactions with the offsets of its group: exactly once.

    Every fourth transaction is aborted, and done again. Whatever can be tried again is.
    """

    group = "transforms"
    transactional_id = "transforms"

    def __init__(self, cluster: SeveralNodes, source: str, target: str) -> None:
        self._target = target
        self._producer = Producer(
            {
                **cluster.clients,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 0,
            }
        )
        self._consumer = Consumer(
            {
                **cluster.clients,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "max.poll.interval.ms": 120_000,
                "socket.timeout.ms": 10_000,
            }
        )
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._source = source
        self.begun = self.committed = self.moved = 0
        self.again = 0
        """Transactions that something came in the way of."""

    def begin(self) -> None:
        insist(self._producer.init_transactions)
        self._consumer.assign([TopicPartition(self._source, index, 0) for index in self._positions])

    def close(self) -> None:
        self._consumer.close()

    def step(self, in_the_middle: Any = None) -> None:
        """One transaction of what comes; `in_the_middle` is called when its records are written."""
        messages: list[Any] = [one for one in self._consumer.consume(12, 0.5) if one.error() is None]
        if not messages:
            return
        reached = dict(self._positions)
        for one in messages:
            assert one.offset() >= reached[one.partition()], "a position goes forward"
            reached[one.partition()] = one.offset() + 1
        self.begun += 1
        try:
            self._producer.begin_transaction()
            for one in messages:
                number = int(one.value())
                self._producer.produce(self._target, f"{number}".encode(), partition=number * 5 % PARTITIONS)
            assert self._producer.flush(PATIENCE_S) == 0
            if in_the_middle is not None:
                in_the_middle()
            self._send_offsets(reached)
            if self.begun % 4 == 0:
                insist(self._producer.abort_transaction)
                self._back()
                return
            insist(self._producer.commit_transaction)
        except KafkaException as error:
            assert error.args[0].txn_requires_abort(), error
            self.again += 1
            insist(self._producer.abort_transaction)
            self._back()
            return
        self._positions = reached
        self.committed += 1
        self.moved += len(messages)

    def _send_offsets(self, reached: dict[int, int]) -> None:
        offsets = [TopicPartition(self._source, index, offset) for index, offset in reached.items()]
        metadata = self._consumer.consumer_group_metadata()
        insist(lambda patience_s: self._producer.send_offsets_to_transaction(offsets, metadata, patience_s))

    def _back(self) -> None:
        self._consumer.assign([TopicPartition(self._source, index, at) for index, at in self._positions.items()])

    def until(self, happened: Any, what: str) -> None:
        """Go on until then."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, f"it never happened: {what}"
            self.step()


def insist(ask: Any) -> None:
    """Ask again while time may cure what comes in the way."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            ask(10.0)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
