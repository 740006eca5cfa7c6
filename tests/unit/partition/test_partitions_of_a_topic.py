"""What a topic has in the place of partitions whose log is not open."""

from typing import Any

import pytest

from broker.config.topic_config import TopicConfig
from broker.partitions.errors import AppendError
from broker.partitions.offline import PartitionWithoutLog
from broker.partitions.topic import Topic
from protocol.errors import ErrorCode
from storage.log import LogDamaged
from tests.unit.partition.rig import NOW_MS, Rig, plain


def without_log(index: int, damaged: LogDamaged | None = None) -> PartitionWithoutLog:
    return PartitionWithoutLog(
        topic="t",
        topic_id=bytes(16),
        index=index,
        leader_epoch=3,
        config=TopicConfig(),
        now_ms=lambda: NOW_MS,
        damaged=damaged,
    )


def topic_of(count: int) -> Topic:
    topic = Topic("t", bytes(16), TopicConfig(), without_log)
    topic.partitions.grow(count)
    return topic


def test_a_partition_that_is_not_open_refuses_and_is_not_gone() -> None:
    partitions = topic_of(3).partitions
    opened = Rig().partition
    partitions.put(0, opened)
    partitions.put(1, without_log(1, LogDamaged("t-1/", None, 0, "torn")))
    assert [(one.index, one.discarded, one.refusal) for one in partitions] == [
        (0, False, ErrorCode.NONE),
        (1, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (2, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    assert [partitions.is_closed(index) for index in (-1, 0, 1, 2, 3)] == [False, False, False, True, False]
    assert (partitions.opened(), [one.index for one in partitions.offline()]) == ([opened], [1])
    assert partitions[-1].index == 2 and [one.index for one in partitions[1:]] == [1, 2]
    assert partitions.first_closed() == 2


@pytest.mark.parametrize(("index", "code"), [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.KAFKA_STORAGE_ERROR)])
def test_without_a_log_nothing_is_taken_and_nothing_read(index: int, code: ErrorCode) -> None:
    partition: Any = without_log(index, LogDamaged("t-1/", None, 0, "torn") if index else None)
    for refused in (
        lambda: partition.append(memoryview(plain()), transactional_id=None, now_ms=NOW_MS),
        lambda: partition.append_records(plain(), now_ms=NOW_MS),
        lambda: partition.append_marker(None, NOW_MS),
        lambda: partition.needs_verification(memoryview(plain())),
        lambda: partition.begin_verification(1, 0, 0, True),
        lambda: partition.delete_records(0),
        lambda: partition.read(0, 1, read_committed=False),
        lambda: partition.offset_for_timestamp(0, read_committed=False),
        lambda: partition.max_timestamp(read_committed=False),
    ):
        with pytest.raises(AppendError) as caught:
            refused()
        assert caught.value.code is code
    assert (partition.end_offset, partition.high_watermark, partition.leader_epoch) == (0, 0, 3)


def test_the_partitions_of_a_deleted_topic_are_gone_one_by_one() -> None:
    partitions = topic_of(2).partitions
    for index in range(2):
        partitions.put(index, Rig().partition)
    assert partitions.first_closed() is None
    partitions.forget(1)
    assert [one.discarded for one in partitions] == [False, True]
    assert partitions.first_closed() == 1
    partitions.forget(0)
    assert partitions.first_closed() == 0 and partitions.opened() == []


def test_a_changed_configuration_reaches_what_is_open() -> None:
    topic = topic_of(2)
    opened = Rig().partition
    topic.partitions.put(0, opened)
    changed = TopicConfig(max_message_bytes=100)
    topic.configure(changed)
    assert (topic.config, opened.config) == (changed, changed)
    assert opened.log.config == changed.log  # type: ignore[attr-defined]
