"""Records gathered into batches, by partition, and handed to a sender.

Rule 1. A record with a key goes to the partition of its key, as Java's producers have it. One without goes with the
        others of its kind to one partition, until a batch is full; then to the next.
Rule 2. What was gathered is sent when a batch is full, or when `flush` says so.
"""

from collections.abc import Iterable
from typing import Protocol

from protocol.records.batch import HEADER_SIZE
from protocol.records.record import NewRecord, build_batch
from spark_connector.murmur2 import murmur2
from tallystick.administration.configs import TOPIC, configs_of
from tallystick.client.client import Client
from tallystick.client.errors import KafkaError, UnsupportedByBroker
from tallystick.client.lease import Partition
from tallystick.client.sender import Totals
from tallystick.records.input_lines import Parsed

BATCH_BYTES = 256 << 10
"""Of a batch, before compression, where its topic takes as much: 1 MB by default."""
_MOST_BYTES = "max.message.bytes"
_OF_A_RECORD, _OF_A_HEADER = 24, 6
"""What a record takes at most beside its key, value and headers, and a header beside its name and value."""


async def batch_bytes_of(client: Client, topic: str) -> int:
    """How large batches of a topic are to be: it may take smaller ones than is usual. Where it is not to be had, as
    large as usual."""
    resource = (TOPIC, topic)
    try:
        configs = (await configs_of(client, [resource]))[resource]
    except (KafkaError, UnsupportedByBroker):
        return BATCH_BYTES
    most = next((int(one.value) for one in configs if one.name == _MOST_BYTES and one.value is not None), BATCH_BYTES)
    # Some codecs make a little more of what they cannot compress.
    return max(1, min(BATCH_BYTES, most - HEADER_SIZE - most // 64))


class BatchSender(Protocol):
    """`tallystick.client.sender.Sender`, or one like it."""

    totals: dict[Partition, Totals]

    async def offer(self, batches: Iterable[tuple[Partition, bytearray]]) -> None:
        """Take batches; waits for room."""

    async def flush(self) -> None:
        """Wait until all is acknowledged that is to be."""

    async def close(self) -> None:
        """Stop."""


class RecordWriter:
    """See the head of this file. Of one topic."""

    def __init__(
        self,
        sender: BatchSender,
        topic: str,
        partitions: int,
        *,
        transactional: bool,
        compression: int = 0,
        only_partition: int | None = None,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.sender = sender
        self._topic = topic
        self._partitions = partitions
        self._transactional = transactional
        self._compression = compression
        self._only_partition = only_partition
        self._batch_bytes = batch_bytes
        self._gathered: dict[int, list[NewRecord]] = {}
        self._sizes: dict[int, int] = {}
        self._keyless = 0
        self.is_begun = False
        """Whether anything was handed to the sender."""

    async def write(self, parsed: Parsed) -> None:
        """Raises what stopped the sender; `ValueError` where there is no such partition."""
        number, size = self._partition(parsed), _size(parsed.record)
        if self._sizes.get(number, 0) + size > self._batch_bytes and number in self._gathered:
            await self._send(number)
            self._keyless = (self._keyless + 1) % self._partitions
            number = self._partition(parsed)
        self._gathered.setdefault(number, []).append(parsed.record)
        self._sizes[number] = self._sizes.get(number, 0) + size

    async def send_gathered(self) -> None:
        """Hand over what there is, full or not."""
        for number in list(self._gathered):
            await self._send(number)
        self._keyless = (self._keyless + 1) % self._partitions

    async def flush(self) -> None:
        """All of it, acknowledged."""
        await self.send_gathered()
        await self.sender.flush()

    def _partition(self, parsed: Parsed) -> int:
        wanted = parsed.partition if self._only_partition is None else self._only_partition
        if wanted is not None:
            if not 0 <= wanted < self._partitions:
                raise ValueError(f"{self._topic} has no partition {wanted}; it has {self._partitions}")
            return wanted
        key = parsed.record.key
        return self._keyless if key is None else (murmur2(key) & 0x7FFFFFFF) % self._partitions

    async def _send(self, number: int) -> None:
        records = self._gathered.pop(number)
        del self._sizes[number]
        batch = build_batch(records, transactional=self._transactional, compression=self._compression)
        self.is_begun = True
        await self.sender.offer([((self._topic, number), bytearray(batch))])


def _size(record: NewRecord) -> int:
    headers = sum(len(name.encode()) + len(value or b"") + _OF_A_HEADER for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + _OF_A_RECORD
