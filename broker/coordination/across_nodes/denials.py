"""What the log is told where another node does not let this one ask: once, until it does."""

from broker.process.logging import EventLog
from protocol.errors import ErrorCode

_log = EventLog("peers")


class Denials:
    """Of one kind of request, named `what`. Nobody else is told: clients are to try again."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._denied_by: set[int] = set()

    def answered(self, node_id: int, *errors: int) -> None:
        """A node has answered, with these errors among others."""
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED not in errors:
            self._denied_by.discard(node_id)
        elif node_id not in self._denied_by:
            self._denied_by.add(node_id)
            _log.error(
                "a node does not let this one ask: is its principal in super.users?", node=node_id, of=self._what
            )
