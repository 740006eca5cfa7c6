"""How a partition refuses: with Kafka's code, and what Kafka says beside it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from broker.process.logging import EventLog
from protocol.errors import ErrorCode
from storage.files import GivenUp
from storage.log import LogDamaged, StorageFailed

_log = EventLog("partitions")


class RecordError(NamedTuple):
    """One record that was at fault (KIP-467)."""

    batch_index: int
    message: str | None


class PartitionError(Exception):
    """The partition refuses the request. Nothing has been changed.

    `str(error)` is for people and logs; `message` is what a response carries, and null wherever Kafka's is.
    """

    def __init__(self, code: ErrorCode, reason: str, *, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.message = message


class AppendError(PartitionError):
    """A batch that may not be appended. Nothing has been written.

    `log_start_offset` is -1 where Kafka refuses before it asks the log (damaged or oversized batches).
    """

    def __init__(
        self,
        code: ErrorCode,
        reason: str,
        *,
        message: str | None = None,
        record_errors: Sequence[RecordError] = (),
        log_start_offset: int = -1,
    ) -> None:
        super().__init__(code, reason, message=message)
        self.record_errors = tuple(record_errors)
        self.log_start_offset = log_start_offset


def storage_error(damaged: LogDamaged) -> ErrorCode:
    """What a client gets for what lies in a damaged log. The log of the broker names each damage once."""
    if not damaged.named:
        damaged.named = True
        # What lies in a shared store has no folder, and is repaired there.
        repair = {"repair": f"tallystick serve --repair {damaged.folder}"} if damaged.folder else {}
        _log.error(str(damaged), **repair)
    return ErrorCode.KAFKA_STORAGE_ERROR


@contextmanager
def vital(what: str) -> Iterator[None]:
    """Around work on another thread that others wait for. Where it fails, of the disk or of a bug, that is
    `StorageFailed`, which ends the process: they would wait for ever, and nobody knows how much of it is done."""
    try:
        yield
    except (StorageFailed, GivenUp):
        raise
    except Exception as error:
        if not isinstance(error, OSError):
            _log.bug(what, error)
        raise StorageFailed(f"{what}: {error}") from error
