"""Consumer groups of both protocols: their coordinator dies, and they go on at another with what they committed."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.shared_store.several_nodes.cluster import PARTITIONS, SeveralNodes, closing, only_thorough, until
from tests.shared_store.several_nodes.writing import Writer
from tests.shared_store.test_a_broker import PATIENCE_S, Nodes

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"group.protocol": "classic", "session.timeout.ms": 6_000, "heartbeat.interval.ms": 500},
    "consumer": {"group.protocol": "consumer"},
}


class Group:
    """Members that are polled one after the other, and commit what they have read before they poll again."""

    def __init__(self, cluster: SeveralNodes, protocol: str, members: int) -> None:
        self._settings = {
            **cluster.clients,
            "group.id": f"of-{protocol}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **PROTOCOLS[protocol],
        }
        self.members: list[Consumer] = []
        self.read: dict[int, set[int]] = {index: set() for index in range(PARTITIONS)}
        """By partition, the offsets."""
        for _ in range(members):
            self.join()

    @property
    def name(self) -> str:
        return str(self._settings["group.id"])

    def join(self) -> None:
        member = Consumer(self._settings)
        member.subscribe(["t"])
        self.members.append(member)

    def leave(self) -> None:
        self.members.pop().close()

    def poll(self) -> None:
        for member in self.members:
            messages: list[Any] = member.consume(500, 0.05)
            for message in messages:
                if message.error() is None:
                    self.read[message.partition()].add(message.offset())
                else:
                    assert message.error().retriable() or not message.error().fatal(), message.error()

    @property
    def count(self) -> int:
        return sum(len(offsets) for offsets in self.read.values())

    def poll_until(self, happened: Any, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, f"it never happened: {what}"
            self.poll()

    def all_is_assigned(self) -> bool:
        found = sorted(one.partition for member in self.members for one in member.assignment())
        return found == list(range(PARTITIONS)) and all(member.assignment() for member in self.members)

    def close(self) -> None:
        while self.members:
            self.leave()


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=only_thorough), "consumer"])
def test_a_group_outlives_its_coordinator(nodes: Nodes, protocol: str) -> None:
    cluster = SeveralNodes(nodes)
    cluster.make_topics("t")
    with Writer(cluster, "t") as writer:
        group = Group(cluster, protocol, 2)
        group.poll_until(group.all_is_assigned, "two have all together")
        group.poll_until(lambda: group.count > 200, "they read")
        victim = cluster.coordinator_of_group(group.name)
        group.join()
        cluster.kill(victim)
        group.poll_until(group.all_is_assigned, "three have all together")
        before = group.count
        group.poll_until(lambda: group.count > before + 200, "they go on")
        cluster.by_id[victim].start()
        cluster.wait_until_led_by(victim, "t")
        group.leave()
        group.poll_until(group.all_is_assigned, "two have all together again")
    assert writer.errors == []
    expected = writer.expected()
    ends = {index: len(values) for index, values in expected.items()}
    group.poll_until(lambda: {index: len(read) for index, read in group.read.items()} == ends, "all is read")
    group.close()
    assert cluster.everything("t") == expected
    assert cluster.committed_offsets(group.name, "t") == ends
    look_from_where_it_ended(cluster, group, protocol)
    cluster.stop_all()


def look_from_where_it_ended(cluster: SeveralNodes, group: Group, protocol: str) -> None:
    """Who comes later reads nothing again."""
    settings = group._settings | {"enable.partition.eof": True}
    with closing(Consumer(settings)) as later:
        later.subscribe(["t"])
        ended: set[int] = set()

        def is_at_the_end() -> bool:
            message: Any = later.poll(0.2)
            if message is not None:
                assert message.error() is not None and message.error().name() == "_PARTITION_EOF", message.value()
                ended.add(message.partition())
            return len(ended) == PARTITIONS

        until(is_at_the_end, f"the end of everything, {protocol}")
