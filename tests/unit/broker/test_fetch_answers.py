"""What a fetch is told of a partition: each field, in a session and without one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.api.fetching.fetch_session import Wanted
from broker.api.fetching.fetched_partitions import diverging_from, epoch_error, has_nothing_new, refusal_of, take_note
from broker.api.services import Services
from broker.config.listeners import Endpoint
from broker.coordination.across_nodes.nodes import OneNode
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, LeaderIdAndEpoch, NodeEndpoint
from tests.unit.broker.test_fetch import LARGE, append
from tests.unit.partition.rig import NOW_MS, in_transaction
from tests.unit.transactions.node_rig import ask, in_a_node, partitions_of

FENCED, AHEAD = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH


def wanted(offset: int = 0, index: int = 0, **fields: Any) -> Wanted:
    return Wanted(
        "t", bytes(16), FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=LARGE, **fields)
    )


def test_a_client_of_another_epoch(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        partition.leader_epoch = 5
        found = [epoch_error(wanted(current_leader_epoch=epoch), partition) for epoch in (-1, 0, 4, 5, 6)]
        assert found == [0, FENCED, FENCED, 0, AHEAD]

    in_a_node(story, tmp_path)


def test_where_a_client_has_read_what_is_not_here(tmp_path: Path) -> None:
    """KIP-320."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        for epoch, count in ((3, 2), (6, 3)):
            partition.leader_epoch = epoch
            append(partition, count)
        partition.delete_records(1)
        for epoch, offset in ((-1, 9), (3, 2), (6, 5), (3, 1), (6, 0), (2, 1)):
            assert diverging_from(wanted(offset, last_fetched_epoch=epoch), partition) is None
        for epoch, offset, ends in (
            (0, 2, (0, 1)),
            (3, 3, (3, 2)),
            (4, 2, (3, 2)),
            (5, 1, (3, 2)),
            (6, 6, (6, 5)),
            (2, 2, (2, 1)),
        ):
            told = diverging_from(wanted(offset, last_fetched_epoch=epoch), partition)
            assert told is not None and (told.error_code, told.records) == (0, b"")
            assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == ends
            assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (5, 5, 1)
            assert told.aborted_transactions is None
        told = diverging_from(wanted(1, last_fetched_epoch=7), partition)
        assert told is not None and told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (told.diverging_epoch.epoch, told.high_watermark) == (-1, -1)

    in_a_node(story, tmp_path)


