"""What this node knows of topics: what the metadata log says, as logs and partitions one can use.

Rule 1. The directory follows the log, and only what of it is durable: a topic is made when its record is, and its
        logs are there before the request is answered.
Rule 2. A deleted topic is gone at once for readers and writers; its folders follow when no sync uses them any more,
        and a new topic of that name appears only after that.
Rule 3. Partitions open in the background (`opening_logs`); what is wanted of one before is refused, and repeated.
Rule 4. Where several nodes lead, those that this one leads open here, under the epoch that the log says; what is led by
        another is refused (NOT_LEADER_OR_FOLLOWER; `across_nodes.led_partitions`).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from broker.config.broker_config import BrokerConfig
from broker.coordination.across_nodes.forwarding import Controller
from broker.coordination.across_nodes.led_partitions import LedPartitions, Own
from broker.coordination.across_nodes.nodes import Nodes
from broker.coordination.cluster import Cluster
from broker.coordination.leaving_topics import LeavingTopics
from broker.coordination.metadata_snapshots import MetadataSnapshots
from broker.coordination.opening_logs import LogsToOpen
from broker.partitions.log_opening import PartitionOpener
from broker.partitions.partition import Partition
from broker.partitions.partition_store import FolderStore, PartitionStore
from broker.partitions.topic import Topic
from broker.process.environment import Environment
from broker.process.logging import EventLog
from broker.process.time_slice import TimeSlice
from coordinator.cluster.image import Change, TopicImage
from protocol.errors import ErrorCode
from protocol.internal_topics import CLUSTER_METADATA
from storage.steps import Blocking

_log = EventLog("topics")

Follower = Callable[[Topic], None]


class KnownTopics:
    """See the head of this file."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        config: BrokerConfig,
        environment: Environment,
        store: PartitionStore,
        nodes: Nodes,
        controller: Controller | None = None,
        own: Own,
        directory: bytes = bytes(16),
        on_written: Callable[[Partition], None],
        make_partition: Callable[..., Partition] = Partition,
    ) -> None:
        """`controller` is who to ask where it may be another node."""
        self._cluster = cluster
        self._nodes = nodes
        self._controller = controller
        self._config = config
        self._environment = environment
        self._store = store
        self._directory = directory
        opener = PartitionOpener(
            nodes.epoch, config, environment, store, on_written=on_written, make_partition=make_partition
        )
        self._closed_one = opener.without_log
        self.to_open = LogsToOpen(opener, environment, stands=self._stands)
        self.led = LedPartitions(nodes, self.to_open, store, self.by_id, own)
        self.snapshots = MetadataSnapshots(
            cluster,
            lambda: store.metadata_snapshots(CLUSTER_METADATA, 0),
            config,
            environment,
            self._with_folders_left,
            single=nodes.is_alone,
        )
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._leaving = LeavingTopics(store, environment, self.to_open.wait_until_left)
        self._own = own
        self._on_the_way: dict[str, asyncio.Task[dict[str, ErrorCode]]] = {}
        """By name, topics that a request makes which is about something else."""
        self._to_configure: deque[Topic] = deque()
        self._configured: asyncio.Future[None] | None = None
        """While topics take over a change of the broker's settings."""
        self.revision = self.offset = 0
        """Counts what has changed of topics; and where the metadata log ended with the last of it."""
        self._created: list[Follower] = []
        self._deleted: list[Follower] = []

    # -- looking ---------------------------------------------------------------------------------------------

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partition_names(self) -> set[tuple[str, int]]:
        """Those of all partitions, open or not, that of the metadata log included."""
        known = {(topic.name, index) for topic in self._by_id.values() for index in range(len(topic.partitions))}
        return {(CLUSTER_METADATA, 0), *known}

    def partition(self, name: str, index: int) -> Partition | None:
        return _partition(self._by_name.get(name), index)

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition | None:
        return _partition(self._by_id.get(topic_id), index)

    def leads(self, name: str, index: int) -> bool:
        """Whether this node leads a partition, or would if the topic were there."""
        topic = self._by_name.get(name)
        return topic is None or self._nodes.leads(topic.topic_id, index)

    def leader(self, name: str, index: int) -> tuple[int, int]:
        """(node, leader epoch) of a partition of a topic that is there; -1 for the node where nobody leads it."""
        return self._nodes.leader(self._by_name[name].topic_id, index)

    def opened(self) -> list[Partition]:
        """Every partition that is open: what housekeeping, checkpoints and shutdown are about."""
        return [partition for topic in self._by_id.values() for partition in topic.partitions.opened()]

    def offline(self) -> list[Partition]:
        """Every partition whose log is damaged."""
        return [partition for topic in self._by_id.values() for partition in topic.partitions.offline()]

    def exists(self, topic_id: bytes) -> bool:
        """Whether the metadata log knows a topic of this id, though its logs may not be open yet."""
        return topic_id in self._cluster.image.by_id

    # -- following -------------------------------------------------------------------------------------------

    def on_created(self, follower: Follower) -> None:
        """Call `follower` for each topic that is new here, those found at start included."""
        self._created.append(follower)

    def on_deleted(self, follower: Follower) -> None:
        """Call `follower` for each topic that is gone; its partitions are no longer written."""
        self._deleted.append(follower)

    def before_reuse(self, follower: Callable[[Topic], Awaitable[None]]) -> None:
        """Await `follower` for each deleted topic when its folders are out of the way, before its name is free."""
        self._leaving.before_reuse.append(follower)

    def load(self) -> None:
        """Take over what the metadata log says at start, then follow it. Opens no log yet."""
        image = self._cluster.image
        self._apply_broker_configs()
        image.changes.clear()
        if not self._nodes.is_alone:  # Nothing bears the name of a topic in a store: it has no folders.
            image.removed.clear()
        if isinstance(self._store, FolderStore):
            for folder in self._store.tidy(self._owner):
                _log.warning("a folder of no known topic was set aside", folder=folder)
        for topic in list(image.topics.values()):
            self._publish(topic, topic.partition_count)
        self._config.subscribe(lambda _changed: self._reconfigure())
        self._cluster.on_durable(self._follow)

    async def wait_until_open(self, topics: Sequence[Topic] | None = None) -> None:
        """Until the logs of some topics are open, or of all there are now. Raises `StorageFailed`."""
        await self.to_open.wait_until_open(list(self._by_id.values()) if topics is None else topics)

    def _stands(self, topic: Topic) -> bool:
        return self._by_id.get(topic.topic_id) is topic

    def _follow(self) -> None:
        """Called when the metadata log got durable further, before requests that wait for that are answered."""
        image = self._cluster.image
        durable = self._cluster.durable_offset
        due = [change for change in image.changes if change.offset < durable]
        image.changes = [change for change in image.changes if change.offset >= durable]
        # A topic is made by many records; what its last one says is enough.
        for change in {one.topic.topic_id if one.topic else b"": one for one in due if not one.brokers}.values():
            self._take(change)

    def _take(self, change: Change) -> None:
        image, self.offset = change.topic, change.offset
        if image is None:
            self._apply_broker_configs()
        elif change.removed:
            self._remove(image)
        else:
            self._show(image, change.partition_count)

    def _show(self, image: TopicImage, partition_count: int) -> None:
        """A topic with its settings and, by now, so many partitions; one that was deleted meanwhile is passed over."""
        topic = self._by_id.get(image.topic_id)
        if topic is not None:
            known = len(topic.partitions)
            topic.partitions.grow(partition_count)
            self.revision += 1
            self.led.assign(topic, range(known, partition_count))
            self.to_open.add(topic)
            topic.configure(self._config.topic_config(image.configs))
        elif image.topic_id in self._cluster.image.by_id:
            self._publish(image, partition_count)

    def _publish(self, image: TopicImage, partition_count: int) -> None:
        leaving = self._leaving.find(image.name)
        if leaving is not None:
            leaving.add_done_callback(lambda _: self._show(image, partition_count))
            return
        # Nothing is held to the settings of a closed partition. The topic itself would keep itself alive.
        config = self._config.topic_config(image.configs)
        topic = Topic(image.name, image.topic_id, config, partial(self._closed_one, image.name, image.topic_id, config))
        topic.partitions.grow(partition_count)
        self._by_name[image.name] = topic
        self._by_id[image.topic_id] = topic
        self.revision += 1
        self.led.assign(topic, range(partition_count))
        self.to_open.add(topic)
        for follower in self._created:
            follower(topic)

    def _apply_broker_configs(self) -> None:
        configs = self._cluster.image.broker_configs
        self._config.apply_dynamic(cluster_wide=configs.get("", {}), own=configs.get(str(self._config.node_id), {}))

    def _reconfigure(self) -> None:
        """Broker settings are what topic settings fall back to. Thousands of topics take them over in slices."""
        self._to_configure = deque(self._by_id.values())
        if self._configured is None:
            self._configured = asyncio.get_running_loop().create_future()
            self._configure_on(self._configured, self._environment.time_slice())

    def _configure_on(self, configured: "asyncio.Future[None]", turns: TimeSlice) -> None:
        while self._to_configure:
            topic = self._to_configure.popleft()
            image = self._cluster.image.by_id.get(topic.topic_id)
            if image is not None:
                topic.configure(self._config.topic_config(image.configs))
            if turns.spent():
                turns.call_in_turn(lambda: self._configure_on(configured, turns))
                return
        self._configured = None
        configured.set_result(None)

    async def wait_until_configured(self) -> None:
        """Until every topic has taken over the last change of the broker's settings."""
        if self._configured is not None:
            await asyncio.wait([self._configured])

    def _owner(self, name: str, index: int, topic_id: bytes | None) -> bool | None:
        """Whose folder this is. One whose metadata file was torn, or has an id that nobody ever had here, is that of
        the topic of its name; opening it says what is wrong."""
        image = self._cluster.image
        if name == CLUSTER_METADATA:
            return True
        if topic_id in image.removed:
            return False
        known = image.topics.get(name)
        if known is None or (index >= known.partition_count and topic_id not in (None, known.topic_id)):
            return None
        # A partition beyond the last: it was made for a CreatePartitions that never became durable.
        return index < known.partition_count

    # -- deleting --------------------------------------------------------------------------------------------

    def _remove(self, image: TopicImage) -> None:
        topic = self._by_id.pop(image.topic_id, None)
        if not self._nodes.is_alone:  # See `load`.
            self._cluster.image.removed.pop(image.topic_id, None)
        if topic is None:
            return
        del self._by_name[topic.name]
        self.revision += 1
        self.led.forget(topic)
        opened = topic.partitions.opened()
        for partition in opened:
            partition.discarded = True
        for follower in self._deleted:
            follower(topic)
        self._leaving.add(topic, opened)

    def _with_folders_left(self) -> set[bytes]:
        """Ids of deleted topics whose folders may still have their names."""
        changes = self._cluster.image.changes
        under_way = (one.topic.topic_id for one in changes if one.removed and one.topic is not None)
        return self._leaving.with_folders.union(under_way)

    def sweep(self) -> Blocking | None:
        """What frees the space of one deleted log, on another thread; None where none is due. For housekeeping."""
        return self._store.sweep()

    # -- ending ----------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Let deletions that are under way finish."""
        await self._leaving.wait_until_idle()


def _partition(topic: Topic | None, index: int) -> Partition | None:
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    return topic.partitions[index]
