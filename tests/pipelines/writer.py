"""Writes the transactions of a plan into a topic, some of them aborted on purpose, through restarts of the broker.

It runs ahead of the queries only as far as `gate` lets it: so there is work left whenever something is struck.
"""

import threading
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tallystick.demo.parts import CLIENT, until_decided
from tests.pipelines.pipeline import Transaction


class Writer(threading.Thread):
    """One producer with one transactional id, in a thread of the director's."""

    def __init__(self, bootstrap: str, topic: str, plan: Iterable[Transaction], gate: Callable[[int], bool]) -> None:
        super().__init__(name=f"writer of {topic}", daemon=True)
        self._brokers = bootstrap
        self._topic = topic
        self._plan = plan
        self._gate = gate
        self._over = threading.Event()
        self.written = 0
        """Records committed."""
        self.aborted = 0
        """Transactions aborted, on purpose or because the client had to."""
        self.last: dict[int, int] = {}
        """The last offset committed, by partition."""
        self.finished = False
        self.failure: KafkaException | None = None

    def run(self) -> None:
        try:
            self._write_all()
        except KafkaException as error:
            self.failure = error

    def close(self) -> None:
        self._over.set()
        self.join(30)

    def _write_all(self) -> None:
        settings = {
            **CLIENT,
            "bootstrap.servers": self._brokers,
            "transactional.id": f"{self._topic}-writer",
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
        }
        producer = Producer(settings)
        until_decided(producer.init_transactions)
        for transaction in self._plan:
            while not self._gate(self.written):
                if self._over.wait(0.02):
                    return
            while not self._attempt(producer, transaction):
                if self._over.is_set():
                    return
        self.finished = True

    def _attempt(self, producer: Producer, transaction: Transaction) -> bool:
        """One try; False when the client had to abort what was to be committed."""
        offsets: dict[int, int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                offsets[partition] = max(offsets.get(partition, -1), offset)

        try:
            producer.begin_transaction()
            for partition, key, value in transaction.records:
                producer.produce(self._topic, value, key=key, partition=partition, on_delivery=delivered)
            producer.flush()
            if not transaction.void:
                until_decided(producer.commit_transaction)
                self.last |= offsets
                self.written += len(transaction.records)
                return True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        until_decided(producer.abort_transaction)
        self.aborted += 1
        return transaction.void
