"""Fresh producer ids: blocks of a thousand, each durable in the metadata log before an id of it is handed out.

The next block is asked for when the current one is nine tenths used. Ids are never reused; those of a block that was
not used up when the broker stopped are lost, which is fine (there are 2^63).
"""

from broker.coordination.cluster import Cluster
from broker.process.logging import EventLog
from coordinator.cluster.coordinator import ProducerIdBlock
from coordinator.runtime import NotReady
from protocol.errors import ErrorCode

_log = EventLog("producer ids")


INCARNATION_SHIFT = 32


class IncarnationIds:
    """The `ProducerIds` port of a node beside others: ids that begin with the number of its life, which no other has.
    None is written down, and nobody is asked: what a node that dies had left is lost, which is fine."""

    def __init__(self, number: int) -> None:
        self._first = number << INCARNATION_SHIFT
        self._used = 0

    def take(self) -> int | None:
        """The next id; None when this life has had all of its four billion."""
        if self._used == 1 << INCARNATION_SHIFT:
            return None
        self._used += 1
        return self._first + self._used - 1


class ProducerIdSource:
    """The `ProducerIds` port over the cluster's metadata."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._current = ProducerIdBlock(0, 0)
        self._used = 0
        self._next: ProducerIdBlock | None = None
        self._asked = False
        self._last = -1

    def take(self) -> int | None:
        """The next id; None while the next block is not durable yet."""
        if self._used == self._current.count and self._next is not None:
            self._current, self._next, self._used = self._next, None, 0
        if self._used * 10 >= self._current.count * 9:
            self.prefetch()
        if self._used == self._current.count:
            return None
        producer_id = self._current.first + self._used
        self._used += 1
        assert producer_id > self._last, "a producer id is handed out once"
        self._last = producer_id
        return producer_id

    def prefetch(self) -> None:
        """Ask for the next block, unless that is under way. Called at start too: no request waits for the first."""
        if self._asked or self._next is not None:
            return
        self._asked = True
        try:
            self._cluster.shard.submit(
                lambda machine, _now_ms: machine.take_producer_ids(self, self._node_id, self._cluster.epoch), self
            )
        except NotReady:
            self._asked = False

    def release(self, answer: object) -> None:
        """The block is durable (this source is the ticket of its own question)."""
        self._asked = False
        if isinstance(answer, ProducerIdBlock):
            assert answer.first > self._last, "a block begins above every id handed out before (KAFKA-20031)"
            self._next = answer
        else:
            _log.error("there are no producer ids left")

    def refuse(self, error: ErrorCode) -> None:
        """The metadata log does not take it now; the next `take` asks again."""
        self._asked = False
        _log.warning("no block of producer ids", error=error.name)
