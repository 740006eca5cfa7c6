"""What the operations on consumer groups of one shard share."""

from dataclasses import dataclass

from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.log_reading import ConsumerGroups
from coordinator.groups.consumer.metadata_hash import MetadataHashes
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.settings import ConsumerGroupSettings
from coordinator.groups.consumer.soft_state import SoftState
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.held import Room
from coordinator.machine import OperationRefused
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ConsumerShard:
    """See the head of this file."""

    settings: ConsumerGroupSettings
    groups: ConsumerGroups
    topics: GroupTopics
    hashes: MetadataHashes
    soft: SoftState
    room: Room

    def find(self, group_id: str) -> ConsumerGroup | None:
        """The group. Raises `OperationRefused` where a record of it cannot be read."""
        if group_id in self.groups.unreadable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.groups.by_id.get(group_id)

    def existing(self, group_id: str, *, is_classic: bool) -> ConsumerGroup:
        """The group. Raises `Refusal` where there is none."""
        group = self.find(group_id)
        if group is None:
            sentence = "Group {} is not a consumer group." if is_classic else "Group {} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence.format(group_id))
        return group
