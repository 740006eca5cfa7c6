"""Kafka Streams with `group.protocol=streams` (KIP-1071) and exactly_once_v2: the broker gives out tasks and makes
the internal topics. Word counts and a join of two sources, through kills; Kafka's tools. Skips where there is no JDK.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tallystick.process import BrokerProcess
from tests.clients.test_dump_log_segments import complaints, dump, of_topic
from tests.clients.test_kafka_streams import SECONDS, Applications, counts, write
from tests.clients.test_kafka_tools import Tools
from tests.harness.confluent import make_topic, producer, read_all, wait_until

PARTITIONS = 3
QUICK = {
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.num.standby.replicas": "1",
}
LEFT, RIGHT = 60, 40
"""Values on each side of the join."""
LETTERS = "abcde"


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return own_broker(more=QUICK).start()


@pytest.fixture
def applications(broker: BrokerProcess, tmp_path: Path) -> Iterator[Applications]:
    made = Applications(broker.bootstrap, tmp_path)
    yield made
    made.close()


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    made = Tools(tmp_path)
    yield made
    made.close()


def test_kafkas_tools_look_after_a_streams_group(
    broker: BrokerProcess, applications: Applications, tools: Tools
) -> None:
    """`kafka-streams-groups` lists, describes and deletes it, `kafka-dump-log` reads its records."""
    bootstrap = broker.bootstrap
    for topic in ("in", "out"):
        make_topic(bootstrap, topic, PARTITIONS)
    write(bootstrap, range(4))
    running = applications.start("StreamsCounts", "counts", "in", "out", more=["streams"])
    wait_until(lambda: sum(map(len, counts(bootstrap).values())) == 150, "all counts", seconds=SECONDS)

    def groups(*arguments: str) -> str:
        return tools.run("streams.StreamsGroupCommand", "--bootstrap-server", bootstrap, *arguments)

    assert "counts" in groups("--list").split()
    described = groups("--describe", "--group", "counts", "--members", "--verbose")
    given = [
        f"{subtopology}_{partition}"
        for row in re.findall(r"(?<!-)ACTIVE: (.*?) TARGET", described)
        for subtopology, partitions in re.findall(r"(\d):\[([\d,]+)\]", row)
        for partition in partitions.split(",")
    ]
    assert sorted(given) == ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"], described
    assert "Stable" in groups("--describe", "--group", "counts", "--state")
    offsets = [line.split() for line in groups("--describe", "--group", "counts").splitlines()]
    assert {row[1] for row in offsets if row and row[0] == "counts"} >= {"in"}
    assert running.stdin is not None
    running.stdin.close()
    assert running.wait(SECONDS) == 0
    wait_until(lambda: "Empty" in groups("--describe", "--group", "counts", "--state"), "no members", seconds=SECONDS)
    groups("--delete", "--group", "counts")
    assert "counts" not in groups("--list").split()
    broker.stop()
    logs = [path for path in of_topic(broker.data, "__consumer_offsets-") if path.suffix == ".log"]
    output = dump(logs, "--deep-iteration", "--offsets-decoder")
    assert complaints(output) == []
    kinds = {int(kind) for kind in re.findall(r'key: {"type":"(\d+)"', output)}
    assert kinds >= {17, 19, 20, 21, 22, 23}, "group, members, epoch of its target, targets, what they run, topology"


def test_every_count_appears_once_when_instances_and_broker_are_killed(
    broker: BrokerProcess, applications: Applications
) -> None:
    """I43, I44: counted once, written once, and the offsets with them, whichever process dies in between."""
    bootstrap = broker.bootstrap
    for topic in ("in", "out"):
        make_topic(bootstrap, topic, PARTITIONS)

    def counted() -> int:
        return sum(map(len, counts(bootstrap).values()))

    def await_more(before: int) -> None:
        wait_until(lambda: counted() > before, "more counts", seconds=SECONDS)

    def start() -> "subprocess.Popen[bytes]":
        return applications.start("StreamsCounts", "counts", "in", "out", more=["streams"])

    write(bootstrap, range(20))
    victim = start()
    await_more(0)
    heir = start()
    write(bootstrap, range(20, 40))
    victim.kill()
    await_more(counted())
    before = counted()
    write(bootstrap, range(40, 60))
    broker.kill()
    broker.start()
    await_more(before)  # Where others serve meanwhile, all of them may be there by now.
    write(bootstrap, range(60, 80))
    committed = [number for number in range(80) if number % 4 != 3]
    values = [b"k%d" % (index % 20) for index in range(50)]
    expected = {value: list(range(1, values.count(value) * len(committed) + 1)) for value in set(values)}

    def all_there() -> bool:
        return sum(map(len, counts(bootstrap).values())) >= sum(map(len, expected.values()))

    wait_until(all_there, "the last count", seconds=SECONDS)
    assert heir.stdin is not None
    heir.stdin.close()
    assert heir.wait(SECONDS) == 0
    assert counts(bootstrap) == expected


def test_every_pair_of_a_join_appears_once_when_instances_and_broker_are_killed(
    broker: BrokerProcess, applications: Applications
) -> None:
    """I43, I44: two sources through repartition topics that are copartitioned, and two stores with changelogs."""
    bootstrap = broker.bootstrap
    make_topic(bootstrap, "left", PARTITIONS)
    make_topic(bootstrap, "right", PARTITIONS - 1)
    make_topic(bootstrap, "pairs", PARTITIONS)
    left = [f"{LETTERS[number % len(LETTERS)]}-left-{number}" for number in range(LEFT)]
    right = [f"{LETTERS[number % len(LETTERS)]}-right-{number}" for number in range(RIGHT)]

    def send(topic: str, values: list[str]) -> None:
        sender = producer(bootstrap)
        for value in values:
            sender.produce(topic, value.encode())
        sender.flush(SECONDS)

    def pairs() -> Counter[str]:
        return Counter(message.value().decode() for message in read_all(bootstrap, "pairs"))

    def await_more_of(values: list[str], topic: str) -> None:
        before = pairs().total()
        send(topic, values)
        wait_until(lambda: pairs().total() > before, "more pairs", seconds=SECONDS)

    def start() -> "subprocess.Popen[bytes]":
        return applications.start("StreamsPairs", "pairing", "left", "right", "pairs")

    send("left", left[:20])
    victim = start()
    await_more_of(right[:20], "right")
    heir = start()
    await_more_of(left[20:40], "left")
    victim.kill()
    await_more_of(right[20:30], "right")
    broker.kill()
    broker.start()
    await_more_of(left[40:], "left")
    await_more_of(right[30:], "right")
    expected = Counter(f"{one} {other}" for one in left for other in right if one[0] == other[0])
    wait_until(lambda: pairs().total() >= expected.total(), "the last pair", seconds=SECONDS)
    assert heir.stdin is not None
    heir.stdin.close()
    assert heir.wait(SECONDS) == 0
    assert pairs() == expected
