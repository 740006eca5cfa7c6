"""A batch whose sequences were written before: the same one again, or another one that was given them?

A client repeats a batch for as long as it waits for the answer, and ends no transaction meanwhile. Kafka answers
whatever has these sequences as it did the first time. librdkafka (seen with 2.16.1) gives them out anew: it aborts
while a batch waits to be sent again, whose records are in the log already, drops it, and stays with its epoch. The next
transaction's first batch has as many records, is answered with the offset of the aborted ones, and lost, and what it
was in is committed without it. Since KIP-890 (Produce 12) each transaction has an epoch, and this cannot be.
"""

from broker.partitions.append import Appended
from protocol.records.batch import BatchHeader
from storage.producers.producer_entry import CachedBatch
from storage.producers.producer_state import ProducerState


def may_be_repeated(producers: ProducerState, header: BatchHeader, written: CachedBatch) -> bool:
    """Whether `header` may be that of `written` again: its transaction, if it is of one, has not ended."""
    if not header.is_transactional:
        return True
    return producers.is_of_open_transaction(header.producer_id, written.base_offset)


def reused(header: BatchHeader, written: CachedBatch) -> str:
    """What the client is told, with INVALID_TXN_STATE: as of any batch that is not of the transaction under way, after
    which it aborts and goes on. Where nothing is in order any more (45), librdkafka gives itself up."""
    sequence, producer_id = header.base_sequence, header.producer_id
    return (
        f"Sequence {sequence} of producer {producer_id} was used before, at offset {written.base_offset}, in a "
        "transaction that has ended"
    )


def answered_again(written: CachedBatch, log_start_offset: int) -> Appended:
    """What the first time was answered."""
    base, last, timestamp_ms = written.base_offset, written.last_offset, written.timestamp_ms
    return Appended(base, last, timestamp_ms, log_start_offset, duplicate=True)
