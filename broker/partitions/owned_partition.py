"""A partition that another node may lead by now. Nothing is read of one that could be behind: a reader who is not would
be sent back.
"""

from collections.abc import Callable

from broker.partitions.append import Appended, CheckedBatch
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from broker.partitions.verification import Guard
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.records.batch import BatchHeader


class OwnedPartition(Partition):
    """See the head of this file. What is refused while another may have this node's place, is refused for now: by what
    that one knows it may be right, and who is told that he is fenced does not come back."""

    may_be_behind: Callable[[], bool] | None = None
    """Asked where several nodes lead: whether somebody else may have taken this node's place."""

    @property
    def refusal(self) -> ErrorCode:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self._may_be_behind() else ErrorCode.NONE

    def append(
        self,
        records: memoryview,
        *,
        transactional_id: str | None,
        guard: Guard | None = None,
        verification: bool = True,
        now_ms: int,
        zstd_allowed: bool = True,
        header: BatchHeader | None = None,
        opened: CheckedBatch | None = None,
    ) -> Appended:
        try:
            return super().append(
                records,
                transactional_id=transactional_id,
                guard=guard,
                verification=verification,
                now_ms=now_ms,
                zstd_allowed=zstd_allowed,
                header=header,
                opened=opened,
            )
        except AppendError as refused:
            if not self._may_be_behind():
                raise
            raise _for_now(refused) from refused

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        try:
            return super().append_marker(marker, now_ms)
        except AppendError as refused:
            if not self._may_be_behind():
                raise
            raise _for_now(refused) from refused

    def needs_verification(self, records: memoryview) -> BatchHeader | None:
        try:
            return super().needs_verification(records)
        except AppendError as refused:
            if not self._may_be_behind():
                raise
            raise _for_now(refused) from refused

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool) -> Guard:
        try:
            return super().begin_verification(producer_id, epoch, sequence, supports_epoch_bump)
        except AppendError as refused:
            if not self._may_be_behind():
                raise
            raise _for_now(refused) from refused

    def _may_be_behind(self) -> bool:
        return self.may_be_behind is not None and self.may_be_behind()


def _for_now(refused: AppendError) -> AppendError:
    return AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(refused))
