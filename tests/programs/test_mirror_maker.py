"""MirrorMaker 2 of Kafka 4.3.1 between this broker and an Apache Kafka, both ways at once: records, each once, and the
offsets of groups, translated, through kills of MirrorMaker and of this broker.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Message, TopicPartition

from tallystick.process import BrokerProcess
from tests.harness import jars
from tests.harness.apache_kafka import ApacheKafka
from tests.harness.confluent import SECONDS as SOON
from tests.harness.confluent import admin, consumer, make_topic, read_all, values_of, wait_until, write
from tests.harness.proxy import free_port
from tests.programs.java_program import JavaProgram, JavaPrograms

SECONDS = 240.0
"""After a kill its workers wait for the end of sessions, one after the other."""
EACH = 500
SIDES = ("ours", "theirs")


def settings(bootstraps: dict[str, str]) -> dict[str, str]:
    """Both ways, with transactions, and looking every second for what is new."""
    told = {
        "clusters": ",".join(SIDES),
        "groups": "group-.*",
        "replication.factor": "1",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "0",
        **{f"{name}.topic.replication.factor": "1" for name in ("checkpoints", "heartbeats", "offset-syncs")},
        **{f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")},
    }
    for every in ("refresh.topics", "refresh.groups", "sync.group.offsets", "emit.checkpoints"):
        told[f"{every}.interval.seconds"] = "1"
    for side, other in (SIDES, SIDES[::-1]):
        told |= {
            f"{side}.bootstrap.servers": bootstraps[side],
            f"{side}->{other}.enabled": "true",
            f"{side}->{other}.topics": f"{side}-records",
            f"{side}.exactly.once.source.support": "enabled",
            f"{side}.consumer.isolation.level": "read_committed",
            f"{side}.session.timeout.ms": "6000",
            f"{side}.heartbeat.interval.ms": "500",
            f"{side}.scheduled.rebalance.max.delay.ms": "0",
        }
    return told


@pytest.fixture
def other(tmp_path: Path) -> Iterator[BrokerProcess]:
    """The one on the other side, always an Apache Kafka."""
    try:
        made = ApacheKafka(tmp_path / "theirs", heap="512m")
    except jars.JarsMissing as reason:
        pytest.skip(f"MirrorMaker 2 needs an Apache Kafka on the other side: {reason}")
    yield made.start()
    made.close()


def mirror_maker(programs: JavaPrograms, bootstraps: dict[str, str]) -> JavaProgram:
    path = programs.properties("mirrors.properties", settings(bootstraps))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return programs.program("mirror-maker", programs.class_path("connect"), main, path).start()


class Side:
    """A cluster, its topic, and the copy of that on the other side."""

    def __init__(self, name: str, here: str, there: str) -> None:
        self.here, self.there = here, there
        self.topic = f"{name}-records"
        self.copy = f"{name}.{name}-records"
        self.groups = (f"group-of-{name}", "group-of-both")
        self.written: list[bytes] = []
        make_topic(here, self.topic, 1)

    def write(self, count: int) -> None:
        more = [b"%d" % (len(self.written) + number) for number in range(count)]
        write(self.here, self.topic, more, partition=0)
        self.written += more

    def commit(self) -> None:
        """Its groups have read all there is."""
        for group in self.groups:
            member = consumer(self.here, group__id=group)
            member.commit(offsets=[TopicPartition(self.topic, 0, len(self.written))], asynchronous=False)
            member.close()

    def copied(self) -> list[Message]:
        try:
            return read_all(self.there, self.copy)
        except KeyError:
            return []

    def passed(self, group: str) -> int:
        """How many of the copied records are behind it, where its offset came from here."""
        asker = admin(self.there)
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(self.copy, 0)])
        try:
            answer = asker.list_consumer_group_offsets([asked])[group].result(SOON)
        except KafkaException:
            return 0
        offset = answer.topic_partitions[0].offset
        return sum(1 for record in self.copied() if record.offset() < offset)


def await_records(sides: list[Side]) -> None:
    for side in sides:
        count = len(side.written)
        wait_until(lambda: len(side.copied()) >= count, side.copy, seconds=SECONDS)  # noqa: B023


def await_offsets(sides: list[Side]) -> None:
    """Each group comes to where it is now. It goes on meanwhile: MirrorMaker may keep what it knows of the last records
    to itself until more come (its syncs of offsets wait where ten are under way, for the next record), and translates
    to what it has told."""
    goals = {side: len(side.written) for side in sides}

    def came() -> bool:
        for side in sides:
            side.write(1)
            side.commit()
        return all(side.passed(group) >= goal for side, goal in goals.items() for group in side.groups)

    wait_until(came, "the offsets of groups", seconds=SECONDS)
    for side in sides:
        for group in side.groups:
            assert side.passed(group) <= len(side.written), "no group is sent beyond what it has read"


def test_records_and_offsets_of_groups_are_mirrored_through_kills(
    broker: BrokerProcess, other: BrokerProcess, programs: JavaPrograms
) -> None:
    bootstraps = {"ours": broker.bootstrap, "theirs": other.bootstrap}
    sides = [Side(name, bootstraps[name], bootstraps[across]) for name, across in (SIDES, SIDES[::-1])]

    def write_more() -> None:
        for side in sides:
            side.write(EACH)

    write_more()
    maker = mirror_maker(programs, bootstraps)
    await_records(sides)
    await_offsets(sides)
    write_more()
    maker.kill()
    write_more()
    maker.start()
    await_records(sides)
    await_offsets(sides)
    write_more()
    broker.kill()
    broker.start()
    write_more()
    await_records(sides)
    await_offsets(sides)
    await_records(sides)
    for side in sides:
        assert values_of(side.copied()) == side.written
