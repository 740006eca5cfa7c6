"""What the operations of the transaction coordinator answer, beside an `ErrorCode`."""

from dataclasses import dataclass
from typing import Final

from coordinator.transactions.states import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions, Transaction
from protocol.errors import ErrorCode

Verified = dict[tuple[str, bytes, int], ErrorCode]
"""(topic, topic id, partition) → whether it is in the transaction."""


@dataclass(init=False, slots=True, unsafe_hash=True)
class Identity:
    """The answer of InitProducerId and EndTxn: who the producer is from now on."""

    error: Final[ErrorCode]
    producer_id: Final[int]
    producer_epoch: Final[int]

    def __init__(self, error: ErrorCode, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_EPOCH) -> None:
        self.error = error
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


@dataclass(frozen=True, slots=True)
class Description:
    """The answer of DescribeTransactions; `partitions` are those that still lack a marker while one is preparing."""

    error: ErrorCode
    transaction: Transaction | None = None
    partitions: tuple[TopicPartitions, ...] = ()
