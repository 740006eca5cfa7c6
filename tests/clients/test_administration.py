"""Kafka's own console tools and other administrators about folders, leaders, replicas and members of the cluster: the
same words from us as from Apache Kafka (`TALLYSTICK_TEST_BROKER=apache-kafka`).

Where there is no Java, or no jars, the tests of tools say so and skip.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.clients.test_kafka_tools import Tools, rows
from tests.harness.broker import NODE_COUNT, NODES
from tests.harness.confluent import make_topic, write

OF_CONFORMANCE = pytest.mark.skipif(
    os.environ.get("TALLYSTICK_CONFORMANCE", "") != "whole",
    reason="one more of Kafka's tools: `make conformance` runs it",
)
"""A Java machine each; the requests that they send are asked by scenarios, too."""


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    made = Tools(tmp_path)
    yield made
    made.close()


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    """That of kafka-python."""
    made = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield made
    made.close()


NODES_BY_ID = list(range(1, 1 + NODE_COUNT))


def described_folder(tools: Tools, bootstrap: str, topic: str) -> dict[str, Any]:
    """The one folder of the one broker, as `kafka-log-dirs` describes it; of several, what they have together."""
    said = tools.run("LogDirsCommand", "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    asked = ",".join(map(str, NODES_BY_ID))
    head = (
        f"Querying brokers for log directories information\nReceived log directory information from brokers {asked}\n"
    )
    assert said.startswith(head)
    found = json.loads(said.removeprefix(head))
    assert (found["version"], sorted(broker["broker"] for broker in found["brokers"])) == (1, NODES_BY_ID)
    folder, *others = [folder for broker in found["brokers"] for folder in broker["logDirs"]]
    assert isinstance(folder, dict) and len(others) == NODE_COUNT - 1
    return folder | {"partitions": [one for each in (folder, *others) for one in each["partitions"]]}


@OF_CONFORMANCE
def test_kafka_log_dirs_tells_the_size_of_each_partition(bootstrap: str, name: str, tools: Tools) -> None:
    make_topic(bootstrap, name, 2)
    write(bootstrap, name, [b"x" * 1000], partition=1)
    folder = described_folder(tools, bootstrap, name)
    assert (folder["error"], Path(folder["logDir"]).is_absolute()) == (None, True)
    sizes = {one["partition"]: one for one in folder["partitions"]}
    assert sizes[f"{name}-0"] == {"partition": f"{name}-0", "size": 0, "offsetLag": 0, "isFuture": False}
    assert sizes.keys() == {f"{name}-0", f"{name}-1"} and 1000 < sizes[f"{name}-1"]["size"] < 1200
    assert described_folder(tools, bootstrap, f"{name}-ghost")["partitions"] == []


@OF_CONFORMANCE
def test_kafka_leader_election_finds_nothing_to_elect(bootstrap: str, name: str, tools: Tools) -> None:
    make_topic(bootstrap, name, 1)
    server = ("--bootstrap-server", bootstrap, "--partition", "0", "--election-type")
    for kind in ("preferred", "unclean"):
        said = tools.run("LeaderElectionCommand", *server, kind, "--topic", name)
        assert said.strip() == f"Valid replica already elected for partitions {name}-0"
    refused = tools.fail("LeaderElectionCommand", *server, "preferred", "--topic", f"{name}-ghost")
    assert f"UnknownTopicOrPartitionException: No such topic as {name}-ghost" in refused
    every = ("--bootstrap-server", bootstrap, "--all-topic-partitions", "--election-type", "preferred")
    assert tools.run("LeaderElectionCommand", *every) == ""


@OF_CONFORMANCE
def test_kafka_reassign_partitions_has_nothing_to_move(bootstrap: str, name: str, tools: Tools, tmp_path: Path) -> None:
    make_topic(bootstrap, name, 1)
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    leader = AdminClient({"bootstrap.servers": bootstrap}).list_topics(name, 30).topics[name].partitions[0].leader
    replica = {"topic": name, "partition": 0, "replicas": [leader], "log_dirs": ["any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replica]}))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": name}]}))

    def reassign(*options: str) -> str:
        return tools.run("reassign.ReassignPartitionsCommand", "--bootstrap-server", bootstrap, *options)

    started = reassign("--execute", "--reassignment-json-file", str(plan))
    assert f"Successfully started partition reassignment for {name}-0" in started
    verified = reassign("--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {name}-0 is completed." in verified
    cancelled = reassign("--cancel", "--reassignment-json-file", str(plan))
    assert "None of the specified partition reassignments are active." in cancelled
    assert "No partition reassignments found." in reassign("--list")
    proposed = reassign("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", str(leader))
    now, _, then = proposed.partition("Proposed partition reassignment configuration")
    (moved,) = json.loads(then)["partitions"]
    assert moved == replica
    assert f'"replicas":[{leader}]' in now


@OF_CONFORMANCE
def test_kafka_metadata_quorum_describes_one_voter(bootstrap: str, tools: Tools) -> None:
    server = ("--bootstrap-server", bootstrap, "describe")
    said = dict(line.split(":", 1) for line in tools.run("MetadataQuorumCommand", *server, "--status").splitlines())
    told = {name: value.strip() for name, value in said.items()}
    assert int(told.pop("LeaderEpoch")) >= 0 and int(told.pop("HighWatermark")) > 0 and told.pop("ClusterId")
    (voter,) = json.loads(told.pop("CurrentVoters"))
    leader = told["LeaderId"]
    assert str(voter["id"]) == leader and re.fullmatch(r"[A-Z]+://127\.0\.0\.1:\d+", voter["endpoints"][0])
    others = sorted(
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).brokers.keys() - {int(leader)}
    )
    assert [one["id"] for one in json.loads(told.pop("CurrentObservers"))] == others
    assert told == {"LeaderId": leader, "MaxFollowerLag": "0", "MaxFollowerLagTimeMs": "0"}
    replica, *followers = rows(tools.run("MetadataQuorumCommand", *server, "--replication"))
    assert (replica["NodeId"], replica["Lag"], replica["Status"]) == (leader, "0", "Leader")
    assert [(one["NodeId"], one["Status"]) for one in followers] == [(str(one), "Observer") for one in others]
    assert replica["DirectoryId"] == "A" * 22 and int(replica["LogEndOffset"]) > 0


def test_kafka_features_upgrades_to_what_is_there_and_no_further(bootstrap: str, tools: Tools) -> None:
    def features(*words: str) -> list[str]:
        return ["FeatureCommand", "--bootstrap-server", bootstrap, *words]

    assert re.search(
        r"Feature: transaction\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2\s",
        tools.run(*features("describe")),
    )
    same = tools.run(*features("upgrade", "--feature", "transaction.version=2"))
    assert same.strip() == "transaction.version was upgraded to 2."
    tried = tools.run(*features("downgrade", "--feature", "transaction.version=1", "--dry-run"))
    assert tried.strip() == "transaction.version can be downgraded to 1."
    beyond = tools.fail(*features("upgrade", "--feature", "transaction.version=9"))
    assert re.search(r"Local controller \d only supports versions 0-2", beyond)


@OF_CONFORMANCE
def test_kafka_cluster_names_the_one_broker(bootstrap: str, tools: Tools) -> None:
    server = ("--bootstrap-server", bootstrap)
    assert tools.run("ClusterTool", "cluster-id", *server).startswith("Cluster ID: ")
    for fenced in ([], ["--include-fenced-brokers"]):
        head, *brokers = tools.run("ClusterTool", "list-endpoints", *fenced, *server).splitlines()
        assert head.split() == ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]
        told = [broker.split() for broker in brokers]
        assert sorted(one[0] for one in told) == [str(one) for one in NODES_BY_ID]
        assert [one[3:] for one in told] == [["null", "unfenced", "broker"]] * NODE_COUNT
        assert bootstrap in [":".join(one[1:3]) for one in told]
    refused = tools.fail("ClusterTool", "unregister", "--id", "7", *server)
    assert "BrokerIdNotRegisteredException: Broker ID 7 is not currently registered" in refused


def test_kafka_client_metrics_keeps_subscriptions(bootstrap: str, name: str, tools: Tools) -> None:
    def metrics(*options: str) -> list[str]:
        return ["ClientMetricsCommand", "--bootstrap-server", bootstrap, *options]

    named = ("--name", name)
    wanted = ("--interval", "10000", "--metrics", "org.apache.kafka.producer.", "--match", "client_id=a")
    assert tools.run(*metrics("--alter", *named, *wanted)).strip() == f"Altered client metrics config for {name}."
    assert name in tools.run(*metrics("--list")).split()
    described = [
        f"Client metrics configs for {name} are:",
        *("interval.ms=10000", "match=client_id=a", "metrics=org.apache.kafka.producer."),
    ]
    assert [line.strip() for line in tools.run(*metrics("--describe", *named)).splitlines()] == described
    assert "interval must be between 100 and 3600000 (1 hour)" in tools.fail(
        *metrics("--alter", *named, "--interval", "5")
    )
    assert tools.run(*metrics("--delete", *named)).strip() == f"Deleted client metrics config for {name}."
    gone = f"The client metric resource {name} doesn't exist and doesn't have dynamic config."
    assert tools.run(*metrics("--describe", *named)).strip() == gone


def test_kafka_configs_changes_log_levels(bootstrap: str, tools: Tools) -> None:
    loggers = ["kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--entity-type", "broker-loggers"]
    loggers += ["--entity-name", "1"]
    described = tools.run(*loggers, "--describe").splitlines()
    assert described[0] == "Dynamic configs for broker-logger 1 are:"
    level = next(line.split()[0].partition("=")[2] for line in described if line.startswith("  root="))
    assert level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    tools.run(*loggers, "--alter", "--add-config", f"root={level}")
    assert "Invalid broker logger(s): no.such" in tools.fail(*loggers, "--alter", "--add-config", "no.such=INFO")


def test_kafka_python_describes_folders_and_the_quorum(bootstrap: str, name: str, admin: Any) -> None:
    make_topic(bootstrap, name, 1)
    folders = [(broker["broker"], *broker["log_dirs"]) for broker in admin.describe_log_dirs()]
    assert [node for node, _ in folders] == list(range(1, 1 + NODE_COUNT))
    for _, folder in folders:
        assert (folder["error_code"], folder["is_cordoned"]) == (0, False)
        assert NODES or folder["total_bytes"] >= folder["usable_bytes"] > 0
    (topic,) = [one for _, folder in folders for one in folder["topics"] if one["name"] == name]
    assert topic["partitions"] == [{"partition_index": 0, "partition_size": 0, "offset_lag": 0, "is_future_key": False}]
    (log,) = admin.describe_metadata_quorum()["topics"]
    (partition,) = log["partitions"]
    (voter,) = partition["current_voters"]
    leads = partition["leader_id"]
    assert (log["topic_name"], voter["replica_id"]) == ("__cluster_metadata", leads)
    assert 1 <= leads <= NODE_COUNT
    assert partition["high_watermark"] > 0
    assert admin.list_partition_reassignments() == {}


def test_librdkafka_elects_nobody(bootstrap: str, name: str) -> None:
    make_topic(bootstrap, name, 1)
    client = AdminClient({"bootstrap.servers": bootstrap})
    partitions = [TopicPartition(name, 0), TopicPartition(name, 7)]
    results = client.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
    codes = {one.partition: error and error.name() for one, error in results.items()}
    assert codes == {0: "ELECTION_NOT_NEEDED", 7: "UNKNOWN_TOPIC_OR_PART"}
