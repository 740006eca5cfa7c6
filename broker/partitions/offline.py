"""Partitions without a log: it is damaged, or not open yet. They are there, and refuse whatever is wanted of them.

With a damaged log, it is Kafka's offline partition (KAFKA_STORAGE_ERROR). Its files are neither read nor written until
an operator has repaired them; everything else is served. It is no partition that was deleted: a transaction that has
written to it stays prepared, and its marker is tried again.

One that is still being opened answers as a broker of Kafka's that knows of a partition and does not have it yet
(NOT_LEADER_OR_FOLLOWER): clients look at the metadata again, and come back.
"""

from collections.abc import Callable
from typing import NoReturn

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from storage.log import LogDamaged
from storage.memory_log import MemoryLog


class PartitionWithoutLog(Partition):
    """See the head of this file: its log is `damaged`, or else still being opened. Readers of a partition look at
    `refusal` first."""

    def __init__(
        self,
        *,
        topic: str,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        config: TopicConfig,
        now_ms: Callable[[], int],
        damaged: LogDamaged | None,
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

    @property
    def refusal(self) -> ErrorCode:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.offline is None else ErrorCode.KAFKA_STORAGE_ERROR

    def _refusal(self) -> AppendError:
        why = f"{self.name} is still being opened" if self.offline is None else str(self.offline)
        return AppendError(self.refusal, why)

    def append(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def append_records(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def append_marker(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def needs_verification(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def begin_verification(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def delete_records(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def offset_for_timestamp(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def max_timestamp(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()

    def read(self, *_: object, **__: object) -> NoReturn:
        raise self._refusal()
