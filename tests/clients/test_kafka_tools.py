"""Kafka's own tools, with the Java client inside, against our broker: the TV2 client that is not ours.

`TransactionalMessageCopier` under kills is what Kafka's own system tests call its transactions test. Where there is no
Java, or no jars, these tests say so and skip.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tallystick.process import BrokerProcess
from tests.harness import jars
from tests.harness.broker import Target
from tests.harness.confluent import consumer, make_topic, producer, read_all, values_of, wait_until, write
from tests.harness.kafka_tools import PACKAGE, run_tool

LOGGING = """rootLogger.level=error
rootLogger.appenderRef.stderr.ref=STDERR
appender.stderr.type=Console
appender.stderr.name=STDERR
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=%d %p %m (%c)%n
"""
SECONDS = 120


class Tools:
    """Runs tools, and starts others beside the test; whatever still runs in the end is killed."""

    def __init__(self, folder: Path) -> None:
        try:
            self._class_path = jars.class_path("kafka")
        except jars.JarsMissing as reason:
            pytest.skip(f"Kafka's tools need Java and Kafka's jars: {reason}")
        self._folder = folder
        self._logging = folder / "log4j2.properties"
        self._logging.write_text(LOGGING)
        self._running: list[subprocess.Popen[str]] = []

    def command(self, tool: str, *arguments: str) -> list[str]:
        name = tool if tool.startswith("kafka.") else PACKAGE + tool
        java = [str(jars.java()), "-Xmx256m", *jars.SHORT_LIFE]
        return [*java, f"-Dlog4j2.configurationFile={self._logging}", "-cp", self._class_path, name, *arguments]

    def run(self, tool: str, *arguments: str) -> str:
        """What it prints; it has to end with status 0."""
        done = run_tool(tool, *arguments)
        assert done.status == 0, f"{tool}: {done.output[-2000:]}{done.errors[-2000:]}"
        return done.output

    def fail(self, tool: str, *arguments: str) -> str:
        """All that it prints; it must not end with status 0."""
        done = run_tool(tool, *arguments)
        assert done.status != 0, f"{tool}: {done.output[-2000:]}"
        return done.output + done.errors

    def start(self, label: str, tool: str, *arguments: str) -> "subprocess.Popen[str]":
        """In the background; its output goes to a file."""
        with (self._folder / f"{label}.out").open("w") as output:
            process = subprocess.Popen(
                self.command(tool, *arguments), stdout=output, stderr=subprocess.STDOUT, text=True
            )
        self._running.append(process)
        return process

    def output_of(self, label: str) -> str:
        return (self._folder / f"{label}.out").read_text()

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    made = Tools(tmp_path)
    yield made
    made.close()


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a table with a head, as `kafka-transactions` prints them."""
    head, *lines = [line for line in table.splitlines() if line.strip()]
    names = [name.strip() for name in head.split("\t")]
    return [dict(zip(names, [cell.strip() for cell in line.split("\t")], strict=False)) for line in lines]


def copier(bootstrap: str, name: str, *more: str) -> list[str]:
    return [
        "--broker-list", bootstrap, "--input-topic", f"{name}-in", "--input-partition", "0", "--output-topic",
        f"{name}-out", "--consumer-group", name, "--enable-random-aborts", *more,
    ]  # fmt: skip


def end_offsets(bootstrap: str, topic: str, partitions: int) -> int:
    """How much was written to a topic, markers and aborted records included; 0 where a leader is not found just now."""
    reader = consumer(bootstrap)
    try:
        return sum(
            reader.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1] for index in range(partitions)
        )
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return 0
    finally:
        reader.close()


def test_transactions_of_the_java_client_are_copied_listed_and_described(
    target: Target, name: str, tools: Tools
) -> None:
    """A TV2 client: every transaction has an epoch of its own; what operators see of it is what happened."""
    bootstrap = target.bootstrap
    tools.run("TopicCommand", "--bootstrap-server", bootstrap, "--create", "--topic", f"{name}-in", "--partitions", "1")
    tools.run(
        "VerifiableProducer", "--bootstrap-server", bootstrap, "--topic", f"{name}-in", "--max-messages", "1000",
        "--acks", "-1",
    )  # fmt: skip
    make_topic(bootstrap, f"{name}-out", 2)
    output = tools.run(
        "TransactionalMessageCopier",
        *copier(bootstrap, name, "--transactional-id", name, "--transaction-size", "100", "--use-group-metadata"),
    )
    last = json.loads(output.splitlines()[-1])
    assert (last["stage"], last["consumed"], last["remaining"]) == ("ShutdownComplete", 1000, 0)
    copied = Counter(values_of(read_all(bootstrap, f"{name}-out")))
    assert len(copied) == 1000 and set(copied.values()) == {1}
    (listed,) = [
        row
        for row in rows(tools.run("TransactionsCommand", "--bootstrap-server", bootstrap, "list"))
        if row["TransactionalId"] == name
    ]
    assert listed["TransactionState"] == "CompleteCommit"
    command = ["--bootstrap-server", bootstrap, "describe", "--transactional-id", name]
    (described,) = rows(tools.run("TransactionsCommand", *command))
    assert int(described["ProducerEpoch"]) >= 10, "ten transactions and more, each with an epoch of its own"
    if target.process is not None:
        hanging = ["--bootstrap-server", bootstrap, "find-hanging", "--broker-id", "1"]
        assert rows(tools.run("TransactionsCommand", *hanging)) == [], "I48"


