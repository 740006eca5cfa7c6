"""A partition whose log is damaged: it is there, and answers KAFKA_STORAGE_ERROR to whatever is wanted of it.

Kafka's offline partition. Its files are neither read nor written until an operator has repaired them; everything else
is served. It is no partition that was deleted: a transaction that has written to it stays prepared, and its marker is
tried again.
"""

from collections.abc import Callable
from typing import NoReturn

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from storage.log import LogDamaged
from storage.memory_log import MemoryLog


class OfflinePartition(Partition):
    """See the head of this file. Whoever reads from a partition looks at `offline` first."""

    def __init__(
        self,
        damaged: LogDamaged,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        config: TopicConfig,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(
            topic=topic,
            topic_id=topic_id,
            index=index,
            log=MemoryLog(config.log),
            leader_epoch=leader_epoch,
            config=config,
            now_ms=now_ms,
            producer_expiration_ms=lambda: 1,
            on_written=lambda _: None,
            durable_appends=True,
        )
        self.offline = damaged

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        assert self.offline is not None
        raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.offline))

    append = append_records = append_marker = _refuse
    needs_verification = begin_verification = _refuse
    delete_records = _refuse
    offset_for_timestamp = max_timestamp = read = _refuse
