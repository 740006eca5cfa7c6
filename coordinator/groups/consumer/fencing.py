"""Members of a consumer group that go: they left, or were not heard of in time."""

from collections.abc import Iterable

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_entries import group_epoch, member_tombstones, regex_tombstone
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.shard import ConsumerShard
from coordinator.groups.consumer.targets import topics_wanted
from coordinator.machine import Record


def records_without(shard: ConsumerShard, group: ConsumerGroup, gone: Iterable[ConsumerMember]) -> list[Record]:
    """The group goes on without some members: the others get a new target with their next heartbeats."""
    records: list[Record] = []
    left = dict(group.members)
    for member in gone:
        left.pop(member.member_id, None)
        records += member_tombstones(group.group_id, member.member_id)
    asked = {member.regex for member in left.values()}
    records += [regex_tombstone(group.group_id, regex) for regex in group.regex_members if regex not in asked]
    metadata_hash = shard.hashes.of(topics_wanted(group, left))
    records.append(group_epoch(group.group_id, group.epoch + 1, metadata_hash))
    return records
