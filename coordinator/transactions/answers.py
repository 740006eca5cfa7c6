"""What the operations of the transaction coordinator answer, beside an `ErrorCode`."""

from dataclasses import dataclass

from coordinator.transactions.states import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions, Transaction
from protocol.errors import ErrorCode

Verified = dict[tuple[str, bytes, int], ErrorCode]
"""(topic, topic id, partition) → whether it is in the transaction."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The answer of InitProducerId and EndTxn: who the producer is from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Description:
    """The answer of DescribeTransactions; `partitions` are those that still lack a marker while one is preparing."""

    error: ErrorCode
    transaction: Transaction | None = None
    partitions: tuple[TopicPartitions, ...] = ()
