"""Who leads the partitions of a topic and under which epoch, and the records that say so.

There are no replicas: whoever leads a partition is all of its replicas, and all that are in sync. Epochs are one
number for the whole cluster: each start of a node takes the next one, and new partitions have that of the latest start;
those that change their leader have it too, or the next one where they had it before.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from coordinator.cluster.records import PartitionChangeRecord, PartitionRecord

NOBODY = -1
NO_LEADER_CHANGE = -2


@dataclass(slots=True)
class Leaders:
    """By partition, the node that leads it (-1: none) and the epoch under which it does: eight bytes for each."""

    _pairs: "array[int]" = field(default_factory=lambda: array("i"))
    """leader, epoch, leader, epoch, …"""

    def __len__(self) -> int:
        return len(self._pairs) >> 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(leader, epoch) of all partitions, as they are now."""
        return zip(self._pairs[0::2], self._pairs[1::2], strict=True)

    def leader(self, index: int) -> int:
        assert index >= 0, "partitions count from 0"
        return self._pairs[2 * index]

    def epoch(self, index: int) -> int:
        assert index >= 0, "partitions count from 0"
        return self._pairs[2 * index + 1]

    def nodes(self) -> Sequence[int]:
        """The leaders of all partitions, as they are now."""
        return self._pairs[0::2]

    def count_by_node(self) -> Counter[int]:
        """How many of them each node leads."""
        return Counter(self._pairs[0::2])

    def highest_epoch(self) -> int:
        return max(self._pairs[1::2], default=-1)

    def append(self, leader: int, epoch: int) -> None:
        self._pairs.extend((leader, epoch))

    def extend(self, count: int, leader: int, epoch: int) -> None:
        self._pairs.extend(array("i", (leader, epoch)) * count)

    def extend_with(self, other: "Leaders") -> None:
        self._pairs.extend(other._pairs)

    def put(self, index: int, leader: int, epoch: int) -> None:
        assert index >= 0, "partitions count from 0"
        self._pairs[2 * index], self._pairs[2 * index + 1] = leader, epoch

    def copy(self) -> "Leaders":
        return Leaders(self._pairs[:])


def led_partition(topic_id: bytes, index: int, leader: int, epoch: int, directories: list[bytes]) -> PartitionRecord:
    """What says that there is a partition."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=_alone(leader),
        isr=_alone(leader),
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=0,
        directories=directories,
    )


def leader_change(topic_id: bytes, index: int, leader: int, epoch: int) -> PartitionChangeRecord:
    """What says that a partition is led by another node, or anew by the same."""
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_alone(leader),
        leader=leader,
        replicas=_alone(leader),
        leader_epoch=epoch,
    )


def _alone(leader: int) -> list[int]:
    return [] if leader == NOBODY else [leader]
