"""Share groups (KIP-932) with Java's consumer and Kafka's tools, unmodified.

Where there is no Java, or no jars, these tests say so and skip.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.test_kafka_tools import Tools
from tests.harness.confluent import make_topic, write

GROUPS = "consumer.group.ShareGroupCommand"
CONSUMER = "consumer.ConsoleShareConsumer"
PATIENCE_MS = "60000"


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    made = Tools(tmp_path)
    yield made
    made.close()


def table(said: str, group: str) -> list[list[str]]:
    """The rows of a group in what the tool prints, without the group's name."""
    return [line.split()[1:] for line in said.splitlines() if line.startswith(f"{group} ")]


def test_javas_share_consumer_reads_and_kafka_share_groups_looks_after_the_group(
    bootstrap: str, name: str, tools: Tools
) -> None:
    server = ("--bootstrap-server", bootstrap)
    make_topic(bootstrap, name, 1)
    tools.run(
        "kafka.admin.ConfigCommand", *server, "--alter", "--entity-type", "groups", "--entity-name", name,
        "--add-config", "share.auto.offset.reset=earliest",
    )  # fmt: skip
    sent = [f"{number}".encode() for number in range(5)]
    write(bootstrap, name, sent)
    consuming = (*server, "--topic", name, "--group", name, "--timeout-ms", PATIENCE_MS)
    read = tools.run(CONSUMER, *consuming, "--max-messages", "5").split()
    assert [value.encode() for value in read] == sent
    assert [line for line in tools.run(GROUPS, *server, "--list").split() if line == name] == [name]
    of_group = (*server, "--group", name)
    assert table(tools.run(GROUPS, *of_group, "--describe"), name)[0][3:] == ["0"], "nothing is left to do"
    state = table(tools.run(GROUPS, *of_group, "--describe", "--state"), name)
    assert [row[-2:] for row in state] == [["Empty", "0"]]
    reset = tools.run(GROUPS, *of_group, "--topic", name, "--reset-offsets", "--to-earliest", "--execute")
    assert table(reset, name) == [[name, "0", "0"]]
    assert table(tools.run(GROUPS, *of_group, "--describe"), name) == [[name, "0", "0", "5"]]
    again = tools.run(CONSUMER, *consuming, "--max-messages", "5").split()
    assert [value.encode() for value in again] == sent
    assert "Successful" in tools.run(GROUPS, *of_group, "--topic", name, "--delete-offsets")
    assert "no offset information" in tools.run(GROUPS, *of_group, "--describe")
    assert "successful" in tools.run(GROUPS, *of_group, "--delete")
    assert name not in tools.run(GROUPS, *server, "--list").split()
