"""What Kafka's tools are asked, one after the other, and what of an answer is a matter of the broker.

`{server}` stands for the address, `{records}` for a file that says which records to delete.
"""

import re
from dataclasses import dataclass

SERVER = "--bootstrap-server {server}"
VALUES = "".join(f"k{number}:v{number}\n" for number in range(6))


@dataclass(frozen=True, slots=True)
class Ask:
    """`ordered`: the order of lines is said by the broker. `shape`: figures are those of this run."""

    tool: str
    arguments: str
    stdin: str = ""
    ordered: bool = True
    shape: bool = False

    def filled(self, names: dict[str, str]) -> list[str]:
        said = self.arguments if SERVER in self.arguments else f"{SERVER} {self.arguments}"
        return [word.format(**names) for word in said.split()]


TOPICS = [
    Ask("TopicCommand", "--create --topic told --partitions 2 --config retention.ms=86400000"),
    Ask("TopicCommand", "--create --topic told"),
    Ask("TopicCommand", "--create --topic one --partitions 1"),
    Ask("TopicCommand", "--list"),
    Ask("TopicCommand", "--describe --topic told"),
    Ask("TopicCommand", "--describe --topic nowhere"),
    Ask("TopicCommand", "--alter --topic one --partitions 1"),
    Ask("TopicCommand", "--describe --unavailable-partitions"),
    Ask("kafka.admin.ConfigCommand", "--describe --entity-type topics --entity-name told"),
    Ask("kafka.admin.ConfigCommand", "--describe --entity-type topics --entity-name told --all", ordered=False),
    Ask("kafka.admin.ConfigCommand", "--alter --entity-type topics --entity-name told --add-config nonsense=1"),
]
RECORDS = [
    Ask("ConsoleProducer", "--topic one --reader-property parse.key=true --reader-property key.separator=:", VALUES),
    Ask("ConsoleProducer", "--topic told --request-required-acks 1 --compression-codec zstd", VALUES),
    Ask(
        "consumer.ConsoleConsumer",
        "--topic one --group told-group --from-beginning --max-messages 6 "
        "--formatter-property print.key=true --formatter-property print.offset=true",
    ),
    Ask(
        "consumer.ConsoleConsumer",
        "--topic one --partition 0 --offset 4 --max-messages 2 --isolation-level read_committed",
    ),
    Ask("GetOffsetShell", "--topic-partitions one:0"),
    Ask("GetOffsetShell", "--topic-partitions one:0 --time earliest"),
    Ask("GetOffsetShell", "--topic-partitions one:0 --time max-timestamp", shape=True),
    Ask("GetOffsetShell", "--topic-partitions one:0 --time -4"),
    Ask("GetOffsetShell", "--topic-partitions one:0 --time -5"),
    Ask("GetOffsetShell", "--topic-partitions nowhere:0"),
    Ask("DeleteRecordsCommand", "--offset-json-file {records}"),
    Ask("GetOffsetShell", "--topic-partitions one:0 --time earliest"),
]
GROUPS = [
    Ask("consumer.group.ConsumerGroupCommand", "--list"),
    Ask("consumer.group.ConsumerGroupCommand", "--list --state"),
    Ask("consumer.group.ConsumerGroupCommand", "--list --type"),
    Ask("consumer.group.ConsumerGroupCommand", "--describe --group told-group"),
    Ask("consumer.group.ConsumerGroupCommand", "--describe --group told-group --state"),
    Ask("consumer.group.ConsumerGroupCommand", "--describe --group told-group --state --verbose"),
    Ask("consumer.group.ConsumerGroupCommand", "--describe --group told-group --members --verbose"),
    Ask("consumer.group.ConsumerGroupCommand", "--describe --group nobody"),
    Ask(
        "consumer.group.ConsumerGroupCommand", "--reset-offsets --group told-group --topic one --to-earliest --dry-run"
    ),
    Ask(
        "consumer.group.ConsumerGroupCommand", "--reset-offsets --group told-group --topic one --shift-by -1 --execute"
    ),
    Ask("consumer.group.ConsumerGroupCommand", "--reset-offsets --group fresh --topic one --to-latest --execute"),
    Ask("consumer.group.ConsumerGroupCommand", "--delete-offsets --group fresh --topic one"),
    Ask("GroupsCommand", "--list", ordered=False),
    Ask("GroupsCommand", "--list --consumer", ordered=False),
    Ask("GroupsCommand", "--list --group-type share"),
    Ask("GroupsCommand", "--list --protocol consumer", ordered=False),
    Ask("consumer.group.ConsumerGroupCommand", "--delete --group told-group"),
    Ask("consumer.group.ConsumerGroupCommand", "--delete --group nobody"),
]
SHARED = [
    Ask(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type groups --entity-name sharers --add-config share.auto.offset.reset=earliest",
    ),
    Ask(
        "kafka.admin.ConfigCommand",
        "--alter --entity-type groups --entity-name fast --add-config share.auto.offset.reset=earliest",
    ),
    Ask("kafka.admin.ConfigCommand", "--describe --entity-type groups --entity-name sharers"),
    Ask("consumer.ConsoleShareConsumer", "--topic one --group sharers --max-messages 4"),
    Ask("consumer.group.ShareGroupCommand", "--list"),
    Ask("consumer.group.ShareGroupCommand", "--describe --group sharers --state"),
    Ask("consumer.group.ShareGroupCommand", "--describe --group sharers --members"),
    Ask("consumer.group.ShareGroupCommand", "--describe --group sharers --offsets", shape=True),
    Ask("consumer.group.ShareGroupCommand", "--reset-offsets --group sharers --topic one --to-earliest --execute"),
    Ask("consumer.group.ShareGroupCommand", "--describe --group sharers --offsets"),
    Ask("consumer.group.ShareGroupCommand", "--delete-offsets --group sharers --topic one"),
    Ask("consumer.group.ShareGroupCommand", "--delete --group sharers"),
    Ask("consumer.group.ShareGroupCommand", "--describe --group sharers"),
]
STREAMS = [
    Ask("streams.StreamsGroupCommand", "--list"),
    Ask("streams.StreamsGroupCommand", "--describe --group nobody"),
    Ask("StreamsResetter", "--application-id gone --input-topics one --dry-run"),
    Ask("StreamsResetter", "--application-id gone --input-topics one --to-latest"),
]
LOADS = [
    Ask(
        "ProducerPerformance",
        "--topic told --num-records 2000 --record-size 100 --throughput -1 --reporting-interval 600000",
        shape=True,
    ),
    Ask("ConsumerPerformance", "--topic told --num-records 2000", shape=True),
    Ask("ShareConsumerPerformance", "--topic told --num-records 100 --group fast --timeout 20000", shape=True),
    Ask("EndToEndLatency", "--topic one --num-records 50 --producer-acks all --record-size 20", shape=True),
    Ask("TopicCommand", "--create --topic another --partitions 1"),
    Ask("LogCompactionTester", "--messages 2000 --percent-deletes 10 --topics 1 --sleep 5", shape=True),
    Ask(
        "ClientCompatibilityTest",
        "--topic another --offsets-for-times-supported true --cluster-id-supported true "
        "--expect-record-too-large-exception false --num-cluster-nodes 1 --create-topics-supported true "
        "--describe-acls-supported true --describe-configs-supported true --idempotent-producer-supported true",
        shape=True,
    ),
    Ask("VerifiableConsumer", "--topic one --group-id verified --max-messages 5", shape=True),
    Ask(
        "VerifiableShareConsumer",
        "--topic one --group-id sharers-too --max-messages 5 --offset-reset-strategy earliest",
        shape=True,
    ),
]
CLUSTER = [
    Ask("BrokerApiVersionsCommand", ""),
    Ask("FeatureCommand", "describe"),
    Ask("FeatureCommand", "version-mapping"),
    Ask("FeatureCommand", "downgrade --feature transaction.version=0 --dry-run"),
    Ask("ClusterTool", f"cluster-id {SERVER}"),
    Ask("ClusterTool", f"list-endpoints {SERVER}"),
    Ask("MetadataQuorumCommand", "describe --replication", shape=True),
    Ask(
        "MetadataQuorumCommand", "remove-controller --controller-id 2 --controller-directory-id AAECAwQFBgcICQoLDA0ODw"
    ),
    Ask("LogDirsCommand", "--describe --topic-list nowhere"),
    Ask("LeaderElectionCommand", "--election-type preferred --topic one --partition 0"),
    Ask("TransactionsCommand", "list"),
    Ask("TransactionsCommand", "describe --transactional-id nobody"),
    Ask("TransactionsCommand", "describe-producers --topic one --partition 0", shape=True),
    Ask("ClientMetricsCommand", "--list"),
    Ask("AclCommand", "--list"),
    Ask("AclCommand", "--add --allow-principal User:ute --operation Read --topic one"),
    Ask("AclCommand", "--remove --force --allow-principal User:ute --operation Read --topic one"),
    Ask("DelegationTokenCommand", "--describe --command-config {empty}"),
    Ask("DelegationTokenCommand", "--create --max-life-time-period -1 --command-config {empty}"),
    Ask("kafka.admin.ConfigCommand", "--describe --entity-type brokers --entity-name 1"),
    Ask("TopicCommand", "--delete --topic told"),
    Ask("TopicCommand", "--delete --topic told"),
]
STORY = [*TOPICS, *RECORDS, *GROUPS, *SHARED, *STREAMS, *LOADS, *CLUSTER]

