"""Reading batches out of a partition, as far as a reader of its isolation level may see."""

from dataclasses import dataclass

from protocol.schema import Buffer
from storage.aborted import AbortedIndex, AbortedTransaction
from storage.log import Log


@dataclass(frozen=True, slots=True)
class FetchedData:
    """What one read found, with the bounds that held at that very moment (KAFKA-9807)."""

    records: list[Buffer]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None
    """None for read_uncommitted; else the transactions whose records a reader has to leave out, perhaps none."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records))


def read_committed_part(
    log: Log, aborted: AbortedIndex, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool
) -> tuple[list[Buffer], list[AbortedTransaction]]:
    """Batches below the last stable offset, and the aborted transactions that overlap them."""
    found = log.read_slice(offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one)
    if not found.batches:
        return [], []
    return found.batches, aborted.collect(offset, found.next_offset)
