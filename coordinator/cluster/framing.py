"""How messages become records of the metadata log."""

from collections.abc import Iterable

from coordinator.cluster.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from coordinator.machine import Record
from protocol.codec import metadata_frame

_RECORD_VERSIONS: dict[type, int] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 1,
    PartitionChangeRecord: 1,
}
"""The version a record is written in, where it is not 0: what a Kafka of our `metadata.version` writes. Earlier ones
are read."""


def framed(messages: Iterable[object]) -> list[Record]:
    """Records as they stand in the log. They have no keys: the metadata log is not compacted by key."""
    return [
        Record(key=None, value=metadata_frame(message, _RECORD_VERSIONS.get(type(message), 0))) for message in messages
    ]
