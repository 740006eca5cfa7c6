"""The states of a record in a share group, and what an acknowledgement makes of it (KIP-932).

available ──acquire──▶ acquired ──accept──▶ acknowledged
    ▲                     │ └──reject, gap, delivered too often──▶ archived
    └──release, lock timed out──┘
"""

from enum import IntEnum


class RecordState(IntEnum):
    """As it is written; an acquired record is never written as such."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a member says of a record. A gap is an offset without one: of a marker, or compacted away."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


TERMINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""Nobody is handed the record again."""

STATE_AFTER = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""A renewal (KIP-1222) leaves the record acquired."""


def released(delivery_count: int, most_deliveries: int) -> RecordState:
    """What a record becomes that its member gives back, after so many deliveries."""
    return RecordState.ARCHIVED if delivery_count >= most_deliveries else RecordState.AVAILABLE
