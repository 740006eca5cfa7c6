"""A topic as this node has it: identity, configuration, and partitions, each from when its log is open."""

from collections.abc import Callable

from broker.config.topic_config import TopicConfig
from broker.partitions.partition import Partition
from broker.partitions.topic_partitions import Partitions
from protocol.internal_topics import INTERNAL_TOPICS


class Topic:
    """See the head of this file. The topic id is the identity: a topic made again is another topic."""

    def __init__(self, name: str, topic_id: bytes, config: TopicConfig, closed_one: Callable[[int], Partition]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.internal = name in INTERNAL_TOPICS
        self.partitions = Partitions(closed_one)

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.topic_id.hex()}>"

    def configure(self, config: TopicConfig) -> None:
        """Take a changed configuration from now on."""
        if config == self.config:
            return
        self.config = config
        for partition in self.partitions.opened():
            partition.configure(config)


def largest_batch(topic: Topic | None) -> int:
    """What a coordinator may append to its topic as one batch."""
    return (TopicConfig() if topic is None else topic.config).max_message_bytes
