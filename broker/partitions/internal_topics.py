"""What the topics of coordinators are made with; requests may add to it, and cannot change it."""

from broker.config.broker_config import BrokerConfig
from coordinator.cluster.topic_rules import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

PARTITION_COUNTS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}


def internal_configs(config: BrokerConfig) -> dict[str, dict[str, str]]:
    """What internal topics are made with. `__transaction_state` is never compressed: its loader reads it in slices."""
    return {
        OFFSETS_TOPIC: {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": _segment_bytes(config, "offsets.topic.segment.bytes"),
        },
        TRANSACTIONS_TOPIC: {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": _segment_bytes(config, "transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
    }


def _segment_bytes(config: BrokerConfig, key: str) -> str:
    return str(max(config.get_int(key), 1 << 20))
