"""The features of a cluster: what levels this broker can speak, and how one is finalised at another level (KIP-584).

Sentences and their order as a running Kafka 4.3 gives them.
"""

from collections.abc import Sequence

from coordinator.cluster.image import ClusterImage
from coordinator.cluster.records import FeatureLevelRecord
from coordinator.cluster.topic_rules import Refused
from coordinator.cluster.topics import Decided
from protocol.errors import ErrorCode
from protocol.messages.features import FeatureUpdateKey

METADATA_VERSION, TRANSACTION_VERSION = "metadata.version", "transaction.version"
GROUP_VERSION = "group.version"
"""Level 1: groups of the consumer protocol (KIP-848)."""
SHARE_VERSION = "share.version"
"""Level 1: share groups (KIP-932)."""
STREAMS_VERSION = "streams.version"
"""Level 1: streams groups (KIP-1071)."""
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    GROUP_VERSION: (0, 1),
    METADATA_VERSION: (7, 29),
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""Feature levels this broker can speak. 29 is Kafka 4.2."""
FINALIZED_FEATURES: dict[str, int] = {
    GROUP_VERSION: 1,
    METADATA_VERSION: 29,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""What a new cluster begins with."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update(image: ClusterImage, updates: Sequence[FeatureUpdateKey], node_id: int, decided: Decided) -> None:
    """Decide all updates or none. Raises `Refused`."""
    records = [
        FeatureLevelRecord(name=one.feature, feature_level=one.max_version_level)
        for one in updates
        if _checked(image, one, node_id) != one.max_version_level
    ]
    decided.records.extend({record.name: record for record in records}.values())


def _checked(image: ClusterImage, one: FeatureUpdateKey, node_id: int) -> int:
    """The level of now."""
    problem = _problem(image, one, node_id)
    if problem:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version {one.max_version_level} for feature {one.feature}. {problem}",
        )
    return image.features.get(one.feature, 0)


def _problem(image: ClusterImage, one: FeatureUpdateKey, node_id: int) -> str:
    level, current = one.max_version_level, image.features.get(one.feature, 0)
    low, high = SUPPORTED_FEATURES.get(one.feature, (0, 0))
    if one.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if one.feature not in SUPPORTED_FEATURES:
        if level == 0:
            return f"Feature {one.feature} not found."
        return f"Local controller {node_id} does not support this feature."
    if not low <= level <= high:
        return f"Local controller {node_id} only supports versions {low}-{high}"
    if level < current and one.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and one.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if level < current and one.feature == METADATA_VERSION:
        # The metadata log is written in one layout only.
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return ""
