"""Groups of the consumer protocol (KIP-848) with Java's client and Kafka's tools, unmodified.

`VerifiableConsumer` is the consumer of Kafka's own system tests: it says what it is given and what it reads. Where
there is no Java, or no jars, these tests say so and skip.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.process import BrokerProcess
from tests.clients.test_consumer_groups import QUICK
from tests.clients.test_groups import Member, shared_out
from tests.clients.test_kafka_tools import Tools
from tests.harness.confluent import SECONDS, make_topic, wait_until, write

GROUPS = "consumer.group.ConsumerGroupCommand"


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    made = Tools(tmp_path)
    yield made
    made.close()


@pytest.fixture
def quick(tools: Tools, own_broker: Callable[..., BrokerProcess]) -> str:
    """A broker that asks for heartbeats often."""
    return own_broker(more=QUICK).start().bootstrap


class JavaMember:
    """A `VerifiableConsumer`."""

    def __init__(self, tools: Tools, label: str, bootstrap: str, group: str, protocol: str = "consumer") -> None:
        """It reads the topic that has the name of its group."""
        self._label = label
        self._tools = tools
        command = ["--bootstrap-server", bootstrap, "--topic", group, "--group-id", group, "--verbose"]
        self.process = tools.start(label, "VerifiableConsumer", *command, "--group-protocol", protocol)

    def _events(self) -> list[dict[str, Any]]:
        lines = self._tools.output_of(self._label).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def owned(self) -> set[int]:
        owned: set[int] = set()
        for event in self._events():
            match event["name"]:
                case "partitions_assigned":
                    owned |= {one["partition"] for one in event["partitions"]}
                case "partitions_revoked":
                    owned -= {one["partition"] for one in event["partitions"]}
        return owned

    @property
    def values(self) -> list[bytes]:
        return [event["value"].encode() for event in self._events() if event["name"] == "record_data"]

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(SECONDS)
        assert self._events()[-1]["name"] == "shutdown_complete"


def test_members_of_java_share_leave_and_vanish(quick: str, name: str, tools: Tools) -> None:
    """One that vanishes is given up after the session timeout that Kafka's tool has set for the group."""
    make_topic(quick, name, 6)
    server = ("--bootstrap-server", quick)
    altered = tools.run(
        "kafka.admin.ConfigCommand", *server, "--alter", "--entity-type", "groups", "--entity-name", name,
        "--add-config", "consumer.session.timeout.ms=1500",
    )  # fmt: skip
    assert "Completed updating" in altered
    members = [JavaMember(tools, f"{name}-{number}", quick, name) for number in range(3)]
    wait_until(shared_out(members, 6, each=2), "three members share")
    sent = [f"{number}".encode() for number in range(60)]
    for partition in range(6):
        write(quick, name, sent[partition::6], partition=partition)
    wait_until(
        lambda: sorted(value for member in members for value in member.values) == sorted(sent), "every record, once"
    )
    described = tools.run(GROUPS, *server, "--describe", "--group", name, "--members", "--verbose")
    assert len([line for line in described.splitlines() if line.startswith(name)]) == 3
    listed = tools.run(GROUPS, *server, "--list", "--type", "consumer")
    assert [line.split() for line in listed.splitlines() if name in line] == [[name, "Consumer"]]
    members.pop().leave()
    wait_until(shared_out(members, 6), "two members share")
    members.pop().process.kill()
    wait_until(shared_out(members, 6), "the last one owns all")
    members.pop().leave()
    deleted = tools.run(GROUPS, *server, "--delete", "--group", name)
    assert "successful" in deleted


def test_members_of_java_and_of_librdkafka_move_between_the_protocols(quick: str, name: str, tools: Tools) -> None:
    """A group of the classic protocol takes in members of the other one, and goes back when they have gone."""
    make_topic(quick, name, 6)
    classic = Member(quick, name, name, partition__assignment__strategy="cooperative-sticky")
    wait_until(shared_out([classic], 6), "the classic member owns all")
    member = JavaMember(tools, name, quick, name)
    wait_until(shared_out([classic, member], 6), "the two share")
    member.leave()
    wait_until(shared_out([classic], 6), "the classic member owns all again")
    classic.leave()
