"""The table of broker configuration keys that have an effect here, with their defaults.

Defaults are Kafka's, except where one node cannot keep them (replication factors are 1) or need not
(`group.initial.rebalance.delay.ms` is 0: there is no herd to wait for). Keys of our own are in `own_keys`.
"""

from coordinator.cluster.keys.access_keys import ACCESS_KEYS
from coordinator.cluster.keys.config_types import (
    Synonym,
    at_least,
    between,
    default_or_between,
    each_of,
    not_empty,
    one_of,
    unlimited_or_positive,
)
from coordinator.cluster.keys.group_keys import CONSUMER_GROUPS
from coordinator.cluster.keys.key_tables import BOOLEAN, DOUBLE, INT, LIST, LONG, SHORT, STRING, dynamic, fixed
from coordinator.cluster.keys.limit_keys import LIMIT_KEYS
from coordinator.cluster.keys.own_keys import OWN_KEYS
from coordinator.cluster.keys.sasl_keys import SASL
from coordinator.cluster.keys.share_keys import SHARE_GROUPS
from coordinator.cluster.keys.streams_keys import STREAMS_GROUPS

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ALONE = "org.apache.kafka.common.replica.LeaderSelector"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000

IDENTITY = (
    fixed("node.id", INT, "1", "The id of this node.", at_least(0), (Synonym("broker.id"),)),
    fixed("broker.id", INT, None, "The older name of `node.id`.", at_least(-1)),
    fixed(
        "broker.rack",
        STRING,
        None,
        "The rack clients are told this broker stands in. Of several nodes in one process, in turn what commas divide.",
    ),
    fixed(
        "replica.selector.class",
        STRING,
        None,
        f"`{RACK_AWARE}`: over a shared store, consumers read from a node of their own rack; else from the leader.",
        one_of(RACK_AWARE, LEADER_ALONE),
    ),
    fixed(
        "broker.heartbeat.interval.ms",
        INT,
        "2000",
        "How often a node over a shared store says that it lives.",
        at_least(1),
    ),
    fixed(
        "broker.session.timeout.ms",
        INT,
        "9000",
        "How long such a node may be silent before another one takes its place.",
        at_least(1),
    ),
    fixed("process.roles", LIST, "broker,controller", "One process is always both.", each_of("broker", "controller")),
    fixed("cluster.id", STRING, None, "The id of the cluster, written when the data folder is made; drawn if not set."),
    fixed("log.dirs", LIST, None, "The data folder. Exactly one is supported.", not_empty, (Synonym("log.dir"),)),
    fixed("log.dir", LIST, "./data", "The data folder, where `log.dirs` is not set.", not_empty),
    fixed(
        "inter.broker.protocol.version",
        STRING,
        "4.2-IV1",
        "Which Kafka this broker answers like, for tools that ask; nothing else depends on it.",
    ),
)