def test_settings_of_client_metrics_and_groups_are_described(bootstrap: str, name: str, tools: Tools) -> None:
    """Nothing is set of either, and their tools say so instead of failing."""
    server = ("--bootstrap-server", bootstrap)
    assert "any doesn't exist" in tools.run("ClientMetricsCommand", *server, "--describe", "--name", "any")
    tools.run("ClientMetricsCommand", *server, "--delete", "--name", "any")
    of_group = ("--entity-type", "groups", "--entity-name", name)
    described = tools.run("kafka.admin.ConfigCommand", *server, "--describe", *of_group)
    assert f"The group '{name}' doesn't exist" in described


def test_the_group_and_its_offsets_are_seen_by_tools(bootstrap: str, name: str, tools: Tools) -> None:
    make_topic(bootstrap, f"{name}-in", 1)
    make_topic(bootstrap, f"{name}-out", 1)
    write(bootstrap, f"{name}-in", [str(number).encode() for number in range(300)])
    tools.run(
        "TransactionalMessageCopier",
        *copier(bootstrap, name, "--transactional-id", name, "--transaction-size", "50", "--max-messages", "100"),
    )
    described = tools.run(
        "consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, "--describe", "--group", name
    )
    assert [line.split()[3:6] for line in described.splitlines() if f"{name}-in" in line] == [["100", "300", "200"]]
    offsets = tools.run("GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", f"{name}-in")
    assert offsets.split() == [f"{name}-in:0:300"]
    altered = tools.run(
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter", "--topic",
        f"{name}-in", "--add-config", "retention.ms=123456",
    )  # fmt: skip
    assert "Completed updating" in altered
    shown = tools.run(
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--describe", "--topic", f"{name}-in"
    )
    assert "retention.ms=123456" in shown


def test_transactional_load_of_producer_performance(bootstrap: str, name: str, tools: Tools) -> None:
    make_topic(bootstrap, name, 3)
    output = tools.run(
        "ProducerPerformance", "--bootstrap-server", bootstrap, "--topic", name, "--num-records", "20000",
        "--record-size", "100", "--throughput", "-1", "--transactional-id", name, "--transaction-duration-ms", "20",
    )  # fmt: skip
    assert "20000 records sent" in output
    assert len(read_all(bootstrap, name)) == 20_000


def test_an_operator_aborts_what_a_client_left_open(bootstrap: str, name: str, tools: Tools) -> None:
    """KIP-664: describe-producers shows where the transaction began, abort ends it, and the client is fenced."""
    make_topic(bootstrap, name, 1)
    sender = producer(bootstrap, transactional__id=name)
    sender.init_transactions(30)
    sender.begin_transaction()
    sender.produce(name, b"left open", partition=0)
    sender.flush(30)
    where = ["--topic", name, "--partition", "0"]
    (open_one,) = rows(tools.run("TransactionsCommand", "--bootstrap-server", bootstrap, "describe-producers", *where))
    assert open_one["CurrentTransactionStartOffset"] == "0"
    tools.run("TransactionsCommand", "--bootstrap-server", bootstrap, "abort", *where, "--start-offset", "0")
    (ended,) = rows(tools.run("TransactionsCommand", "--bootstrap-server", bootstrap, "describe-producers", *where))
    assert ended["CurrentTransactionStartOffset"] == "None"
    write(bootstrap, name, [b"after"])
    assert values_of(read_all(bootstrap, name)) == [b"after"]


@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_copiers_copy_each_message_once_when_the_broker_is_killed(
    own_broker: Callable[..., BrokerProcess], tools: Tools, durability: str
) -> None:
    """Kafka's group-mode transactions test with hard bounces: two copiers of one group, random aborts, and a broker
    that dies three times (I05, I37, I41). What is read in the end is what was put in, each once."""
    count, name = 12_000, "copied"
    process = own_broker(durability=durability)
    process.start()
    make_topic(process.bootstrap, f"{name}-in", 4)
    make_topic(process.bootstrap, f"{name}-out", 4)
    for partition in range(4):
        values = [f"{number}".encode() for number in range(partition, count, 4)]
        write(process.bootstrap, f"{name}-in", values, partition=partition)

    def start(label: str) -> Any:
        options = ["--transactional-id", label, "--transaction-size", "60", "--group-mode", "--use-group-metadata"]
        return tools.start(label, "TransactionalMessageCopier", *copier(process.bootstrap, name, *options))

    copiers = {label: start(label) for label in ("left", "right")}
    for copied_so_far in (1_000, 5_000, 9_000):
        wait_until(lambda: end_offsets(process.bootstrap, f"{name}-out", 4) > copied_so_far, "no progress")  # noqa: B023
        process.kill()
        process.start()
    deadline = time.monotonic() + SECONDS
    while any(one.poll() is None for one in copiers.values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    said = {label: tools.output_of(label)[-1500:] for label in copiers}
    assert all(one.poll() == 0 for one in copiers.values()), said
    copied = Counter(values_of(read_all(process.bootstrap, f"{name}-out")))
    assert sum(copied.values()) == len(copied) == count
    assert set(copied) == {str(number).encode() for number in range(count)}


def test_kafka_configs_sets_quotas_and_describes_them(target: Target, tools: Tools, name: str) -> None:
    configs = ("kafka.admin.ConfigCommand", "--bootstrap-server", target.bootstrap)
    both = ("--entity-type", "users", "--entity-name", name, "--entity-type", "clients", "--entity-default")
    wanted = "producer_byte_rate=1024,request_percentage=12.5,controller_mutation_rate=3"
    tools.run(*configs, "--alter", *both, "--add-config", wanted)
    described = tools.run(*configs, "--describe", *both)
    assert f"Quota configs for user-principal '{name}', the default client-id are" in described
    values = described.replace(",", " ").split()
    assert {"producer_byte_rate=1024.0", "request_percentage=12.5", "controller_mutation_rate=3.0"} <= set(values)
