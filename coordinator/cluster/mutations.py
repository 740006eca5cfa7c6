"""What the quota of mutations counts (KIP-599): the partitions that an entry of a request makes or deletes. One that is
refused for itself counts nothing."""

from coordinator.cluster.image import ClusterImage
from coordinator.cluster.topic_deletion import delete
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import Decided, Planned, Rules, decide_creation, decide_growth
from protocol.messages.topics import CreatableTopic, CreatePartitionsTopic, DeleteTopicState


def partitions_made(image: ClusterImage, planned: Planned[CreatableTopic], rules: Rules) -> int:
    """By one topic of a CreateTopics."""
    try:
        return decide_creation(image, planned.entry, rules)[0] if planned.refused is None else 0
    except Refused:
        return 0


def partitions_added(image: ClusterImage, planned: Planned[CreatePartitionsTopic], rules: Rules) -> int:
    """By one topic of a CreatePartitions."""
    try:
        found = decide_growth(image, planned.entry, rules) if planned.refused is None else None
    except Refused:
        return 0
    return 0 if found is None else planned.entry.count - found.partition_count


def partitions_deleted(image: ClusterImage, planned: Planned[DeleteTopicState], rules: Rules) -> int:
    """By one entry of a DeleteTopics."""
    (result,) = delete(image, [planned], rules, Decided())
    return 0 if result.error_code else image.by_id[result.topic_id].partition_count
