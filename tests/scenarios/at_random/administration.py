"""Stories of administrators: topics that are made, grown and deleted, their settings and those of groups, records that
are deleted, offsets of groups without members, and quotas. Names and values are good, unknown, or make no sense.
"""

from collections.abc import Callable
from random import Random

TOPICS = ("t", "u", "v")
STRANGE = ('""', '"."', '".."', '"with space"', '"slash/slash"', '"' + "x" * 250 + '"')
VALUES: dict[str, tuple[str, ...]] = {
    "cleanup.policy": (
        "delete",
        "compact",
        '"delete,compact"',
        '"compact,delete"',
        "burn",
        '""',
        "Compact",
        '"delete,"',
    ),
    "compression.type": ("producer", "gzip", "zstd", "snappy", "uncompressed", "none", "brotli"),
    "compression.gzip.level": ("-1", "1", "9", "0", "10"),
    "compression.lz4.level": ("1", "17", "18", "0"),
    "compression.zstd.level": ("-131072", "22", "23", "3"),
    "follower.replication.throttled.replicas": (
        '"0:1"',
        '"0:1,2:3"',
        '"*"',
        '"*,0:1"',
        '""',
        '"0:1,"',
        '" 0:1 , 1:2 "',
        "all",
    ),
    "leader.replication.throttled.replicas": ('"0:1"', '"*"', "x:y"),
    "delete.retention.ms": ("0", "1000", "-1", "9223372036854775807"),
    "file.delete.delay.ms": ("0", "60000", "-1"),
    "flush.messages": ("1", "0", "-1", "9223372036854775807"),
    "flush.ms": ("0", "1000", "-1"),
    "index.interval.bytes": ("0", "4096", "-1"),
    "max.compaction.lag.ms": ("1", "0", "100"),
    "max.message.bytes": ("0", "1", "1000", "-1", "2147483648", '"1 "'),
    "message.timestamp.after.max.ms": ("0", "-1", "3600000"),
    "message.timestamp.before.max.ms": ("0", "-1", "5"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime"),
    "min.cleanable.dirty.ratio": ("0", "0.25", "1", "1.5", "-0.1", "NaN", "half"),
    "min.compaction.lag.ms": ("0", "1000", "-1"),
    "min.insync.replicas": ("1", "2", "0"),
    "retention.bytes": ("-1", "0", "1000", "-2"),
    "retention.ms": ("-1", "0", "1000", "-2", "1.5", "never", '" 7 "'),
    "segment.bytes": ("1048576", "1048575", "1073741824", "2147483648"),
    "segment.index.bytes": ("4", "3", "10485760"),
    "segment.jitter.ms": ("0", "1000", "-1"),
    "segment.ms": ("1", "0", "604800000"),
    "unclean.leader.election.enable": ("true", "false", "maybe"),
    "no.such.setting": ("1",),
    "zookeeper.connect": ("here",),
}
OF_GROUPS: dict[str, tuple[str, ...]] = {
    "consumer.session.timeout.ms": ("45000", "60000", "44999", "60001", "soon"),
    "consumer.heartbeat.interval.ms": ("5000", "15000", "4999", "15001"),
    "share.auto.offset.reset": ("earliest", "latest", '"by_duration:PT1H"', "never", '"by_duration:-PT1H"'),
    "share.isolation.level": ("read_committed", "read_uncommitted", "snapshot"),
    "share.record.lock.duration.ms": ("15000", "60000", "14999", "60001"),
    "share.session.timeout.ms": ("45000", "44999", "60000"),
    "streams.num.standby.replicas": ("0", "1", "2", "3", "-1"),
    "streams.session.timeout.ms": ("45000", "60000", "44999"),
    "no.such.setting": ("1",),
}
RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
LISTS = ("cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Author:
    """Makes up one story."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"administration {seed}")
        self.seed = seed

    def story(self) -> list[str]:
        """The steps."""
        kinds: list[tuple[float, Callable[[], str]]] = [
            (10, self.create),
            (6, self.delete),
            (7, self.grow),
            (16, self.alter_incrementally),
            (5, self.alter),
            (10, self.describe),
            (5, self.alter_group),
            (3, self.describe_group),
            (7, self.produce),
            (5, self.delete_records),
            (5, self.list_offsets),
            (5, self.metadata),
            (3, self.describe_partitions),
            (6, self.commit),
            (3, self.fetch_offsets),
            (3, self.delete_offsets),
            (2, self.delete_groups),
            (6, self.alter_quotas),
            (4, self.describe_quotas),
        ]
        makes = self.random.choices([make for _, make in kinds], [w for w, _ in kinds], k=self.random.randint(15, 35))
        return ["topic t partitions=2", "topic u", *(make() for make in makes), *self.in_the_end()]

    def in_the_end(self) -> list[str]:
        user, forgotten = self.user(), " ".join(f'{{key="{rate}" remove=true}}' for rate in RATES)
        return [
            *(f"admin DescribeConfigs topic {topic} include_synonyms=true" for topic in TOPICS[:2]),
            "admin DescribeConfigs group g include_synonyms=true",
            *(f"admin Metadata {topic}" for topic in TOPICS),
            "eve OffsetFetch v8 g everything",
            "eve ListGroups",
            f"admin DescribeClientQuotas components=[{{entity_type=user match_type=0 match={user}}}]",
            *(f"admin AlterClientQuotas entries=[{{entity={entity} ops=[{forgotten}]}}]" for entity in self.entities()),
        ]

    def topic(self) -> str:
        return self.random.choice((*TOPICS, *TOPICS, *TOPICS, "nobody"))

    def place(self) -> str:
        return self.random.choice(("t-0", "t-0", "t-1", "u-0", "u-0", "v-0", "t-7", "nobody-0"))

    def user(self) -> str:
        return f"user{self.seed}"

    def setting(self, of: dict[str, tuple[str, ...]]) -> str:
        name = self.random.choice(tuple(of))
        return f"{name}={self.random.choice(of[name])}"

    # -- topics ----------------------------------------------------------------------------------------------------

    def create(self) -> str:
        names = [self.topic()] if self.random.random() < 0.7 else [self.topic(), self.topic()]
        if self.random.random() < 0.15:
            names = [self.random.choice(STRANGE)]
        words = [f"partitions={self.random.choice((1, 1, 2, 3, 0, -2))}"]
        if self.random.random() < 0.2:
            words.append(f"replication={self.random.choice((-1, 1, 0))}")
        words += [self.setting(VALUES) for _ in range(self.random.choice((0, 0, 1, 1, 2)))]
        if self.random.random() < 0.2:
            words.append("validate_only=true")
        return f"admin CreateTopics v{self.random.choice((2, 4, 5, 7))} {' '.join(names)} {' '.join(words)}"

    def delete(self) -> str:
        names = [self.random.choice(("v", "v", "u", "nobody"))]
        if self.random.random() < 0.2:
            names.append(self.random.choice(("v", "nobody")))
        return f"admin DeleteTopics v{self.random.choice((1, 4, 5))} {' '.join(names)}"

    def grow(self) -> str:
        counts = {self.topic(): self.random.choice((1, 2, 3, 4, 0, -1)) for _ in range(self.random.choice((1, 1, 2)))}
        only = " validate_only=true" if self.random.random() < 0.2 else ""
        words = " ".join(f"{topic}={count}" for topic, count in counts.items())
        return f"admin CreatePartitions v{self.random.choice((0, 1, 2, 3))} {words}{only}"

    def metadata(self) -> str:
        return f"admin Metadata v{self.random.choice((1, 4, 5, 7, 8, 9, 11, 12))} {self.topic()}"

    def describe_partitions(self) -> str:
        return f"admin DescribeTopicPartitions {self.topic()}"

    # -- settings --------------------------------------------------------------------------------------------------

    def alter_incrementally(self) -> str:
        how = self.random.choice(("set", "set", "set", "delete", "append", "subtract"))
        if how in ("append", "subtract"):
            name = self.random.choice((*LISTS, *LISTS, "retention.ms"))
            value = self.random.choice(
                ("compact", "delete", '"0:1"', '"1:2,3:4"', '""', '","', '"0:1,"', '" compact"', "burn")
            )
            return f"admin IncrementalAlterConfigs topic {self.topic()} {how} {name}={value}"
        settings = dict(self.setting(VALUES).split("=", 1) for _ in range(self.random.choice((1, 1, 2))))
        words = [f"{name}={'null' if how == 'delete' else value}" for name, value in settings.items()]
        only = " validate_only=true" if self.random.random() < 0.15 else ""
        return f"admin IncrementalAlterConfigs topic {self.topic()} {how} {' '.join(words)}{only}"

    def alter(self) -> str:
        settings = dict(self.setting(VALUES).split("=", 1) for _ in range(self.random.choice((0, 1, 2))))
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        return f"admin AlterConfigs topic {self.topic()} {words}".rstrip()

    def describe(self) -> str:
        names = self.random.sample(tuple(VALUES), self.random.choice((0, 1, 2, 4)))
        synonyms = " include_synonyms=true" if self.random.random() < 0.5 else ""
        return (
            f"admin DescribeConfigs v{self.random.choice((1, 3, 4))} topic {self.topic()} {' '.join(names)}{synonyms}"
        )

    def alter_group(self) -> str:
        how = self.random.choice(("set", "set", "delete"))
        name, value = self.setting(OF_GROUPS).split("=", 1)
        group = self.random.choice(("g", "g", "h", '""'))
        return f"admin IncrementalAlterConfigs group {group} {how} {name}={'null' if how == 'delete' else value}"

    def describe_group(self) -> str:
        return f"admin DescribeConfigs group {self.random.choice(('g', 'h', 'nobody'))}"

    # -- records and offsets ---------------------------------------------------------------------------------------

    def produce(self) -> str:
        key = self.random.choice(("", "k:"))
        return f"bob Produce {self.place()} {key}x {key}y plain"

    def delete_records(self) -> str:
        return f"admin DeleteRecords {self.place()}={self.random.choice((-1, 0, 1, 2, 3, 50, -2))}"

    def list_offsets(self) -> str:
        when = self.random.choice(("latest", "earliest"))
        return f"eve ListOffsets v{self.random.choice((1, 4, 5, 7, 8))} {self.place()}={when}"

    def commit(self) -> str:
        group = self.random.choice(("g", "g", "h"))
        version = self.random.choice((2, 5, 6, 7, 8))
        return f"eve OffsetCommit v{version} {self.place()}={self.random.choice((0, 1, 5))} group_id={group}"

    def fetch_offsets(self) -> str:
        group = self.random.choice(("g", "h", "nobody"))
        version = self.random.choice((1, 5, 6, 7, 8, 9))
        places = self.random.choice(("everything", "t-0", "t-0 u-0", "nobody-0"))
        return f"eve OffsetFetch v{max(version, 2) if places == 'everything' else version} {group} {places}"

    def delete_offsets(self) -> str:
        return f"eve OffsetDelete {self.place()} group_id={self.random.choice(('g', 'h', 'nobody'))}"

    def delete_groups(self) -> str:
        return f"eve DeleteGroups {self.random.choice(('g', 'h', 'nobody', 'g nobody'))}"

    # -- quotas ----------------------------------------------------------------------------------------------------

    def entities(self) -> list[str]:
        user, client = (f"{{entity_type={kind} entity_name={self.user()}}}" for kind in ("user", "client-id"))
        return [f"[{user}]", f"[{client}]", f"[{user} {client}]"]

    def alter_quotas(self) -> str:
        operations = []
        for rate in self.random.sample(RATES, self.random.choice((1, 1, 2))):
            value = self.random.choice((1000, 12, "0.5", 0, -1))
            operations.append(
                f'{{key="{rate}" {self.random.choice(("remove=true", f"value={value}", f"value={value}"))}}}'
            )
        if self.random.random() < 0.1:
            operations = ['{key="no_such_rate" value=1}']
        only = " validate_only=true" if self.random.random() < 0.15 else ""
        entity = self.random.choice(self.entities())
        return f"admin AlterClientQuotas entries=[{{entity={entity} ops=[{' '.join(operations)}]}}]{only}"

    def describe_quotas(self) -> str:
        strict = self.random.choice(("", " strict=true"))
        kind = self.random.choice(("user", "client-id"))
        match = f"{{entity_type={kind} match_type=0 match={self.user()}}}"
        return f"admin DescribeClientQuotas components=[{match}]{strict}"