NETWORK = (
    fixed("listeners", LIST, "PLAINTEXT://127.0.0.1:9092", "Where to listen, as NAME://host:port.", not_empty),
    fixed("advertised.listeners", LIST, None, "What clients are told to connect to; as `listeners` if not set."),
    fixed(
        "listener.security.protocol.map",
        STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "Which security protocol each listener speaks, as NAME:PROTOCOL.",
    ),
    fixed("inter.broker.listener.name", STRING, None, "The listener that nodes of one cluster use among each other."),
    fixed(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The same by what it speaks, where it is not named: the first such listener.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    fixed(
        "request.timeout.ms",
        INT,
        "30000",
        "How long another node may take to answer, before the connection to it is given up.",
        at_least(1),
    ),
    fixed(
        "controller.listener.names", LIST, "", "Listeners of the controller quorum: there is none, they are not opened."
    ),
    fixed("socket.send.buffer.bytes", INT, "102400", "The send buffer of a socket; -1 is the system's.", at_least(-1)),
    fixed(
        "socket.receive.buffer.bytes",
        INT,
        "-1",  # not Kafka's (docs/decisions/0038)
        "The receive buffer of a socket; -1 is the system's.",
        at_least(-1),
    ),
    fixed("socket.listen.backlog.size", INT, "50", "How many connections may wait to be accepted.", at_least(1)),
    fixed(
        "socket.request.max.bytes",
        INT,
        "104857600",
        "The largest request; a larger one closes its connection.",
        at_least(1),
    ),
    fixed("fetch.max.bytes", INT, "57671680", "The most a fetch is answered with.", at_least(1024)),
    fixed("max.incremental.fetch.session.cache.slots", INT, "1000", "How many fetch sessions are kept.", at_least(0)),
    fixed(
        "max.request.partition.size.limit",
        INT,
        "2000",
        "How many partitions one DescribeTopicPartitions lists.",
        at_least(1),
    ),
)

TOPICS = (
    fixed("auto.create.topics.enable", BOOLEAN, "true", "Whether asking for a topic that does not exist makes it."),
    fixed("delete.topic.enable", BOOLEAN, "true", "Whether topics can be deleted."),
    fixed("num.partitions", INT, "1", "How many partitions a topic gets that does not say.", at_least(1)),
    fixed("default.replication.factor", INT, "1", "The replication factor of a topic that does not say.", at_least(1)),
    dynamic("message.max.bytes", INT, "1048588", "The largest record batch.", at_least(0)),
    dynamic("min.insync.replicas", INT, "1", "How many replicas acks=all waits for; there is one.", at_least(1)),
    dynamic(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose time records carry.",
        one_of("CreateTime", "LogAppendTime"),
    ),
    dynamic(
        "log.message.timestamp.before.max.ms",
        LONG,
        str(LONG_MAX),
        "How far a timestamp may lie in the past.",
        at_least(0),
    ),
    dynamic(
        "log.message.timestamp.after.max.ms", LONG, "3600000", "How far a timestamp may lie in the future.", at_least(0)
    ),
    dynamic(
        "compression.type",
        STRING,
        "producer",
        "The codec batches are stored in.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    dynamic(
        "compression.gzip.level", INT, "-1", "The level for gzip where the broker compresses.", default_or_between(1, 9)
    ),
    dynamic("compression.lz4.level", INT, "9", "The level for lz4 where the broker compresses.", between(1, 17)),
    dynamic(
        "compression.zstd.level", INT, "3", "The level for zstd where the broker compresses.", between(-131072, 22)
    ),
    fixed("telemetry.max.bytes", INT, "1048576", "How large what a client pushes of its metrics may be.", at_least(1)),
)

LOG = (
    dynamic("log.segment.bytes", INT, "1073741824", "How large a segment grows.", at_least(1 << 20)),
    dynamic(
        "log.roll.ms",
        LONG,
        None,
        "After how long a new segment begins.",
        at_least(1),
        (Synonym("log.roll.hours", HOUR_MS),),
    ),
    fixed("log.roll.hours", INT, "168", "The same in hours, where `log.roll.ms` is not set.", at_least(1)),
    dynamic(
        "log.roll.jitter.ms",
        LONG,
        None,
        "A random time taken off `log.roll.ms`.",
        at_least(0),
        (Synonym("log.roll.jitter.hours", HOUR_MS),),
    ),
    fixed("log.roll.jitter.hours", INT, "0", "The same in hours, where `log.roll.jitter.ms` is not set.", at_least(0)),
    dynamic(
        "log.retention.ms",
        LONG,
        None,
        "How long records are kept; -1 is for ever.",
        unlimited_or_positive,
        (Synonym("log.retention.minutes", MINUTE_MS), Synonym("log.retention.hours", HOUR_MS)),
    ),
    fixed(
        "log.retention.minutes",
        INT,
        None,
        "The same in minutes.",
        unlimited_or_positive,
        (Synonym("log.retention.hours", 60),),
    ),
    fixed("log.retention.hours", INT, "168", "The same in hours.", unlimited_or_positive),
    dynamic("log.retention.bytes", LONG, "-1", "How large a partition may grow; below 0 is without limit."),
    fixed(
        "log.retention.check.interval.ms", LONG, "300000", "How often retention looks for old segments.", at_least(1)
    ),
    dynamic("log.cleanup.policy", LIST, "delete", "What becomes of old segments.", each_of("compact", "delete")),
    dynamic("log.index.size.max.bytes", INT, "10485760", "How large an index may grow.", at_least(4)),
    dynamic("log.index.interval.bytes", INT, "4096", "How many bytes lie between two index entries.", at_least(0)),
    dynamic("log.segment.delete.delay.ms", LONG, "60000", "How long dropped files stay on the disk.", at_least(0)),
    dynamic(
        "log.flush.interval.messages", LONG, str(LONG_MAX), "1 syncs every write, also in page-cache mode.", at_least(1)
    ),
    fixed(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        "60000",
        "How often recovery points are written down.",
        at_least(0),
    ),
    fixed(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        "60000",
        "How often log starts are written down.",
        at_least(0),
    ),
    fixed("log.cleaner.enable", BOOLEAN, "true", "Whether compaction runs."),
    dynamic(
        "log.cleaner.backoff.ms", LONG, "15000", "How long compaction rests when there is nothing to do.", at_least(0)
    ),
    dynamic("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", "Which part of a log may be uncompacted.", between(0, 1)),
    dynamic("log.cleaner.min.compaction.lag.ms", LONG, "0", "How long a record is kept from compaction.", at_least(0)),
    dynamic(
        "log.cleaner.max.compaction.lag.ms", LONG, str(LONG_MAX), "The longest it may be out of its reach.", at_least(1)
    ),
    dynamic(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        "1.7976931348623157E308",
        "How much compaction reads and writes in a second, on average.",
    ),
    dynamic("log.cleaner.delete.retention.ms", LONG, "86400000", "How long tombstones stay readable.", at_least(0)),
)

TRANSACTIONS = (
    fixed(
        "transaction.max.timeout.ms",
        INT,
        "900000",
        "The longest transaction timeout a client may ask for.",
        at_least(1),
    ),
    fixed(
        "transactional.id.expiration.ms",
        INT,
        "604800000",
        "After how long an unused transactional id is forgotten.",
        at_least(1),
    ),
    fixed(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        "How often Kafka looks for transactions that timed out. Here each has its own deadline; the key is understood "
        "for configuration files.",
        at_least(1),
    ),
    fixed(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        "How often unused transactional ids are looked for.",
        at_least(1),
    ),
    fixed(
        "transaction.state.log.num.partitions",
        INT,
        "50",
        "How many partitions `__transaction_state` gets.",
        at_least(1),
    ),
    fixed("transaction.state.log.replication.factor", SHORT, "1", "Taken as 1.", at_least(1)),
    fixed("transaction.state.log.min.isr", INT, "1", "Taken as 1.", at_least(1)),
    fixed(
        "transaction.state.log.segment.bytes",
        INT,
        "104857600",
        "The segment size of `__transaction_state`.",
        at_least(1),
    ),
    fixed(
        "transaction.state.log.load.buffer.size", INT, "5242880", "How much of it is loaded in one slice.", at_least(1)
    ),
    dynamic(
        "transaction.partition.verification.enable",
        BOOLEAN,
        "true",
        "Whether writes of a transaction are checked against it (KIP-890).",
    ),
    fixed(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        "false",
        "Transactions without a timeout (KIP-939): not supported.",
    ),
    dynamic("producer.id.expiration.ms", INT, "86400000", "After how long an idle producer is forgotten.", at_least(1)),
    fixed(
        "producer.id.expiration.check.interval.ms",
        INT,
        "600000",
        "How often idle producers are looked for.",
        at_least(1),
    ),
)

GROUPS = (
    fixed(
        "group.min.session.timeout.ms", INT, "6000", "The shortest session timeout a member may ask for.", at_least(1)
    ),
    fixed("group.max.session.timeout.ms", INT, "1800000", "The longest.", at_least(1)),
    fixed("group.initial.rebalance.delay.ms", INT, "0", "How long a new group waits for more members.", at_least(0)),
    fixed("group.max.size", INT, str(INT_MAX), "How many members a group may have.", at_least(1)),
    fixed("offset.metadata.max.bytes", INT, "4096", "The longest note a committed offset may carry.", at_least(0)),
    fixed("offsets.topic.num.partitions", INT, "50", "How many partitions `__consumer_offsets` gets.", at_least(1)),
    fixed("offsets.topic.replication.factor", SHORT, "1", "Taken as 1.", at_least(1)),
    fixed("offsets.topic.segment.bytes", INT, "104857600", "The segment size of `__consumer_offsets`.", at_least(1)),
    fixed(
        "offsets.topic.compression.codec", INT, "0", "The codec of `__consumer_offsets`; only 0 (none).", between(0, 0)
    ),
    fixed("offsets.load.buffer.size", INT, "5242880", "How much of it is loaded in one slice.", at_least(1)),
    fixed("offsets.retention.minutes", INT, "10080", "How long offsets of an empty group are kept.", at_least(1)),
    fixed("offsets.retention.check.interval.ms", LONG, "600000", "How often old offsets are looked for.", at_least(1)),
    fixed("offsets.commit.timeout.ms", INT, "5000", "How long a commit may take.", at_least(1)),
)

METADATA = (
    fixed(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        "20971520",
        "After how many bytes of records in the metadata log a snapshot is made of what they come to.",
        at_least(1),
    ),
    fixed(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        "3600000",
        "After how long one is made if there was any record; 0: only their bytes count.",
        at_least(0),
    ),
    fixed(
        "metadata.max.retention.bytes",
        LONG,
        "104857600",
        "What the metadata log and its snapshots may take together before the oldest snapshot is deleted, with the log "
        "before the next one; the latest snapshot always stays.",
    ),
    fixed("metadata.max.retention.ms", LONG, "604800000", "How old a snapshot may become before the same happens."),
)

EFFECTIVE_KEYS = (
    *(*IDENTITY, *NETWORK, *LIMIT_KEYS, *SASL, *ACCESS_KEYS, *TOPICS, *LOG, *METADATA),
    *(*TRANSACTIONS, *GROUPS, *CONSUMER_GROUPS, *SHARE_GROUPS, *STREAMS_GROUPS, *OWN_KEYS),
)