def test_what_a_client_of_a_session_knows_already(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        append(partition, 3)
        at_end = wanted(3)
        assert not has_nothing_new(at_end, partition, False), "it was told nothing yet"
        told = refusal_of(at_end, ErrorCode.NONE)
        told.high_watermark, told.log_start_offset = 3, 0
        assert take_note(at_end, told)
        assert has_nothing_new(at_end, partition, False) and not take_note(at_end, told)
        for offset in (2, 4):
            other = wanted(offset)
            take_note(other, told)
            assert not has_nothing_new(other, partition, False)
        partition.delete_records(1)
        assert not has_nothing_new(at_end, partition, False)
        told.log_start_offset = 1
        assert take_note(at_end, told) and has_nothing_new(at_end, partition, False)
        assert take_note(at_end, refusal_of(at_end, ErrorCode.OFFSET_OUT_OF_RANGE))
        assert not has_nothing_new(at_end, partition, False), "after an error all is told anew"
        assert take_note(at_end, told)
        told.records = b"r"
        assert take_note(at_end, told), "records are always news"
        told.records, told.diverging_epoch.epoch = b"", 0
        assert take_note(at_end, told) and take_note(at_end, told)

    in_a_node(story, tmp_path)


def test_what_is_new_is_what_its_reader_may_see(tmp_path: Path) -> None:
    """Who reads what is undecided has more to read than who waits for what is committed; and nothing is nothing."""

    async def story(node: Services) -> None:
        first, empty = partitions_of(node)
        append(first, 2)
        first.append(memoryview(in_transaction(7, 0, 0)), transactional_id="x", verification=False, now_ms=NOW_MS)
        await node.group_commit.wait_until_idle()
        assert (first.last_stable_offset, first.high_watermark) == (2, 3)
        for partition, end in ((first, 2), (first, 3), (empty, 0)):
            at_end = wanted(end)
            told = refusal_of(at_end, ErrorCode.NONE)
            told.high_watermark, told.log_start_offset = partition.high_watermark, 0
            take_note(at_end, told)
            for read_committed in (False, True):
                is_all = end == partition.visible_end(read_committed=read_committed)
                assert has_nothing_new(at_end, partition, read_committed) is is_all

    in_a_node(story, tmp_path)


def test_each_field_of_what_was_read(tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        first, _ = partitions_of(node)
        append(first, 2)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=LARGE,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=LARGE)]
                )
            ],
        )
        for isolation in (0, 1):
            request.isolation_level = isolation
            (topic,) = (await ask(node, request, 12)).responses
            (data,) = topic.partitions
            assert (topic.topic, data.partition_index, data.error_code) == ("t", 0, 0)
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)
            assert data.aborted_transactions == ([] if isolation else None)
            assert (data.diverging_epoch.epoch, data.preferred_read_replica) == (-1, -1)
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (-1, -1)

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("isolation", [-1, 2])
def test_an_isolation_that_nobody_knows(isolation: int, tmp_path: Path) -> None:
    async def story(node: Services) -> None:
        append(partitions_of(node)[0])
        request = FetchRequest(
            max_wait_ms=3_600_000,
            min_bytes=1,
            session_epoch=-1,
            isolation_level=isolation,
            topics=[
                FetchTopic(
                    topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=LARGE)]
                )
            ],
        )
        (topic,) = (await ask(node, request, 12)).responses
        assert [(one.error_code, one.high_watermark) for one in topic.partitions] == [(ErrorCode.INVALID_REQUEST, -1)]

    in_a_node(story, tmp_path)


def test_who_leads_is_told_with_its_address(tmp_path: Path) -> None:
    """KIP-951: to a client of an earlier epoch that may not know where the leader of this one is."""

    async def story(node: Services) -> None:
        partition = partitions_of(node)[0]
        partition.leader_epoch = 5
        endpoints_here = {"PLAINTEXT": Endpoint("PLAINTEXT", "broker.example", 4001)}
        node = replace(node, nodes=OneNode(node.node_id, 5, endpoints_here, None))
        here = NodeEndpoint(node_id=node.node_id, host="broker.example", port=4001)
        nobody = LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
        leader = LeaderIdAndEpoch(leader_id=node.node_id, leader_epoch=5)
        for version, epoch, told, endpoints in ((15, 4, nobody, []), (16, 4, leader, [here]), (16, 6, nobody, [])):
            one = FetchPartition(partition=0, fetch_offset=0, current_leader_epoch=epoch, partition_max_bytes=LARGE)
            asked = FetchTopic(topic_id=partition.topic_id, partitions=[one])
            answer = await ask(
                node, FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[asked]), version
            )
            (data,) = answer.responses[0].partitions
            assert (data.error_code, data.current_leader) == (FENCED if epoch < 5 else AHEAD, told)
            assert answer.node_endpoints == endpoints

    in_a_node(story, tmp_path)


@pytest.mark.parametrize("version", [11, 12])
def test_partitions_stand_in_the_answer_as_they_were_read(tmp_path: Path, version: int) -> None:
    """Two of one topic with another's between them are not brought together: what came although it is larger than
    `max_bytes` was read first (KIP-74), and stands first."""

    async def story(node: Services) -> None:
        places = [("t", 0), ("u", 0), ("t", 1)]
        topics = [
            FetchTopic(topic=name, partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)])
            for name, index in places
        ]
        answer = await ask(node, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=topics), version)
        told = [(topic.topic, one.partition_index) for topic in answer.responses for one in topic.partitions]
        assert told == places

    in_a_node(story, tmp_path)
