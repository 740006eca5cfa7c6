"""The writer: puts all transfers of the plan into `transfers`, in transactions, one in twenty aborted and written
again.
"""

import sys
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tallystick.demo.parts import CLIENT, Words, end_fenced, report, until_decided
from tallystick.demo.plan import TRANSFERS_TOPIC, Settings, Transfer, batches, encode_transfer, partition_of


class Writer:
    """Knows the last offset of every partition that it has committed: there the workers' work ends."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": settings.bootstrap,
                "transactional.id": "transfer-writer",
                "linger.ms": 5,
                "message.timeout.ms": 60_000,
            }
        )
        self._last: dict[int, int] = {}

    def run(self) -> None:
        until_decided(self._producer.init_transactions)
        written = aborted = 0
        for transfers, abort_first in batches(self._settings):
            if abort_first:
                self._attempt(transfers, void=True)
                aborted += 1
            while not self._attempt(transfers, void=False):
                aborted += 1
            written += len(transfers)
            report(written=written, aborted=aborted)
        report(finished=True, last=self._last)

    def _attempt(self, transfers: Iterable[Transfer], *, void: bool) -> bool:
        """One transaction; False when it was aborted, by intention or because the client had to."""
        offsets: dict[int, int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                offsets[partition] = max(offsets.get(partition, -1), offset)

        try:
            self._producer.begin_transaction()
            for transfer in transfers:
                value = encode_transfer(transfer, void=void)
                self._producer.produce(TRANSFERS_TOPIC, value, partition=partition_of(transfer), on_delivery=delivered)
            self._producer.flush()
            if not void:
                until_decided(self._producer.commit_transaction)
                self._last |= offsets
                return True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        until_decided(self._producer.abort_transaction)
        return False


def main(argument: str) -> None:
    Words()
    try:
        Writer(Settings.from_json(argument)).run()
    except KafkaException as error:
        if error.args[0].name() == "_FENCED":
            end_fenced()
        raise


if __name__ == "__main__":
    main(sys.argv[1])
