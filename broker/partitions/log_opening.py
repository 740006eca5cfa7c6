"""Opening a partition over its log, or over none where that is damaged or cannot be opened.

Opening one needs nothing of the loop's: it may be done on any thread, with files of its own (`beside`).
"""

from collections.abc import Callable

from broker.config.broker_config import BrokerConfig
from broker.config.topic_config import TopicConfig
from broker.partitions.errors import storage_error
from broker.partitions.offline import PartitionWithoutLog
from broker.partitions.partition import Partition
from broker.partitions.partition_store import PartitionStore
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from broker.process.logging import EventLog
from storage.files import FilesBeside
from storage.log import Log, LogDamaged

_log = EventLog("partitions")


class PartitionOpener:
    """Opens partitions of topics. `epoch_of` gives the leader epoch of one by its topic's id."""

    def __init__(
        self,
        epoch_of: Callable[[bytes, int], int],
        config: BrokerConfig,
        environment: Environment,
        store: PartitionStore,
        *,
        on_written: Callable[[Partition], None],
        make_partition: Callable[..., Partition],
    ) -> None:
        self.epoch_of = epoch_of
        self._config = config
        self._environment = environment
        self._store = store
        self.at_a_time = store.opened_at_a_time
        self._on_written = on_written
        self._make_partition = make_partition
        # One for all partitions: there are thousands.
        self._producer_expiration_ms = lambda: config.get_int("producer.id.expiration.ms")

    def beside(self) -> FilesBeside | None:
        """What to open a log with on another thread; None where that takes no time, and is done on the loop."""
        return self._store.beside()

    async def wait_until_prepared(self, topic: Topic, index: int, epoch: int) -> None:
        """Until nothing but the call is needed to open it under this leader epoch. Raises `StorageFailed`; `NotOwned`
        where a later epoch is another node's."""
        await self._store.wait_until_prepared(topic.name, topic.topic_id, index, epoch)

    def is_led(self, topic: Topic, index: int, epoch: int) -> bool:
        """Whether it is still this node's, under the same epoch."""
        return topic.partitions.is_closed(index) and self.epoch_of(topic.topic_id, index) == epoch

    def let_go(self, topic: Topic, index: int) -> None:
        """It was prepared, and is not to be opened."""
        self._store.let_go(topic.topic_id, index)

    def without_log(
        self, topic: str, topic_id: bytes, config: TopicConfig, index: int, damaged: LogDamaged | None = None
    ) -> PartitionWithoutLog:
        """What stands in the place of one that is not open yet, or whose log is damaged."""
        return PartitionWithoutLog(
            topic=topic,
            topic_id=topic_id,
            index=index,
            leader_epoch=self.epoch_of(topic_id, index),
            config=config,
            now_ms=self._environment.wall_ms,
            damaged=damaged,
        )

    def __call__(
        self, topic: Topic, index: int, epoch: int, config: TopicConfig, files: FilesBeside | None
    ) -> Partition:
        """The partition, with a configuration that its topic had. Raises `StorageFailed`, and `GivenUp`."""
        log: Log | None = None
        try:
            log = self._store.open(topic.name, topic.topic_id, index, config.log, files)
            return self._with_log(topic, index, epoch, config, log)
        except LogDamaged as damaged:
            storage_error(damaged)
            return self._offline(topic, index, config, log, damaged)
        except OSError as error:
            # Of this log alone, as in Kafka: a file that is no file, or may not be opened, stands in nobody else's way.
            _log.error("a partition cannot be opened", topic=topic.name, partition=index, reason=error)
            unopened = LogDamaged(f"{topic.name}-{index}/", None, 0, f"it could not be opened: {error}")
            return self._offline(topic, index, config, log, unopened)

    def _offline(
        self, topic: Topic, index: int, config: TopicConfig, log: Log | None, damaged: LogDamaged
    ) -> PartitionWithoutLog:
        if log is not None:
            self._store.release(log)
        return self.without_log(topic.name, topic.topic_id, config, index, damaged)

    def _with_log(self, topic: Topic, index: int, epoch: int, config: TopicConfig, log: Log) -> Partition:
        return self._make_partition(
            topic=topic.name,
            topic_id=topic.topic_id,
            index=index,
            log=log,
            leader_epoch=epoch,
            config=config,
            now_ms=self._environment.wall_ms,
            producer_expiration_ms=self._producer_expiration_ms,
            on_written=self._on_written,
            durable_appends=not self._config.page_cache,
        )
