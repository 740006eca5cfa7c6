"""franz-go's group consumer by the consumer protocol (`tests/go/groups`, KIP-848): two members copy a topic in
transactions, their broker is killed in the middle, and each record is copied once.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupType, KafkaException

from tallystick.process import BrokerProcess
from tests.clients.test_consumer_groups import QUICK, group_of
from tests.conformance.go_programs import built
from tests.harness.broker import server
from tests.harness.confluent import make_topic, read_all, wait_until, write

pytestmark = pytest.mark.other_languages
PARTITIONS, PART, SECONDS = 6, 40, 300
ROUND = PARTITIONS * PART


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return built("./groups", tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = server(tmp_path / "broker", more=QUICK)
    try:
        yield process.start()
    finally:
        process.close()


@pytest.fixture
def members(program: Path, broker: BrokerProcess, tmp_path: Path) -> Iterator["Members"]:
    make_topic(broker.bootstrap, "in", PARTITIONS)
    make_topic(broker.bootstrap, "out", 2)
    running = Members(program, broker.bootstrap, tmp_path / "told")
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


class Members:
    """Two of them, in one process."""

    def __init__(self, program: Path, bootstrap: str, told: Path) -> None:
        self._bootstrap, self._told = bootstrap, told
        self._rounds = 0
        with told.open("wb") as output:
            self.process = subprocess.Popen(
                [str(program), bootstrap, "copiers", "in", "out"],
                stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def write(self) -> int:
        """Another round, some into each partition; how many there are now."""
        for partition in range(PARTITIONS):
            first = self._rounds * ROUND + partition * PART
            values = [b"%d" % number for number in range(first, first + PART)]
            assert write(self._bootstrap, "in", values, partition=partition).failed == []
        self._rounds += 1
        return self._rounds * ROUND

    def copied(self) -> Counter[bytes | None]:
        return Counter(message.value() for message in read_all(self._bootstrap, "out"))

    def shares(self) -> list[int]:
        """How many partitions each has; nothing as long as the group is not one of the consumer protocol."""
        try:
            group: Any = group_of(self._bootstrap, "copiers")
        except KafkaException:  # Its coordinator is not there yet.
            return []
        is_consumer = group.type == ConsumerGroupType.CONSUMER
        return [len(one.assignment.topic_partitions) for one in group.members] if is_consumer else []

    def copiers(self) -> set[str]:
        """Whose transactions were committed."""
        return {line.split()[0] for line in self._told.read_text().splitlines()}


def test_franz_go_copies_each_record_once(members: Members, broker: BrokerProcess) -> None:
    wait_until(lambda: members.shares() == [PARTITIONS // 2] * 2, "two members with their shares", seconds=SECONDS)
    members.write()
    wait_until(lambda: members.copiers() >= {"left", "right"}, "copies of both", seconds=SECONDS)
    members.write()
    broker.kill()
    broker.start()
    count = members.write()
    wait_until(lambda: len(members.copied()) == count, "all copies", seconds=SECONDS)
    assert set(members.copied().values()) == {1}
    assert members.process.stdin is not None
    members.process.stdin.close()
    assert members.process.wait(SECONDS) == 0