_MEANS_NOTHING = [
    (r"127\.0\.0\.1[: ]\s*\d+|localhost:\d+", "ADDRESS"),
    (r'"logDir":"[^"]*"', '"logDir":"FOLDER"'),
    (r"/\S*/(kafka-log-cleaner)", r"\1"),
    (r"(Epoch: )\d+", r"\1NUMBER"),
    (r"(TopicId: )\S+", r"\1ID"),
    (r"(Cluster ID: )\S+", r"\1ID"),
    (r"\[\d{4}-\d\d-\d\d [\d:,]+\] ?", ""),
    (r"\d{4}-\d\d-\d\d[ T][\d:,.]+Z?", "TIME"),
    (r"(?m)^\tat .*\n?", ""),
]


def meaning(ask: Ask, said: str) -> str:
    """What is left of an answer without what is another one each time."""
    for pattern, instead in _MEANS_NOTHING:
        said = re.sub(pattern, instead, said)
    if ask.shape:
        said = re.sub(r"-?\d+(\.\d+)?(E-?\d+)?", "#", said)
        said = re.sub(r"#(,#)+", "#,…", re.sub(r"-*#[-#]*", "#", said))
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in said.splitlines() if line.strip()]
    if ask.shape:
        lines = list(dict.fromkeys(lines))
    return "\n".join(lines if ask.ordered else sorted(lines))


DECLARED = [
    (
        r"(Configs: )min\.insync\.replicas=1,",
        r"\1",
        "made with eligible leader replicas, a Kafka keeps it as a setting of all brokers",
    ),
    (
        r"\{DYNAMIC_DEFAULT_BROKER_CONFIG:min\.insync\.replicas=1, STATIC_BROKER_CONFIG:\S+ ",
        "{",
        "the same, with synonyms",
    ),
    (
        r"(?m)^Feature: (eligible\.leader\.replicas|kraft)\.version .*\n",
        "",
        "one node has no replicas to be eligible and no voters to change",
    ),
    (
        r"4\.3-IV0 FinalizedVersionLevel: 4\.3-IV0",
        "4.2-IV1 FinalizedVersionLevel: 4.2-IV1",
        "metadata records are those of 4.2",
    ),
]
"""What becomes of Kafka's words in ours, and why."""


def in_our_words(kafkas: tuple[int, str, str]) -> tuple[int, str, str]:
    """Status, output and errors."""
    status, output, errors = kafkas
    for pattern, instead, _ in DECLARED:
        output = re.sub(pattern, instead, output)
    return status, output, errors
