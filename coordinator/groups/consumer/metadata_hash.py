"""What a group remembers of its topics: one number that is another when any of them has changed (KIP-1101).

Kafka's: XXH3 with 64 bits over the hashes of the topics by name, each over

    byte 0, topic id, name, int32 number of partitions, for each partition int32 index, then its racks sorted,
    each as int32 length and text

with integers little-endian, the id as two of them, and a text as its UTF-16 code units and their int32 count. A topic
that does not exist has none; without any topic it is 0.
"""

import struct
from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

from coordinator.groups.consumer.topics import GroupTopics, TopicFacts

_INT = struct.Struct("<i")
_LONG = struct.Struct("<Q")
_MAGIC = b"\0"
_SIGN = 1 << 63


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)


def topic_hash(topic: TopicFacts) -> int:
    """Of one topic, without a sign."""
    racks = b"".join(_INT.pack(len(rack.encode("utf-16-le")) // 2) + _text(rack) for rack in sorted(topic.racks))
    halves = topic.topic_id[7::-1] + topic.topic_id[:7:-1]
    partitions = b"".join(_INT.pack(index) + racks for index in range(topic.partition_count))
    return xxh3_64_intdigest(_MAGIC + halves + _text(topic.name) + _INT.pack(topic.partition_count) + partitions)


class MetadataHashes:
    """Hashes of groups; those of topics are kept as long as the topics stay as they are."""

    def __init__(self, topics: GroupTopics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[TopicFacts, int]] = {}

    def of(self, names: Iterable[str]) -> int:
        """Of a group that wants the topics with these names, as int64."""
        hashes = []
        for name in sorted(set(names)):
            topic = self._topics.by_name(name)
            if topic is None:
                self._known.pop(name, None)
            else:
                hashes.append(_LONG.pack(self._of_topic(topic)))
        if not hashes:
            return 0
        digest = xxh3_64_intdigest(b"".join(hashes))
        return (digest + _SIGN) % (2 * _SIGN) - _SIGN

    def _of_topic(self, topic: TopicFacts) -> int:
        known = self._known.get(topic.name)
        if known is None or known[0] != topic:
            known = self._known[topic.name] = (topic, topic_hash(topic))
        return known[1]
