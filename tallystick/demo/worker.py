"""A worker: consume transfers, produce ledger entries, commit the offsets in the same transaction.

The two things that are easy to get wrong, done right here. The group metadata of a transaction is taken when the
partitions are assigned, not when the transaction ends: a member that was thrown out meanwhile must present its old
generation, for that is what fences it (KIP-447). And a batch that was begun before a rebalance is thrown away with it.
"""

import random
import sys
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tallystick.demo.parts import CLIENT, Words, end_fenced, report, until_decided
from tallystick.demo.plan import (
    GROUP,
    LEDGER_TOPIC,
    PARTITIONS,
    TRANSFERS_TOPIC,
    Settings,
    decode_transfer,
    encode_entry,
    entries_of,
)

ABORT_ONE_IN = 25


class Worker:
    """One member of the group, one transactional id."""

    def __init__(self, settings: Settings, name: str, life: int) -> None:
        self._settings = settings
        self._words = Words()
        self._draw = random.Random(f"{settings.seed}/{name}/{life}")
        self._batch: list[Message] = []
        self._membership: object = None
        self._posted = self._aborted = 0
        self._producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": settings.bootstrap,
                "transactional.id": name,
                "linger.ms": 5,
                "message.timeout.ms": 60_000,
            }
        )
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": settings.bootstrap,
                "group.id": GROUP,
                "client.id": name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": settings.session_ms // 6,
                "fetch.wait.max.ms": 100,
            }
        )

    def run(self) -> None:
        until_decided(self._producer.init_transactions)
        report(ready=True)
        self._consumer.subscribe(
            [TRANSFERS_TOPIC], on_assign=self._assigned, on_revoke=self._forget, on_lost=self._forget
        )
        while not self._words.heard("stop"):
            self._collect()
            if self._batch:
                self._post(self._batch)
                self._batch = []
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._membership = consumer.consumer_group_metadata()

    def _forget(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._batch.clear()

    def _collect(self) -> None:
        """One poll's worth. A rebalance on the way empties the batch."""
        message = self._consumer.poll(0.1)
        while message is not None and len(self._batch) < self._settings.batch:
            if message.error() is None:
                self._batch.append(message)
            if len(self._batch) < self._settings.batch:
                message = self._consumer.poll(0.005)

    def _post(self, batch: list[Message]) -> None:
        """One transaction. Whatever was aborted is read again."""
        void = self._draw.randrange(ABORT_ONE_IN) == 0
        try:
            self._producer.begin_transaction()
            for message in batch:
                self._produce_entries(message, void=void)
            self._producer.flush()
            if not void:
                self._commit(batch)
                self._posted += len(batch)
                report(posted=self._posted, aborted=self._aborted)
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        until_decided(self._producer.abort_transaction)
        self._aborted += 1
        self._rewind(batch)

    def _produce_entries(self, message: Message, *, void: bool) -> None:
        value = message.value()
        assert value is not None
        transfer, voided = decode_transfer(value)
        times = 1
        if transfer.number == self._settings.planted_transfer:
            times = {"skip": 0, "double": 2}.get(self._settings.plant, 1)
        for entry in entries_of(transfer) * times:
            encoded = encode_entry(entry, void=void or voided)
            self._producer.produce(LEDGER_TOPIC, encoded, partition=entry[1] % PARTITIONS)

    def _commit(self, batch: list[Message]) -> None:
        """Offsets and records together. On the brink of it a worker may be frozen, on the director's word."""
        offsets = [TopicPartition(TRANSFERS_TOPIC, partition, last + 1) for partition, last in _last(batch).items()]
        if self._settings.plant == "offsets-outside":
            with suppress(KafkaException):  # A rebalance; the next owner reads it again.
                self._consumer.commit(offsets=offsets, asynchronous=False)
        if self._words.heard("brink"):
            report(brink=True)
            self._words.wait_until_heard("go on")
        if self._settings.plant != "offsets-outside":
            membership = self._membership
            until_decided(lambda seconds: self._producer.send_offsets_to_transaction(offsets, membership, seconds))
        until_decided(self._producer.commit_transaction)

    def _rewind(self, batch: list[Message]) -> None:
        for partition, first in _first(batch).items():
            try:
                self._consumer.seek(TopicPartition(TRANSFERS_TOPIC, partition, first))
            except KafkaException:
                continue  # Revoked meanwhile: its next owner begins at the committed offset.


def _last(batch: list[Message]) -> dict[int, int]:
    return {message.partition(): message.offset() for message in batch}  # type: ignore[misc]


def _first(batch: list[Message]) -> dict[int, int]:
    return {message.partition(): message.offset() for message in reversed(batch)}  # type: ignore[misc]


def main(argument: str, name: str, life: int) -> None:
    try:
        Worker(Settings.from_json(argument), name, life).run()
    except KafkaException as error:
        if error.args[0].name() == "_FENCED" or error.args[0].fatal():
            end_fenced()
        raise


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
