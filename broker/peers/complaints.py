"""What the log is told of a node that cannot be asked: that it is so, and again each minute for as long as it is so,
however many try, and on how many connections.
"""

from broker.peers.port import Place
from broker.process.environment import Environment
from broker.process.logging import EventLog

AGAIN_MS = 60_000

_log = EventLog("peers")


class Complaints:
    """Of one node at one place."""

    def __init__(self, node_id: int, place: Place, environment: Environment) -> None:
        self.place = place
        self._node_id = node_id
        self._environment = environment
        self._told_ms: int | None = None

    def failed(self, reason: str) -> None:
        """A connection could not be made, or ended without an answer."""
        now_ms = self._environment.monotonic_ms()
        if self._told_ms is None or now_ms - self._told_ms >= AGAIN_MS:
            self._told_ms = now_ms
            _log.warning("a node cannot be asked", node=self._node_id, address=self.place.address, reason=reason)

    def ended(self, reason: str) -> None:
        """A connection on which the node had answered is gone."""
        self._told_ms = None
        _log.info("a connection to a node ended", node=self._node_id, address=self.place.address, reason=reason)
