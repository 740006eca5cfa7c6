"""Of whom Metadata tells as replicas: the leader, or all nodes that consumers may read from (KIP-392)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.described_topics import DescribedTopics
from broker.process.time_slice import TimeSlice
from protocol.messages.metadata import MetadataResponsePartition
from tests.harness.work_clock import WorkClock

LEADERS = {0: 2, 1: 1, 2: 3, 3: -1}


def described(reached: set[int], *, all_serve: bool) -> list[MetadataResponsePartition]:
    nodes: Any = SimpleNamespace(
        is_alone=False,
        revision=1,
        all_serve_readers=all_serve,
        leader=lambda topic_id, index: (LEADERS[index], 5),
    )
    topic: Any = type("Topic", (), {})()
    topic.name, topic.topic_id, topic.internal, topic.partitions = "t", bytes(16), False, range(len(LEADERS))
    found = asyncio.run(
        DescribedTopics().of(
            topic, nodes=nodes, reached=frozenset(reached), operations=0, time_slice=TimeSlice(WorkClock().now)
        )
    )
    return list(found.partitions)


def test_all_nodes_that_serve_stand_behind_the_leader() -> None:
    told = [(one.replica_nodes, one.isr_nodes, one.offline_replicas) for one in described({1, 2}, all_serve=True)]
    assert told == [([2, 1], [2, 1], []), ([1, 2], [1, 2], []), ([3, 1, 2], [1, 2], [3]), ([], [], [])]


@pytest.mark.parametrize("reached", [{1, 2}, {1, 2, 3}])
def test_the_leader_is_the_only_one_where_nobody_else_may_be_read(reached: set[int]) -> None:
    told = [(one.replica_nodes, one.isr_nodes, one.offline_replicas) for one in described(reached, all_serve=False)]
    assert told == [([2], [2], []), ([1], [1], []), ([3], [3], [] if 3 in reached else [3]), ([], [], [])]
