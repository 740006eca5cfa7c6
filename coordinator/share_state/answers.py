"""What the share coordinator answers."""

from dataclasses import dataclass

from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an operation, and Kafka's sentence where it has one of its own."""

    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of a share partition, without its batches."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


DONE = Verdict(ErrorCode.NONE)
NOT_A_PARTITION = Verdict(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
UNKNOWN_PARTITION = Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def uninitialised(operation: str) -> Verdict:
    """Nobody has initialised the share partition."""
    return Verdict(ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed.")
