"""What a topic may be called, and what is wrong with a request to make or grow one. Sentences as Kafka's."""

import re
from collections.abc import Collection, Sequence

from protocol.errors import ErrorCode

LONGEST_NAME = 249
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
MOST_PARTITIONS_PER_REQUEST = 10_000
MOST_RECORDS_PER_REQUEST = 10_000
"""What Kafka's controller writes for one request; topics, partitions and settings are one record each."""
TOO_LARGE = "Unable to perform excessively large batch operation."

METADATA_TOPIC_ID = (1).to_bytes(16, "big")


class Refused(Exception):
    """One entry of a request cannot be done."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def check_name(name: str, longest: int = LONGEST_NAME) -> None:
    """Kafka's rules for a topic name; a file system may allow fewer characters. Raises `Refused`."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > longest:
        problem = f"the length of '{name}' is longer than the max allowed length {longest}"
    elif LEGAL_NAME.fullmatch(name) is None:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_replication(replication_factor: int, *, strict: bool) -> None:
    """One replica is what there is. More are taken as one, unless `strict`. Raises `Refused`."""
    if replication_factor < -1 or replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if strict and replication_factor > 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only 1 broker(s) are registered.",
        )


def check_replicas(assignments: Sequence[Sequence[int]], known: Collection[int], *, strict: bool) -> None:
    """Check a manual assignment, one replica list per partition, against the ids of all brokers. Raises `Refused`.

    Where not `strict`, others may be named beside one of these: they are left out.
    """
    for replicas in assignments:
        problem = _wrong_with(replicas, known, strict=strict)
        if problem is None and len(replicas) != len(assignments[0]):
            problem = (
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {len(assignments[0])} replica(s)."
            )
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _wrong_with(replicas: Sequence[int], known: Collection[int], *, strict: bool) -> str | None:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    for position, broker in enumerate(replicas):
        if broker in replicas[:position]:
            return f"The manual partition assignment includes the broker {broker} more than once."
        if broker not in known and (strict or not any(one in known for one in replicas)):
            return f"The manual partition assignment includes broker {broker}, but no such broker is registered."
    return None
