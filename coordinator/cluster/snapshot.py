"""A snapshot of the image (KIP-630): the records that make it, as few as there can be, in Kafka's file format.

    control batch: SnapshotHeaderRecord | data batches: framed metadata records | control batch: SnapshotFooterRecord

A node that is alone leads all partitions with the epoch of its latest start, whatever the log says of those before it.
Where there are several, the snapshot holds each of them, and each partition with its leader.

Offsets count from 0, the leader epoch is that of the last record which the snapshot contains. A topic that is gone is
in it, made and removed, as long as its folders may still be there: a start that finds them has to know their topic.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from operator import attrgetter

from coordinator.cluster.acls import acl_records
from coordinator.cluster.features import METADATA_VERSION
from coordinator.cluster.framing import framed
from coordinator.cluster.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    TopicImage,
)
from coordinator.cluster.leaders import Leaders, led_partition
from coordinator.cluster.quotas import Entity, record_of
from coordinator.cluster.records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from coordinator.cluster.scram import Kept
from coordinator.cluster.scram import records as scram_records
from coordinator.machine import Record
from protocol.acls import Acl
from protocol.codec import encode_bytes
from protocol.records.control import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, control_key
from protocol.records.record import NewRecord, build_batch

BATCH_BYTES = 16 << 10
"""What one step makes: a millisecond or two."""


@dataclass(frozen=True, slots=True)
class FrozenImage:
    """The image as it was at one moment, until `thaw`."""

    end_offset: int
    """Everything before is in it, and nothing else."""
    timestamp_ms: int
    record_bytes: int
    """What stands in the log between the snapshot before and this one."""
    registration: RegisterBrokerRecord
    brokers: list[RegisterBrokerRecord]
    """All of them as they are now, in the order of their epochs; none where the node is `single`."""
    epoch: int
    single: bool
    producer_ids: ProducerIdsRecord | None
    features: dict[str, int]
    broker_configs: dict[str, dict[str, str]]
    client_metrics: dict[str, dict[str, str]]
    group_configs: dict[str, dict[str, str]]
    scram_users: Kept
    quotas: dict[Entity, Mapping[str, float]]
    acls: dict[bytes, Acl]
    removed: dict[bytes, str]
    topics: list[TopicImage]
    before: dict[bytes, tuple[Leaders, dict[str, str]]]
    """What those that have changed since were like."""


def freeze(image: ClusterImage, leaving: Collection[bytes], *, single: bool = True) -> FrozenImage:
    """Hold on to what a snapshot needs, however many topics there are: those that change from now on are copied first.
    `leaving` are ids of removed topics whose folders may still be there; the image forgets all others.
    `single` where this node is alone."""
    assert image.registration is not None, "a node that serves has registered"
    assert image.before is None, "one snapshot at a time"
    image.before = {}
    image.removed = {topic_id: image.removed[topic_id] for topic_id in leaving if topic_id in image.removed}
    return FrozenImage(
        end_offset=image.last_offset + 1,
        timestamp_ms=image.last_timestamp_ms,
        record_bytes=image.record_bytes,
        registration=image.registration,
        brokers=[] if single else _brokers(image),
        epoch=image.epoch,
        single=single,
        producer_ids=image.producer_ids,
        features={name: image.features.get(name, 0) for name in image.decided_features},
        broker_configs={name: dict(configs) for name, configs in image.broker_configs.items()},
        client_metrics={name: dict(configs) for name, configs in image.client_metrics.items()},
        group_configs={name: dict(configs) for name, configs in image.group_configs.items()},
        scram_users=dict(image.scram_users.kept),
        quotas=dict(image.quotas.by_entity),
        acls=dict(image.acls.by_id),
        removed=dict(image.removed),
        topics=list(image.topics.values()),
        before=image.before,
    )


def thaw(image: ClusterImage, frozen: FrozenImage, *, taken: bool) -> None:
    """The snapshot is durable (`taken`), or given up."""
    if image.before is frozen.before:
        image.before = None
        image.record_bytes -= frozen.record_bytes if taken else 0


def snapshot_batches(frozen: FrozenImage, epoch: int) -> Iterator[bytes]:
    """The whole snapshot, a batch at each step."""
    timestamp_ms = frozen.timestamp_ms
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp_ms)
    yield _control(SNAPSHOT_HEADER, header, 0, epoch, timestamp_ms)
    offset = 1
    for records in _in_batches(framed_one for message in _messages(frozen) for framed_one in framed([message])):
        made = [NewRecord(key=None, value=record.value, timestamp_ms=timestamp_ms) for record in records]
        yield build_batch(made, base_offset=offset, leader_epoch=epoch)
        offset += len(made)
    yield _control(SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0), offset, epoch, timestamp_ms)


def _control(kind: int, message: object, offset: int, epoch: int, timestamp_ms: int) -> bytes:
    record = NewRecord(key=control_key(kind), value=encode_bytes(message, 0), timestamp_ms=timestamp_ms)
    return build_batch([record], base_offset=offset, leader_epoch=epoch, control=True)


def _in_batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size_bytes = 0
    for record in records:
        batch.append(record)
        size_bytes += len(record.value or b"")
        if size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _messages(frozen: FrozenImage) -> Iterator[object]:
    """Features, `metadata.version` first, then brokers, settings, users, ACLs, topics, metrics of
    clients, quotas. What stands behind a
    damage is cut off, so an ACL that denies something stands before what only clients care for."""
    for name in sorted(frozen.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=frozen.features[name])
    if frozen.single:
        yield frozen.registration
    else:
        yield NoOpRecord(epoch=frozen.epoch)
        yield from frozen.brokers
    if frozen.producer_ids is not None:
        yield frozen.producer_ids
    for name, configs in frozen.broker_configs.items():
        yield from _configs(BROKER_RESOURCE, name, configs)
    for group_id, configs in frozen.group_configs.items():
        yield from _configs(GROUP_RESOURCE, group_id, configs)
    yield from scram_records(frozen.scram_users)
    yield from acl_records(frozen.acls)
    for topic_id, name in frozen.removed.items():
        yield TopicRecord(name=name, topic_id=topic_id)
        yield RemoveTopicRecord(topic_id=topic_id)
    for topic in frozen.topics:
        # A copy: the topic may change while its partitions are written.
        leaders, configs = frozen.before.get(topic.topic_id) or (topic.leaders.copy(), dict(topic.configs))
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        yield from _configs(TOPIC_RESOURCE, topic.name, configs)
        yield from _partitions(frozen, topic.topic_id, leaders)
    for name, configs in frozen.client_metrics.items():
        yield from _configs(CLIENT_METRICS_RESOURCE, name, configs)
    for entity, quotas in frozen.quotas.items():
        for key, value in quotas.items():
            yield record_of(entity, key, value)


def _configs(resource_type: int, resource: str, configs: Mapping[str, str]) -> Iterator[ConfigRecord]:
    for name, value in configs.items():
        yield ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)


def _partitions(frozen: FrozenImage, topic_id: bytes, leaders: Leaders) -> Iterator[PartitionRecord]:
    latest = frozen.registration
    directories = {one.broker_id: one.log_dirs[:1] for one in [*frozen.brokers, latest]}
    for index, (leader, epoch) in enumerate(leaders):
        if frozen.single:
            leader, epoch = latest.broker_id, latest.broker_epoch
        yield led_partition(topic_id, index, leader, epoch, directories.get(leader, []))


def _brokers(image: ClusterImage) -> list[RegisterBrokerRecord]:
    records = []
    for one in image.brokers.values():
        record = copy(one.registration)
        record.fenced = one.fenced
        records.append(record)
    return sorted(records, key=attrgetter("broker_epoch"))
