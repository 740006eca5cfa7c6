"""The table of topic configuration keys, with the broker keys that give their defaults.

A key that is not here is refused (INVALID_CONFIG), as Kafka does.
"""

from coordinator.cluster.keys.config_types import (
    Check,
    ConfigKey,
    ConfigType,
    Scope,
    Synonym,
    at_least,
    between,
    default_or_between,
    each_of,
    one_of,
    replicas,
)

LONG_MAX = (1 << 63) - 1
HOUR_MS = 3_600_000
MINUTE_MS = 60_000

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)


def _key(
    name: str,
    kind: ConfigType,
    default: str,
    documentation: str,
    *broker: str | Synonym,
    check: Check | None = None,
    effective: bool = True,
) -> ConfigKey:
    synonyms = tuple(Synonym(one) if isinstance(one, str) else one for one in broker)
    return ConfigKey(name, kind, default, documentation, check, Scope.CLUSTER_WIDE, synonyms, effective)


_NO_EFFECT = " Stored and shown; without effect in this broker."

TOPIC_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        _key(
            "cleanup.policy",
            LIST,
            "delete",
            "What becomes of old segments: `delete` drops them by time and size, `compact` keeps the last record of "
            "each key; both may be given.",
            "log.cleanup.policy",
            check=each_of("compact", "delete"),
        ),
        _key(
            "compression.gzip.level",
            INT,
            "-1",
            "The level used where the broker itself compresses with gzip; -1 is the codec's own default.",
            "compression.gzip.level",
            check=default_or_between(1, 9),
        ),
        _key(
            "compression.lz4.level",
            INT,
            "9",
            "The level used where the broker itself compresses with lz4.",
            "compression.lz4.level",
            check=between(1, 17),
        ),
        _key(
            "compression.type",
            STRING,
            "producer",
            "The codec batches are stored in; `producer` keeps what the producer chose.",
            "compression.type",
            check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        _key(
            "compression.zstd.level",
            INT,
            "3",
            "The level used where the broker itself compresses with zstd.",
            "compression.zstd.level",
            check=between(-131072, 22),
        ),
        _key(
            "delete.retention.ms",
            LONG,
            "86400000",
            "How long a tombstone or transaction marker stays readable in a compacted topic.",
            "log.cleaner.delete.retention.ms",
            check=at_least(0),
        ),
        _key(
            "file.delete.delay.ms",
            LONG,
            "60000",
            "How long the files of a dropped segment stay on the disk.",
            "log.segment.delete.delay.ms",
            check=at_least(0),
        ),
        _key(
            "flush.messages",
            LONG,
            str(LONG_MAX),
            "In page-cache mode: 1 makes every write of this topic reach the disk before it is acknowledged. "
            "In fsync mode that is always so.",
            "log.flush.interval.messages",
            check=at_least(1),
        ),
        _key(
            "flush.ms",
            LONG,
            str(LONG_MAX),
            "After how many milliseconds a write is forced to the disk." + _NO_EFFECT,
            "log.flush.interval.ms",
            Synonym("log.flush.scheduler.interval.ms"),
            check=at_least(0),
            effective=False,
        ),
        _key(
            "follower.replication.throttled.replicas",
            LIST,
            "",
            "Followers whose replication is throttled." + _NO_EFFECT,
            check=replicas,
            effective=False,
        ),
        _key(
            "index.interval.bytes",
            INT,
            "4096",
            "How many bytes of log lie between two entries of the offset index.",
            "log.index.interval.bytes",
            check=at_least(0),
        ),
        _key(
            "leader.replication.throttled.replicas",
            LIST,
            "",
            "Leaders whose replication is throttled." + _NO_EFFECT,
            check=replicas,
            effective=False,
        ),
        _key(
            "local.retention.bytes",
            LONG,
            "-2",
            "How much of a tiered log stays on the local disk; -2 follows `retention.bytes`." + _NO_EFFECT,
            "log.local.retention.bytes",
            check=at_least(-2),
            effective=False,
        ),
        _key(
            "local.retention.ms",
            LONG,
            "-2",
            "How long a tiered log stays on the local disk; -2 follows `retention.ms`." + _NO_EFFECT,
            "log.local.retention.ms",
            check=at_least(-2),
            effective=False,
        ),
        _key(
            "max.compaction.lag.ms",
            LONG,
            str(LONG_MAX),
            "The longest time a record may stay out of reach of compaction.",
            "log.cleaner.max.compaction.lag.ms",
            check=at_least(1),
        ),
        _key(
            "max.message.bytes",
            INT,
            "1048588",
            "The largest record batch (as sent, compressed) this topic takes.",
            "message.max.bytes",
            check=at_least(0),
        ),
        _key(
            "message.timestamp.after.max.ms",
            LONG,
            "3600000",
            "How far a record's timestamp may lie ahead of the broker's clock.",
            "log.message.timestamp.after.max.ms",
            check=at_least(0),
        ),
        _key(
            "message.timestamp.before.max.ms",
            LONG,
            str(LONG_MAX),
            "How far a record's timestamp may lie behind the broker's clock.",
            "log.message.timestamp.before.max.ms",
            check=at_least(0),
        ),
        _key(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whose time a record carries: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
            "log.message.timestamp.type",
            check=one_of("CreateTime", "LogAppendTime"),
        ),
        _key(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            "0.5",
            "Which part of a compacted log may be uncompacted before compaction runs.",
            "log.cleaner.min.cleanable.ratio",
            check=between(0, 1),
        ),
        _key(
            "min.compaction.lag.ms",
            LONG,
            "0",
            "How long a record stays as it is before compaction may drop it.",
            "log.cleaner.min.compaction.lag.ms",
            check=at_least(0),
        ),
        _key(
            "min.insync.replicas",
            INT,
            "1",
            "How many replicas must have a write before acks=all answers. There is one; more are taken as one.",
            "min.insync.replicas",
            check=at_least(1),
        ),
        _key(
            "preallocate",
            BOOLEAN,
            "false",
            "Whether a new segment takes its space on the disk at once." + _NO_EFFECT,
            "log.preallocate",
            effective=False,
        ),
        _key(
            "remote.log.copy.disable",
            BOOLEAN,
            "false",
            "Stops copying to tiered storage." + _NO_EFFECT,
            effective=False,
        ),
        _key(
            "remote.log.delete.on.disable",
            BOOLEAN,
            "false",
            "Deletes what is in tiered storage when it is switched off." + _NO_EFFECT,
            effective=False,
        ),
        _key("remote.storage.enable", BOOLEAN, "false", "Tiered storage. Only `false` is possible here."),
        _key(
            "retention.bytes",
            LONG,
            "-1",
            "How large a partition may grow before its oldest segments are dropped; below 0 is without limit.",
            "log.retention.bytes",
        ),
        _key(
            "retention.ms",
            LONG,
            "604800000",
            "How long records are kept before their segment may be dropped; -1 is for ever.",
            "log.retention.ms",
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
            check=at_least(-1),
        ),
        _key(
            "segment.bytes",
            INT,
            "1073741824",
            "How large a segment file grows before a new one begins.",
            "log.segment.bytes",
            check=at_least(1 << 20),
        ),
        _key(
            "segment.index.bytes",
            INT,
            "10485760",
            "How large the index of a segment may grow before a new segment begins.",
            "log.index.size.max.bytes",
            check=at_least(4),
        ),
        _key(
            "segment.jitter.ms",
            LONG,
            "0",
            "A random time taken off `segment.ms`, so that segments do not all end at once.",
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", HOUR_MS),
            check=at_least(0),
        ),
        _key(
            "segment.ms",
            LONG,
            "604800000",
            "After how long a new segment begins, full or not.",
            "log.roll.ms",
            Synonym("log.roll.hours", HOUR_MS),
            check=at_least(1),
        ),
        _key(
            "unclean.leader.election.enable",
            BOOLEAN,
            "false",
            "Whether a replica that lags may become leader." + _NO_EFFECT,
            "unclean.leader.election.enable",
            effective=False,
        ),
    )
}
