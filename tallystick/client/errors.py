"""What a client raises."""

from protocol.errors import ErrorCode
from protocol.errors import ProtocolError as ProtocolError  # also for programs that have no package `protocol`

PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Conditions that pass by themselves: a topic just created, a coordinator loading, a leader that could not verify a
transaction yet. Nothing was written where one of them is answered."""


class ConnectionLost(Exception):
    """The connection ended before the answer came."""


class UnsupportedByBroker(Exception):
    """The broker does not list the API, or no version of it that we know."""


class NoWayIn(Exception):
    """The broker is there, and it and this client do not come together. Asking again does not help."""


class NotSecured(NoWayIn):
    """TLS does not come about, or is not to be trusted."""


class NotAuthenticated(NoWayIn):
    """The client cannot show who it is, or the broker cannot show that it is the one."""


class KafkaError(Exception):
    """The broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = code
        self.name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
        super().__init__(f"{self.name}: {message}" if message else self.name)


class Fenced(KafkaError):
    """There is a later lease on the same transactional id; it settles what this one did."""


class TransactionGone(KafkaError):
    """The transaction was aborted: it ran into its timeout, or the broker wants it begun anew."""


def check(code: int, message: str | None = None) -> None:
    """Raise where a code is an error."""
    if code != ErrorCode.NONE:
        raise KafkaError(code, message)
