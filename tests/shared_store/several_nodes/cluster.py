"""Several brokers in processes over one store, as their clients see them: who leads what, and what is in a topic."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from broker.coordination.key_partition import partition_for
from protocol.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tallystick.process import BrokerProcess
from tests.harness.together import answer_of, start_together
from tests.shared_store.test_a_broker import PATIENCE_S, SETTINGS, Nodes

WHOLE = "TALLYSTICK_NODES_THOROUGH" in os.environ
ONLY_THOROUGH = "only with many others: make nodes"
only_thorough = pytest.mark.skipif(not WHOLE, reason=ONLY_THOROUGH)
PARTITIONS = 6
NUMBER_OF_NODES = 3


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it never happened: {what}"
        time.sleep(0.02)


SESSION_MS = "4000"
"""A machine under load may well stand still for two seconds."""
SOON_MS = 500
"""How long clients wait at most before they try to reach a node again."""


class SeveralNodes:
    """A cluster that runs: nodes 1, 2, 3."""

    def __init__(self, nodes: Nodes, *, has_http: bool = False, **settings: str) -> None:
        self._nodes = nodes
        self._settings = {"broker_session_timeout_ms": SESSION_MS} | settings
        self._has_http = has_http
        self.by_id: dict[int, BrokerProcess] = {}
        start_together([self.make(1 + number).start for number in range(NUMBER_OF_NODES)])

    def make(self, node_id: int) -> BrokerProcess:
        """One more, not started yet."""
        self.by_id[node_id] = self._nodes.node(node_id, **self._settings)
        self.by_id[node_id].has_http = self._has_http
        return self.by_id[node_id]

    @property
    def running(self) -> list[int]:
        return [node_id for node_id, one in self.by_id.items() if one.running]

    @property
    def bootstrap(self) -> str:
        """All of those that were ever started."""
        return ",".join(one.bootstrap for one in self.by_id.values() if one.bootstrap)

    @property
    def clients(self) -> dict[str, Any]:
        """Settings that all clients have."""
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": SOON_MS}

    def admin(self) -> AdminClient:
        return AdminClient(self.clients)

    def make_topics(self, *names: str, partitions: int = PARTITIONS) -> None:
        admin = self.admin()
        made = admin.create_topics([NewTopic(name, partitions) for name in names])
        for name in names:
            made[name].result(PATIENCE_S)
        until(lambda: set(self.leaders(names[-1]).values()) == set(self.running), "all nodes lead")

    def ask(self, node_id: int, request: object) -> Any:
        """Of this node and no other: clients go to whom they please."""
        return answer_of(self.by_id[node_id].bootstrap, request)

    # -- who does what ---------------------------------------------------------------------------------------

    def leaders(self, topic: str, *, asked: int | None = None) -> dict[int, int]:
        """By partition, as that node tells it; nothing where it does not know of the topic."""
        if asked is None:
            found = self.admin().list_topics(topic, PATIENCE_S).topics[topic].partitions
            return {index: one.leader for index, one in found.items()}
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (told,) = self.ask(asked, request).topics
        return {one.partition_index: one.leader_id for one in told.partitions}

    def controller(self) -> int:
        return int(self.admin().list_topics(timeout=PATIENCE_S).controller_id)

    def coordinator_of_transactions(self, transactional_id: str) -> int:
        return self._leader_for(TRANSACTION_STATE, transactional_id, "transaction.state.log.num.partitions")

    def coordinator_of_group(self, group: str) -> int:
        return self._leader_for(CONSUMER_OFFSETS, group, "offsets.topic.num.partitions")

    def _leader_for(self, topic: str, key: str, setting: str) -> int:
        return self.leaders(topic)[partition_for(key, int(SETTINGS[setting]))]

    def wait_until_led_without(self, gone: int, *topics: str) -> None:
        living = [node_id for node_id in self.running if node_id != gone]
        for node_id in living:
            for topic in topics:
                until(
                    lambda: set(self.leaders(topic, asked=node_id).values()) <= set(living),  # noqa: B023
                    f"{topic} is led by others than {gone}, as {node_id} tells it",
                )

    def wait_until_led_by(self, node_id: int, *topics: str) -> None:
        for topic in topics:
            until(lambda: node_id in self.leaders(topic).values(), f"{topic} is led by {node_id}, too")  # noqa: B023

    def kill(self, node_id: int) -> None:
        self.by_id[node_id].kill()

    def stop_all(self) -> None:
        """All of them run, and end in order."""
        assert self.running == list(self.by_id), self.logs()
        for one in self.by_id.values():
            assert one.stop(seconds=PATIENCE_S) == 0, self.logs()

    def logs(self) -> str:
        return "\n".join(f"--- node {node_id}\n{one.log_end(6_000)}" for node_id, one in self.by_id.items())

    # -- what is there ---------------------------------------------------------------------------------------

    def everything(self, topic: str, *, isolation: str = "read_committed") -> dict[int, list[str]]:
        """By partition, all values that such a reader sees, up to where the topic ends now."""
        settings = {
            **self.clients,
            "group.id": "looks-at-everything",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        with closing(Consumer(settings)) as consumer:
            found: dict[int, list[str]] = {index: [] for index in self.leaders(topic)}
            consumer.assign([TopicPartition(topic, index, 0) for index in found])
            ended: set[int] = set()
            deadline = time.monotonic() + PATIENCE_S
            while len(ended) < len(found):
                assert time.monotonic() < deadline, f"only these end: {ended}\n{self.logs()}"
                message: Any = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    found[message.partition()].append(message.value().decode())
                elif message.error().name() == "_PARTITION_EOF":
                    ended.add(message.partition())
                else:
                    assert message.error().retriable(), message.error()
            return found

    def committed_offsets(self, group: str, topic: str) -> dict[int, int]:
        asked = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        with closing(Consumer({**self.clients, "group.id": group})) as consumer:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return {one.partition: one.offset for one in consumer.committed(asked, 10.0)}
                except KafkaException as error:
                    assert error.args[0].retriable() and time.monotonic() < deadline, error


@contextmanager
def closing(consumer: Consumer) -> Iterator[Consumer]:
    try:
        yield consumer
    finally:
        consumer.close()
