"""A small load on a cluster, and what came of it: rates, and how long single steps took.

Records are written by one producer and read by one reader: this says what one client sees, not what a cluster can do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protocol.records.record import NewRecord
from tallystick.client.background import monotonic_s, now_ms
from tallystick.client.client import Client
from tallystick.client.lease import end_transaction, take_lease
from tallystick.client.sender import Sender
from tallystick.inspection.places import ends_of, places
from tallystick.records.identity import take_identity
from tallystick.records.input_lines import Parsed
from tallystick.records.reader import Reader
from tallystick.records.writer import RecordWriter

PATIENCE_S = 60.0
_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of it."""

    topic: str
    partitions: int
    records: int
    record_bytes: int
    singles: int
    """Records that are written one by one."""
    transactions: int
    compression: int = 0


@dataclass(slots=True)
class Measured:
    """One kind of step."""

    what: str
    count: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    each_ms: list[float] = field(default_factory=list[float])
    """Of each step, where they were one by one."""

    @property
    def per_second(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.size_bytes / 1e6 / self.seconds if self.seconds else 0.0

    def quantile_ms(self, share: float) -> float | None:
        """None where steps were not measured one by one."""
        if not self.each_ms:
            return None
        ordered = sorted(self.each_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def measure(client: Client, wanted: Wanted, on_progress: Callable[[str], None]) -> Sequence[Measured]:
    """All of it, into a topic that is there."""
    found = []
    for name, work in (
        ("produce", _produce),
        ("produce one by one", _singles),
        ("transactions one by one", _transactions),
        ("consume", _consume),
    ):
        on_progress(name)
        measured = Measured(name)
        began_s = monotonic_s()
        await work(client, wanted, measured)
        measured.seconds = monotonic_s() - began_s
        found.append(measured)
    return found


def _record(wanted: Wanted, number: int) -> Parsed:
    value = (b"%d " % number).ljust(wanted.record_bytes, b"x")[: wanted.record_bytes]
    return Parsed(NewRecord(value, None, now_ms()))


def _writer(wanted: Wanted, sender: Sender, *, transactional: bool) -> RecordWriter:
    return RecordWriter(
        sender, wanted.topic, wanted.partitions, transactional=transactional, compression=wanted.compression
    )


async def _produce(client: Client, wanted: Wanted, measured: Measured) -> None:
    sender = Sender(client, await take_identity(client, patience_s=PATIENCE_S), patience_s=PATIENCE_S)
    writer = _writer(wanted, sender, transactional=False)
    for number in range(wanted.records):
        await writer.write(_record(wanted, number))
    await writer.flush()
    measured.count, measured.size_bytes = wanted.records, wanted.records * wanted.record_bytes


async def _singles(client: Client, wanted: Wanted, measured: Measured) -> None:
    sender = Sender(client, await take_identity(client, patience_s=PATIENCE_S), patience_s=PATIENCE_S)
    writer = _writer(wanted, sender, transactional=False)
    for number in range(wanted.singles):
        began_s = monotonic_s()
        await writer.write(_record(wanted, number))
        await writer.flush()
        measured.each_ms.append((monotonic_s() - began_s) * 1000)
    measured.count, measured.size_bytes = wanted.singles, wanted.singles * wanted.record_bytes


async def _transactions(client: Client, wanted: Wanted, measured: Measured) -> None:
    """Each with a lease of its own, ten records and a commit."""
    for number in range(wanted.transactions):
        began_s = monotonic_s()
        lease = await take_lease(client, wanted.topic, timeout_ms=_TIMEOUT_MS, patience_s=PATIENCE_S)
        sender = Sender(client, lease, patience_s=PATIENCE_S)
        writer = _writer(wanted, sender, transactional=True)
        for _ in range(10):
            await writer.write(_record(wanted, number))
        await writer.flush()
        await end_transaction(client, lease, commit=True, patience_s=PATIENCE_S)
        measured.each_ms.append((monotonic_s() - began_s) * 1000)
    measured.count, measured.size_bytes = wanted.transactions, 10 * wanted.transactions * wanted.record_bytes


async def _consume(client: Client, wanted: Wanted, measured: Measured) -> None:
    ends = await ends_of(client, await places(client, [wanted.topic]))
    begins = {place: its.start for place, its in ends.items()}
    untils = {place: its.last_stable_offset for place, its in ends.items()}
    async for _, piece in Reader(client, begins, untils, read_committed=True).pieces():
        measured.count += len(piece)
        measured.size_bytes += sum(len(one.record.value or b"") for one in piece)
