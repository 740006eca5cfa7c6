"""A partition that another node leads, as far as this node has looked at what is committed of it (KIP-392).

It is read as any other: high watermark, last stable offset and aborted transactions are of one moment, which is that of
the last look. It takes no writes, and nothing is found out here about time or producers.
"""

from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from storage.shared.shared_log import SharedLog
from storage.stretch import Stretch


class FollowedPartition(Partition):
    """See the head of this file. Its log is a `SharedLog` that is never committed here."""

    gone = ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def shared(self) -> SharedLog:
        assert isinstance(self.log, SharedLog), "only what lies in a store is followed"
        return self.log

    @property
    def is_watched(self) -> bool:
        """Whether a reader waits for it to move."""
        return self._visibility.is_watched

    def take(self, tail: Stretch, next_offset: int) -> None:
        """What was committed behind its end, whole batches up to `next_offset`."""
        now_ms, begins = self._now_ms(), self.end_offset
        self.shared.follow(tail, next_offset)
        for header, batch in tail.replay(begins):
            self.derived.follow(header, batch, now_ms)
        self.derived.producers.skip_to(next_offset)
        self.committed_moved()

    def begin_at(self, start_offset: int) -> None:
        """Readers begin there by now."""
        self.log.trim(min(start_offset, self.end_offset))
