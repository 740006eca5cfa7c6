"""What the state of producers is asked and told, what it tells of that, and its refusal."""

from dataclasses import dataclass
from typing import Final

from protocol.errors import ErrorCode


class ProducerRefused(Exception):
    """A batch or marker may not be appended. Nothing has been changed."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(init=False, slots=True)
class Tentative:
    """What a pending verification has seen of a producer (KIP-890): bounds its first sequence here."""

    lowest_sequence: Final[int]
    supports_epoch_bump: Final[bool]

    def __init__(self, lowest_sequence: int, supports_epoch_bump: bool) -> None:
        self.lowest_sequence = lowest_sequence
        self.supports_epoch_bump = supports_epoch_bump


@dataclass(init=False, slots=True)
class EndMarker:
    """A marker as the log carries it. `transaction_version` is not in the log: 0 on replay."""

    producer_id: Final[int]
    producer_epoch: Final[int]
    commit: Final[bool]
    coordinator_epoch: Final[int]
    timestamp_ms: Final[int]
    transaction_version: Final[int]

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        timestamp_ms: int,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch
        self.timestamp_ms = timestamp_ms
        self.transaction_version = transaction_version


@dataclass(init=False, slots=True)
class CompletedTransaction:
    """A transaction and its marker. `last_stable_offset` is what the aborted index records beside it."""

    producer_id: Final[int]
    first_offset: Final[int]
    last_offset: Final[int]
    aborted: Final[bool]
    last_stable_offset: Final[int]

    def __init__(
        self, producer_id: int, first_offset: int, last_offset: int, aborted: bool, last_stable_offset: int
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.aborted = aborted
        self.last_stable_offset = last_stable_offset
