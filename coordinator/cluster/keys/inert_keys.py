"""Kafka's broker keys that are understood and without effect here: thread pools, replication, controller quorum.

They may stand in a `server.properties` or the environment, are checked for their type, and are described with
the reason why nothing follows from them. `IGNORED_PREFIXES` are whole families that are not even described.
"""

from coordinator.cluster.keys.config_types import ConfigKey, ConfigType, Scope

IGNORED_PREFIXES = (
    "confluent.",
    "controller.",
    "delegation.token.",
    "group.coordinator.",
    "group.share.",
    "kafka.",
    "listener.name.",
    "metadata.",
    "remote.",
    "sasl.",
    "share.coordinator.",
    "telemetry.",
    "zookeeper.",
)
"""Names that begin so are Kafka's, concern what is not here, and are passed over with a warning."""

FIXED, DYNAMIC = Scope.READ_ONLY, Scope.CLUSTER_WIDE

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST, CLASS = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
)

_FAMILIES: tuple[tuple[str, tuple[tuple[str, ConfigType, Scope, str | None], ...]], ...] = (
    (
        "A number of threads; this broker is one event loop.",
        (
            ("background.threads", INT, DYNAMIC, "10"),
            ("group.coordinator.background.threads", INT, FIXED, "2"),
            ("group.coordinator.threads", INT, FIXED, "4"),
            ("log.cleaner.threads", INT, DYNAMIC, "1"),
            ("num.io.threads", INT, DYNAMIC, "8"),
            ("num.network.threads", INT, DYNAMIC, "3"),
            ("num.recovery.threads.per.data.dir", INT, DYNAMIC, "2"),
            ("num.replica.alter.log.dirs.threads", INT, FIXED, None),
            ("num.replica.fetchers", INT, DYNAMIC, "1"),
        ),
    ),
    (
        "Concerns replicas on other brokers; there is one node.",
        (
            ("alter.log.dirs.replication.quota.window.num", INT, FIXED, "11"),
            ("alter.log.dirs.replication.quota.window.size.seconds", INT, FIXED, "1"),
            ("auto.leader.rebalance.enable", BOOLEAN, FIXED, "true"),
            ("controlled.shutdown.enable", BOOLEAN, FIXED, "true"),
            ("leader.imbalance.check.interval.seconds", LONG, FIXED, "300"),
            ("replica.fetch.backoff.ms", INT, FIXED, "1000"),
            ("replica.fetch.max.bytes", INT, FIXED, "1048576"),
            ("replica.fetch.min.bytes", INT, FIXED, "1"),
            ("replica.fetch.response.max.bytes", INT, FIXED, "10485760"),
            ("replica.fetch.wait.max.ms", INT, FIXED, "500"),
            ("replica.high.watermark.checkpoint.interval.ms", LONG, FIXED, "5000"),
            ("replica.lag.time.max.ms", LONG, FIXED, "30000"),
            ("replica.socket.receive.buffer.bytes", INT, FIXED, "65536"),
            ("replica.socket.timeout.ms", INT, FIXED, "30000"),
            ("replication.quota.window.num", INT, FIXED, "11"),
            ("replication.quota.window.size.seconds", INT, FIXED, "1"),
            ("unclean.leader.election.enable", BOOLEAN, DYNAMIC, "false"),
        ),
    ),
    (
        "Concerns the controller quorum; this node decides alone.",
        (
            ("controller.quorum.bootstrap.servers", LIST, FIXED, ""),
            ("controller.quorum.voters", LIST, FIXED, ""),
            ("controller.socket.timeout.ms", INT, FIXED, "30000"),
            ("initial.broker.registration.timeout.ms", INT, FIXED, "60000"),
            ("metadata.log.dir", STRING, FIXED, None),
            ("metadata.log.segment.bytes", INT, FIXED, "1073741824"),
            ("metadata.log.segment.ms", LONG, FIXED, "604800000"),
            ("metadata.max.idle.interval.ms", INT, FIXED, "500"),
        ),
    ),
    (
        "Tunes a queue that this broker does not have.",
        (
            ("add.partitions.to.txn.retry.backoff.max.ms", INT, FIXED, "100"),
            ("add.partitions.to.txn.retry.backoff.ms", INT, FIXED, "20"),
            ("delete.records.purgatory.purge.interval.requests", INT, FIXED, "1"),
            ("fetch.purgatory.purge.interval.requests", INT, FIXED, "1000"),
            ("group.coordinator.append.linger.ms", INT, FIXED, "-1"),
            ("log.cleaner.dedupe.buffer.size", LONG, DYNAMIC, "134217728"),
            ("log.cleaner.io.buffer.load.factor", DOUBLE, DYNAMIC, "0.9"),
            ("log.cleaner.io.buffer.size", INT, DYNAMIC, "524288"),
            ("producer.purgatory.purge.interval.requests", INT, FIXED, "1000"),
            ("queued.max.requests", INT, FIXED, "500"),
        ),
    ),
    (
        "Concerns the disk in a way this broker does not need.",
        (
            ("log.dir.failure.timeout.ms", LONG, FIXED, "30000"),
            ("log.flush.interval.ms", LONG, DYNAMIC, None),
            ("log.flush.scheduler.interval.ms", LONG, FIXED, "9223372036854775807"),
            ("log.local.retention.bytes", LONG, DYNAMIC, "-2"),
            ("log.local.retention.ms", LONG, DYNAMIC, "-2"),
            ("log.preallocate", BOOLEAN, DYNAMIC, "false"),
        ),
    ),
    (
        "Concerns a plug-in or a report that this broker does not have.",
        (
            ("alter.config.policy.class.name", CLASS, FIXED, None),
            ("client.quota.callback.class", CLASS, FIXED, None),
            ("create.topic.policy.class.name", CLASS, FIXED, None),
            ("metric.reporters", LIST, DYNAMIC, None),
            ("metrics.num.samples", INT, FIXED, "2"),
            ("metrics.recording.level", STRING, FIXED, "INFO"),
            ("metrics.sample.window.ms", LONG, FIXED, "30000"),
            ("principal.builder.class", CLASS, DYNAMIC, None),
        ),
    ),
)

INERT_KEYS = tuple(
    ConfigKey(name, kind, default, documentation, None, scope, (), effective=False)
    for documentation, rows in _FAMILIES
    for name, kind, scope, default in rows
)
