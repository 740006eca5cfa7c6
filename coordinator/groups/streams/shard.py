"""What the operations on streams groups of one shard share."""

from dataclasses import dataclass

from coordinator.groups.consumer.metadata_hash import MetadataHashes
from coordinator.groups.consumer.refusal import Refusal
from coordinator.groups.consumer.topics import GroupTopics
from coordinator.groups.held import Room
from coordinator.groups.streams.configured import configured
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.log_reading import StreamsGroups
from coordinator.groups.streams.settings import StreamsGroupSettings
from coordinator.groups.streams.soft_state import Seen, StreamsSoftState
from coordinator.groups.streams.topology import Topology
from coordinator.machine import OperationRefused
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class StreamsShard:
    """See the head of this file."""

    settings: StreamsGroupSettings
    groups: StreamsGroups
    topics: GroupTopics
    hashes: MetadataHashes
    soft: StreamsSoftState
    room: Room

    def find(self, group_id: str) -> StreamsGroup | None:
        """The group. Raises `OperationRefused` where a record of it cannot be read."""
        if group_id in self.groups.unreadable:
            raise OperationRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.groups.by_id.get(group_id)

    def existing(self, group_id: str, *, is_other: bool) -> StreamsGroup:
        """The group. Raises `Refusal` where there is none; `is_other`: there is one of another protocol."""
        group = self.find(group_id)
        if group is None:
            sentence = "Group {} is not a streams group." if is_other else "Group {} not found."
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence.format(group_id))
        return group

    def look(self, group_id: str, topology: Topology) -> Seen:
        """The topology of a group over the topics of now. Raises `Refusal` where it can never be run."""
        seen = self.soft.seen.get(group_id)
        if seen is None or seen.revision != self.topics.revision or seen.topology is not topology:
            made = configured(topology, self.topics)
            seen = Seen(self.topics.revision, topology, made, self.hashes.of(topology.required))
            if group_id in self.groups.by_id:
                self.soft.seen[group_id] = seen
        return seen
