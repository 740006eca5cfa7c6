"""What the metadata log says, as tables: brokers, topics and who leads them, settings, features, users, ACLs, the next
producer id.

`ClusterImage.replay` is the only thing that writes them. Records of a kind that is not known are passed over (KIP-915).
What only a snapshot of the image needs (`coordinator.cluster.snapshot`) is kept beside them.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from coordinator.cluster.acls import AclTable
from coordinator.cluster.leaders import NO_LEADER_CHANGE, NOBODY, Leaders
from coordinator.cluster.quotas import QuotaTable
from coordinator.cluster.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from coordinator.cluster.scram import ScramUsers
from protocol.codec import decode, read_metadata_frame
from protocol.schema import schema_of

if TYPE_CHECKING:
    from coordinator.cluster.wide_topics import WideBatch

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


@dataclass(slots=True)
class TopicImage:
    """One topic. Its identity is the id; the name may come back with another one."""

    name: str
    topic_id: bytes
    configs: dict[str, str] = field(default_factory=dict[str, str])
    leaders: Leaders = field(default_factory=Leaders)
    """As the log says. Of a node that is alone, those of the time when the partitions were made: it leads all of them,
    with the epoch of its latest start."""

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A broker as it last registered."""

    registration: RegisterBrokerRecord
    fenced: bool
    """Whether its life is over as far as the cluster is concerned: it leads nothing until it registers again."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that the log said and that others follow. `offset` is where it stands in the log."""

    offset: int
    topic: TopicImage | None = None
    """Created, grown or configured; None where broker settings changed, or brokers. Who leads what is told apart
    (`LeaderChange`)."""
    partition_count: int = 0
    """How many partitions the topic has as of this record; the image may be ahead of what is durable."""
    removed: bool = False
    brokers: bool = False
    """Whether a broker registered or ended."""


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A partition is led by this node, under this epoch, since a record at this offset."""

    offset: int
    topic_id: bytes
    index: int
    """-1: the topic is gone."""
    leader: int = NOBODY
    epoch: int = NOBODY


class ClusterImage:
    """See the head of this file."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.by_id: dict[bytes, TopicImage] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By broker id as text; the empty name is for all brokers."""
        self.client_metrics: dict[str, dict[str, str]] = {}
        """Subscriptions to metrics of clients, by name; one without settings is none."""
        self.client_metrics_changes = 0
        """How often one of them changed."""
        self.group_configs: dict[str, dict[str, str]] = {}
        """By group id: what consumer groups have of their own."""
        self.quotas = QuotaTable()
        self.acls = AclTable()
        self.removed: dict[bytes, str] = {}
        """Ids and names of topics that were there once: whatever still bears one of them belongs to nobody. Those whose
        folders are gone for good are forgotten with the next snapshot."""
        self.features: dict[str, int] = {}
        """Finalised levels; level 0 is as good as none, and is not in here."""
        self.decided_features: set[str] = set()
        """Features that were finalised once, even at level 0: a start of a node leaves them as they are."""
        self.feature_changes: deque[tuple[int, dict[str, int]]] = deque()
        """(offset of the record, all levels since then): what followers have not seen yet."""
        self.scram_users = ScramUsers()
        self.next_producer_id = 0
        self.brokers: dict[int, BrokerImage] = {}
        """By id, those that have registered and were not taken away."""
        self.broker_epoch = -1
        self.registration: RegisterBrokerRecord | None = None
        """The latest of all."""
        self.epoch = -1
        """The highest of all epochs of starts and leaders so far: the next one is above it."""
        self.led: Counter[int] = Counter()
        """How many partitions each node leads."""
        self.leader_changes: deque[LeaderChange] | None = None
        """What followers have not seen yet of who leads; None where nobody asks for it."""
        self.producer_ids: ProducerIdsRecord | None = None
        self.is_complete = True
        """Whether it holds all that the log says: not where records were passed over."""
        self.last_offset = -1
        self.last_timestamp_ms = 0
        self.record_bytes = 0
        """Of records behind the latest snapshot."""
        self.before: dict[bytes, tuple[Leaders, dict[str, str]]] | None = None
        """While a snapshot is being made: leaders and settings of topics that have changed since it began."""
        self.changes: list[Change] = []
        """What followers have not seen yet; they take it away."""
        self._canonical: dict[str, dict[str, None]] = {}
        """Names with `.` written as `_`: two topics whose names collide would share metric names."""

    def collision(self, name: str) -> str | None:
        """A topic whose name differs from `name` only by `.` against `_`."""
        return next(iter(self._canonical.get(name.replace(".", "_"), ())), None)

    @property
    def living(self) -> tuple[int, ...]:
        """The nodes that partitions may be given to."""
        return tuple(sorted(node_id for node_id, one in self.brokers.items() if not one.fenced))

    @property
    def racks(self) -> dict[int, str | None]:
        """Where each node stands (`broker.rack`)."""
        return {node_id: one.registration.rack for node_id, one in self.brokers.items()}

    def replay(self, offset: int, frame: bytes, timestamp_ms: int = 0) -> None:
        """Take in one record."""
        api_key, version, position = read_metadata_frame(frame)
        known = _KNOWN.get(api_key)
        if known is not None:
            cls, take = known
            record: object = decode(cls, version, frame, position)[0]
            take(self, record, offset)
        else:
            self.is_complete = False
        self.last_offset = offset
        self.last_timestamp_ms = max(self.last_timestamp_ms, timestamp_ms)
        self.record_bytes += len(frame)

    def replay_wide(self, offset: int, wide: "WideBatch") -> None:
        """Take in a batch of many partitions of one topic; what each of its records says, at once."""
        for number, frame in enumerate(wide.head):
            self.replay(offset + number, frame, wide.timestamp_ms)
        topic = self.by_id[wide.topic_id]
        assert wide.indexes.start == topic.partition_count, "partitions come in order"
        self._changes(topic)
        if self.leader_changes is not None:
            last = offset + len(wide.head) + len(wide.indexes) - 1
            for index, (leader, epoch) in zip(wide.indexes, wide.leaders, strict=True):
                self.leader_changes.append(LeaderChange(last, wide.topic_id, index, leader, epoch))
        topic.leaders.extend_with(wide.leaders)
        self.led.update(wide.leaders.nodes())
        self.epoch = max(self.epoch, wide.leaders.highest_epoch())
        self.last_offset = offset + len(wide.head) + len(wide.indexes) - 1
        self.last_timestamp_ms = max(self.last_timestamp_ms, wide.timestamp_ms)
        self.record_bytes += wide.partition_bytes
        self._tell(self.last_offset, topic)

    def _changes(self, topic: TopicImage) -> None:
        """Called before it does: a snapshot under way is of what was."""
        if self.before is not None and topic.topic_id not in self.before:
            self.before[topic.topic_id] = (topic.leaders.copy(), dict(topic.configs))

    def _topic(self, record: TopicRecord, offset: int) -> None:
        assert record.name not in self.topics, "a topic was created twice"
        topic = TopicImage(record.name, record.topic_id)
        self.topics[record.name] = topic
        self.by_id[record.topic_id] = topic
        self._canonical.setdefault(record.name.replace(".", "_"), {})[record.name] = None
        self._tell(offset, topic)

    def _partition(self, record: PartitionRecord, offset: int) -> None:
        topic = self.by_id[record.topic_id]
        assert record.partition_id == topic.partition_count, "partitions come in order"
        self._changes(topic)
        topic.leaders.append(record.leader, record.leader_epoch)
        self._led(offset, topic, record.partition_id)
        self.led[record.leader] += 1
        self.epoch = max(self.epoch, record.leader_epoch)
        self._tell(offset, topic)

    def _partition_change(self, record: PartitionChangeRecord, offset: int) -> None:
        topic, index = self.by_id[record.topic_id], record.partition_id
        assert index < topic.partition_count, "a partition that is not there changed"
        if record.leader == NO_LEADER_CHANGE:
            return
        before = topic.leaders.epoch(index)
        epoch = before + 1 if record.leader_epoch == -1 else record.leader_epoch
        assert epoch > before, "epochs only grow"
        self._changes(topic)
        self.led[topic.leaders.leader(index)] -= 1
        self.led[record.leader] += 1
        topic.leaders.put(index, record.leader, epoch)
        self._led(offset, topic, index)
        self.epoch = max(self.epoch, epoch)

    def _led(self, offset: int, topic: TopicImage, index: int) -> None:
        if self.leader_changes is not None:
            leader, epoch = topic.leaders.leader(index), topic.leaders.epoch(index)
            self.leader_changes.append(LeaderChange(offset, topic.topic_id, index, leader, epoch))

    def _remove_topic(self, record: RemoveTopicRecord, offset: int) -> None:
        topic = self.by_id.pop(record.topic_id)
        del self.topics[topic.name]
        self.removed[topic.topic_id] = topic.name
        self.led.subtract(topic.leaders.nodes())
        if self.leader_changes is not None:
            self.leader_changes.append(LeaderChange(offset, topic.topic_id, -1))
        same = self._canonical[topic.name.replace(".", "_")]
        del same[topic.name]
        if not same:
            del self._canonical[topic.name.replace(".", "_")]
        self.changes.append(Change(offset, topic, removed=True))

    def _config(self, record: ConfigRecord, offset: int) -> None:
        if record.resource_type == TOPIC_RESOURCE:
            topic = self.topics[record.resource_name]
            self._changes(topic)
            _set(topic.configs, record)
            self._tell(offset, topic)
        elif record.resource_type == BROKER_RESOURCE:
            _set(self.broker_configs.setdefault(record.resource_name, {}), record)
            self.changes.append(Change(offset))
        elif record.resource_type == CLIENT_METRICS_RESOURCE:
            _set(self.client_metrics.setdefault(record.resource_name, {}), record)
            if not self.client_metrics[record.resource_name]:
                del self.client_metrics[record.resource_name]
            self.client_metrics_changes += 1
        elif record.resource_type == GROUP_RESOURCE:
            _set(self.group_configs.setdefault(record.resource_name, {}), record)
            if not self.group_configs[record.resource_name]:
                del self.group_configs[record.resource_name]
        else:
            self.is_complete = False

    def _quota(self, record: ClientQuotaRecord, offset: int) -> None:
        self.quotas.replay(record, offset)

    def _acl(self, record: AccessControlEntryRecord, offset: int) -> None:
        self.acls.add(record, offset)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, offset: int) -> None:
        self.acls.remove(record, offset)

    def _feature(self, record: FeatureLevelRecord, offset: int) -> None:
        self.decided_features.add(record.name)
        self.features[record.name] = record.feature_level
        if record.feature_level == 0:
            del self.features[record.name]
        self.feature_changes.append((offset, dict(self.features)))

    def _scram_user(self, record: UserScramCredentialRecord, offset: int) -> None:
        self.scram_users.replay(record)

    def _scram_user_leaves(self, record: RemoveUserScramCredentialRecord, offset: int) -> None:
        self.scram_users.replay_removal(record)

    def _producer_ids(self, record: ProducerIdsRecord, offset: int) -> None:
        assert record.next_producer_id > self.next_producer_id, "producer ids only grow"
        self.next_producer_id = record.next_producer_id
        self.producer_ids = record

    def _register(self, record: RegisterBrokerRecord, offset: int) -> None:
        assert record.broker_epoch > self.broker_epoch, "epochs only grow"
        self.broker_epoch = record.broker_epoch
        self.registration = record
        self.epoch = max(self.epoch, record.broker_epoch)
        self.brokers[record.broker_id] = BrokerImage(record, record.fenced)
        self.changes.append(Change(offset, brokers=True))

    def _registration_change(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        found = self.brokers[record.broker_id]
        assert found.registration.broker_epoch == record.broker_epoch, "another start of the broker is registered"
        if record.fenced:
            self.brokers[record.broker_id] = replace(found, fenced=record.fenced > 0)
        self.changes.append(Change(offset, brokers=True))

    def _unregister(self, record: UnregisterBrokerRecord, offset: int) -> None:
        found = self.brokers.pop(record.broker_id)
        assert found.registration.broker_epoch == record.broker_epoch, "another start of the broker is registered"
        self.changes.append(Change(offset, brokers=True))

    def _no_op(self, record: NoOpRecord, offset: int) -> None:
        self.epoch = max(self.epoch, record.epoch)

    def _tell(self, offset: int, topic: TopicImage) -> None:
        self.changes.append(Change(offset, topic, topic.partition_count))


def _set(configs: dict[str, str], record: ConfigRecord) -> None:
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


_KNOWN: dict[int, tuple[type, Callable[[ClusterImage, Any, int], None]]] = {
    schema_of(cls).api_key: (cls, take)
    for cls, take in (
        (TopicRecord, ClusterImage._topic),
        (PartitionRecord, ClusterImage._partition),
        (PartitionChangeRecord, ClusterImage._partition_change),
        (RemoveTopicRecord, ClusterImage._remove_topic),
        (ConfigRecord, ClusterImage._config),
        (ClientQuotaRecord, ClusterImage._quota),
        (AccessControlEntryRecord, ClusterImage._acl),
        (RemoveAccessControlEntryRecord, ClusterImage._remove_acl),
        (FeatureLevelRecord, ClusterImage._feature),
        (UserScramCredentialRecord, ClusterImage._scram_user),
        (RemoveUserScramCredentialRecord, ClusterImage._scram_user_leaves),
        (ProducerIdsRecord, ClusterImage._producer_ids),
        (RegisterBrokerRecord, ClusterImage._register),
        (BrokerRegistrationChangeRecord, ClusterImage._registration_change),
        (UnregisterBrokerRecord, ClusterImage._unregister),
        (NoOpRecord, ClusterImage._no_op),
    )
}
