"""The verdict: every record of both topics is read, and held against the plan."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tallystick.demo.parts import CLIENT
from tallystick.demo.plan import (
    LEDGER_TOPIC,
    PARTITIONS,
    TRANSFERS_TOPIC,
    Settings,
    all_transfers,
    decode_entry,
    decode_transfer,
    entries_of,
)

T = TypeVar("T")


@dataclass(slots=True)
class Verdict:
    """Every figure, and whether it is as it must be."""

    transfers: int
    transfers_in: int = 0
    entries_out: int = 0
    missing: int = 0
    doubled: int = 0
    invented: int = 0
    aborted_visible: int = 0
    ledger_sum: int = 0
    zombies_fenced: int = 0
    zombies_wanted: int = 1
    uncommitted_transfers_besides: int = 0
    uncommitted_entries_besides: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, int, str, bool]]:
        """(what, figure, what it must be, right?)"""
        nothing = [
            ("missing", self.missing),
            ("doubled", self.doubled),
            ("invented", self.invented),
            ("aborted visible", self.aborted_visible),
            ("sum of the ledger", self.ledger_sum),
        ]
        besides = self.uncommitted_transfers_besides + self.uncommitted_entries_besides
        return [
            ("transfers in", self.transfers_in, f"{self.transfers}", self.transfers_in == self.transfers),
            ("entries out", self.entries_out, f"{2 * self.transfers}", self.entries_out == 2 * self.transfers),
            *((what, figure, "0", figure == 0) for what, figure in nothing),
            ("zombies fenced", self.zombies_fenced, f"≥ {self.zombies_wanted}", self._all_fenced),
            ("aborted, seen by read_uncommitted only", besides, "> 0", besides > 0),
        ]

    @property
    def _all_fenced(self) -> bool:
        return self.zombies_fenced >= self.zombies_wanted

    @property
    def ok(self) -> bool:
        return all(right for *_, right in self.lines())

    def compare(self, found: Counter[T], wanted: Counter[T]) -> None:
        self.missing += (wanted - found).total()
        surplus = found - wanted
        self.doubled += sum(times for what, times in surplus.items() if what in wanted)
        self.invented += sum(times for what, times in surplus.items() if what not in wanted)

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"ok": self.ok}


def read_everything(bootstrap: str, topic: str, *, committed: bool) -> Iterator[bytes]:
    """Every value of a topic, from the beginning to where the isolation level ends."""
    reader = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    unread = set(range(PARTITIONS))
    try:
        while unread:
            for message in reader.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    yield message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition() if message.partition() is not None else -1)
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        reader.close()


def judge(settings: Settings, *, zombies_fenced: int, zombies_wanted: int) -> Verdict:
    """Read both topics in both isolation levels, and compare with the plan."""
    verdict = Verdict(settings.transfers, zombies_fenced=zombies_fenced, zombies_wanted=zombies_wanted)
    read = [decode_transfer(value) for value in read_everything(settings.bootstrap, TRANSFERS_TOPIC, committed=True)]
    transfers = Counter(transfer for transfer, void in read if not void)
    entries_read = [decode_entry(value) for value in read_everything(settings.bootstrap, LEDGER_TOPIC, committed=True)]
    entries = Counter(entry for entry, void in entries_read if not void)

    verdict.transfers_in = transfers.total()
    verdict.entries_out = entries.total()
    verdict.aborted_visible = sum(void for _, void in read) + sum(void for _, void in entries_read)
    verdict.ledger_sum = sum(cents * times for (_, _, cents), times in entries.items())
    verdict.compare(transfers, Counter(all_transfers(settings)))
    verdict.compare(entries, Counter(entry for transfer in all_transfers(settings) for entry in entries_of(transfer)))

    everything = sum(1 for _ in read_everything(settings.bootstrap, TRANSFERS_TOPIC, committed=False))
    verdict.uncommitted_transfers_besides = everything - len(read)
    everything = sum(1 for _ in read_everything(settings.bootstrap, LEDGER_TOPIC, committed=False))
    verdict.uncommitted_entries_besides = everything - len(entries_read)
    return verdict
