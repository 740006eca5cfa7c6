"""What the topics of coordinators are made with; requests may add to it, and cannot change it."""

from broker.config.broker_config import BrokerConfig
from protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

PARTITION_COUNTS = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
}


def internal_configs(config: BrokerConfig) -> dict[str, dict[str, str]]:
    """What internal topics are made with. `__transaction_state` is never compressed: its loader reads it in slices."""
    return {
        CONSUMER_OFFSETS: {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": _segment_bytes(config, "offsets.topic.segment.bytes"),
        },
        TRANSACTION_STATE: {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": _segment_bytes(config, "transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
        SHARE_GROUP_STATE: {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "1",
            "retention.ms": "-1",
            "segment.bytes": _segment_bytes(config, "share.coordinator.state.topic.segment.bytes"),
        },
    }


def _segment_bytes(config: BrokerConfig, key: str) -> str:
    return str(max(config.get_int(key), 1 << 20))
