"""What a read of a partition brings."""

from dataclasses import dataclass

from protocol.schema import Buffer
from storage.producers.aborted import AbortedTransaction


@dataclass(frozen=True, slots=True)
class FetchedData:
    """What one read found, with the bounds that held at that very moment (KAFKA-9807)."""

    records: list[Buffer]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None
    """None for read_uncommitted, and where the first batch has no room, as in Kafka; else the transactions whose
    records a reader has to leave out, perhaps none."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records))
