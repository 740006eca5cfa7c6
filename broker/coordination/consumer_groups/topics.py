"""The topics of the cluster as consumer groups see them."""

from broker.config.broker_config import BrokerConfig
from broker.coordination.topics import TopicDirectory
from broker.partitions.topic import Topic
from coordinator.groups.consumer.topics import TopicFacts


class FollowedTopics:
    """`GroupTopics` over the directory of this node."""

    def __init__(self, topics: TopicDirectory, config: BrokerConfig) -> None:
        self._topics = topics
        self._config = config
        self.creations = 0
        topics.on_created(self._created)

    def _created(self, topic: Topic) -> None:
        self.creations += 1

    @property
    def revision(self) -> int:
        return self._topics.revision

    @property
    def offset(self) -> int:
        return self._topics.offset

    def by_name(self, name: str) -> TopicFacts | None:
        return self._facts(self._topics.by_name(name))

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        return self._facts(self._topics.by_id(topic_id))

    def _facts(self, topic: Topic | None) -> TopicFacts | None:
        if topic is None:
            return None
        rack = self._config.get("broker.rack")
        racks = (rack,) if isinstance(rack, str) and rack else ()
        return TopicFacts(topic.name, topic.topic_id, len(topic.partitions), racks)
