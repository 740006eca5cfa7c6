"""Kafka's tools look after what a Kafka Streams application has left, with the same words as on Apache Kafka 4.3.1.

The application ran with `group.protocol=streams` (KIP-1071): the broker made its internal topics, and keeps its group.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.clients.test_kafka_streams import SECONDS, Applications, counts
from tests.harness.confluent import make_topic, wait_until, write
from tests.harness.kafka_tools import KafkaTools, Said
from tests.programs.tools_story import Ask, in_our_words, meaning

GROUP, OUTPUT, PARTITIONS, RECORDS = "counts", "out", 2, 40
CHANGELOG, REPARTITION = f"{GROUP}-counts-changelog", f"{GROUP}-counts-repartition"


def _group(arguments: str, *, shape: bool = False) -> Ask:
    return Ask("streams.StreamsGroupCommand", arguments, ordered=False, shape=shape)


def _topic(arguments: str) -> Ask:
    return Ask("TopicCommand", arguments, ordered=False)


def _settings_of(topic: str) -> Ask:
    return Ask("kafka.admin.ConfigCommand", f"--describe --entity-type topics --entity-name {topic}", ordered=False)


def _reset(arguments: str) -> Ask:
    return _group(f"--reset-offsets --group {GROUP} {arguments}")


OF_INPUT = "--input-topic in"
LEFT_BEHIND = [
    _topic("--list"),
    _topic(f"--describe --topic {CHANGELOG}"),
    _topic(f"--describe --topic {REPARTITION}"),
    _settings_of(CHANGELOG),
    _settings_of(REPARTITION),
    _group("--list"),
    _group("--list --state"),
    _group(f"--describe --group {GROUP} --state"),
    _group(f"--describe --group {GROUP} --members --verbose"),
    _group(f"--describe --group {GROUP}", shape=True),
    _group(f"--describe --group {GROUP} --offsets --verbose", shape=True),
    _reset(f"{OF_INPUT} --to-earliest --dry-run"),
    _reset(f"{OF_INPUT}:1 --shift-by -3 --dry-run"),
    _reset(f"{OF_INPUT} --to-offset 1000 --dry-run"),
    _reset(f"{OF_INPUT} --to-datetime 2001-01-01T00:00:00.000 --dry-run"),
    _reset(f"{OF_INPUT} --to-current --dry-run"),
    _reset("--input-topic nowhere --to-earliest --dry-run"),
    _reset("--all-input-topics --to-latest --dry-run"),
    _reset(f"{OF_INPUT}:1 --to-offset 2 --execute"),
    _topic("--list"),
    _reset(f"{OF_INPUT} --to-current --dry-run"),
    _reset("--all-input-topics --to-earliest --execute --delete-all-internal-topics"),
    _topic("--list"),
    _reset(f"{OF_INPUT} --to-current --dry-run"),
    _group(f"--delete-offsets --group {GROUP} {OF_INPUT}:0"),
    _group(f"--delete-offsets --group {GROUP} --all-input-topics"),
    _group(f"--describe --group {GROUP}", shape=True),
    _group("--delete-offsets --group nobody --input-topic in"),
    _group(f"--delete --group {GROUP} --delete-all-internal-topics"),
    _group(f"--delete --group {GROUP}"),
    _topic("--list"),
    _group("--list"),
]


@dataclass
class Left:
    """A broker that an application has been with, and Kafka's tools."""

    bootstrap: str
    folder: Path
    tools: KafkaTools
    applications: Applications

    def ask(self, ask: Ask) -> Said:
        return self.tools.run(ask.tool, *ask.filled({"server": self.bootstrap}), stdin=ask.stdin)

    def run_the_application(self) -> None:
        """All there is has been counted, and it has closed."""
        running = self.applications.start("StreamsCounts", GROUP, "in", OUTPUT, more=["streams"])
        wait_until(lambda: sum(map(len, counts(self.bootstrap).values())) == RECORDS, "all counts", seconds=SECONDS)
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(SECONDS) == 0
        state = _group(f"--describe --group {GROUP} --state")
        wait_until(lambda: "Empty" in self.ask(state).output, "no members", seconds=SECONDS)


@pytest.fixture
def both(broker: BrokerProcess, theirs: BrokerProcess, tmp_path: Path) -> Iterator[list[Left]]:
    made: list[Left] = []
    try:
        for name, server in (("ours", broker), ("kafkas", theirs)):
            folder = tmp_path / f"of-{name}"
            folder.mkdir()
            tools, applications = KafkaTools(folder), Applications(server.bootstrap, folder)
            made.append(Left(server.bootstrap, folder, tools, applications))
        yield made
    finally:
        for one in made:
            one.tools.close()
            one.applications.close()


def _told(left: Left) -> list[tuple[int, str, str]]:
    for topic in ("in", OUTPUT):
        make_topic(left.bootstrap, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        write(left.bootstrap, "in", [b"k%d" % number for number in range(RECORDS // PARTITIONS)], partition=partition)
    left.run_the_application()
    said = [(ask, left.ask(ask)) for ask in LEFT_BEHIND]
    return [(one.status, meaning(ask, one.output), meaning(ask, one.errors)) for ask, one in said]


def _sorted_settings(words: tuple[int, str, str]) -> tuple[int, str, str]:
    """A broker describes them in an order of its own."""
    status, output, errors = words
    return status, re.sub(r"(?<=Configs: ).*", lambda found: ",".join(sorted(found[0].split(","))), output), errors


def test_tools_say_of_what_an_application_left_what_they_say_on_kafka(both: list[Left]) -> None:
    with ThreadPoolExecutor(2) as pool:
        ours, kafkas = pool.map(_told, both)
    other = []
    for ask, here, there in zip(LEFT_BEHIND, ours, kafkas, strict=True):
        expected = in_our_words(there)
        if _sorted_settings(here) != _sorted_settings(expected):
            other.append(f"{ask.arguments}\n--- ours: {here}\n--- Kafka: {expected}")
    assert not other, "\n".join(other)
    assert CHANGELOG in ours[0][1]
    assert CHANGELOG not in ours[-2][1]
