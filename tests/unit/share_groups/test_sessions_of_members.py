"""Sessions of members of share groups: their epochs, their ends, and that nothing of them stays."""

import asyncio
from typing import Any

import pytest

from broker.partitions.share.settings import StartAt
from protocol.errors import ErrorCode
from protocol.messages.share.fetch import FetchPartition, FetchTopic, ForgottenTopic
from tests.unit.share_groups.rig import ACCEPT, Member, ShareNode, in_a_share_node


async def refused(member: Member, *acks: Any, **fields: Any) -> ErrorCode:
    answer = await member.request(*acks, **fields)
    assert answer.responses == [] and answer.acquisition_lock_timeout_ms == 0
    return ErrorCode(answer.error_code)


def test_requests_of_a_session_come_in_order(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        assert await refused(ada, share_session_epoch=1) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await ada.say(share_session_epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await refused(ada, (0, 0, ACCEPT)) is ErrorCode.INVALID_REQUEST
        assert await ada.fetch() == []
        assert await refused(ada, share_session_epoch=2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ada.say(share_session_epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ada.say(share_session_epoch=2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ada.say() is ErrorCode.NONE
        assert await ada.fetch() == []

    in_a_share_node(story, tmp_path)


def test_the_epoch_after_the_largest_is_the_first_after_the_beginning(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, largest = Member(node, "ada"), 0x7FFFFFFF
        assert await ada.fetch() == []
        node.share_sessions.find("g", "ada").epoch = ada.epoch = largest
        assert await ada.fetch() == []
        ada.epoch = 1
        assert await ada.fetch() == []

    in_a_share_node(story, tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"share_acquire_mode": 2},
        {"is_renew_ack": True},
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        assert await refused(Member(node, "ada"), **fields) is ErrorCode.INVALID_REQUEST
        for name in ("", "m" * 37):
            assert await refused(Member(node, name)) is ErrorCode.INVALID_REQUEST
        assert len(node.share_sessions) == 0

    in_a_share_node(story, tmp_path)


@pytest.mark.parametrize("how", ["its last request", "its last acknowledgement", "its connection"])
def test_a_session_that_ends_gives_back_what_its_member_has(how: str, tmp_path: Any) -> None:
    """With the last of its group its share partitions leave memory."""

    async def story(node: ShareNode) -> None:
        ada, bob = Member(node, "ada", 1), Member(node, "bob", 2)
        assert await ada.fetch() == await bob.fetch() == []
        node.append(3)
        assert await ada.fetch(max_wait_ms=10_000) == [(0, 2, 1)]
        parked = asyncio.create_task(bob.fetch(max_wait_ms=10_000))
        if how == "its connection":
            node.share_sessions.connection_closed(1)
        elif how == "its last request":
            answer = await ada.request((0, 0, ACCEPT), share_session_epoch=-1)
            assert answer.responses[0].partitions[0].acknowledge_error_code == 0
        else:
            assert await ada.say((0, 0, ACCEPT), share_session_epoch=-1) is ErrorCode.NONE
        first = 0 if how == "its connection" else 1
        assert await parked == [(first, 2, 2)]
        assert (len(node.share_sessions), len(node.share_partitions)) == (1, 1)
        watching = len(node.partition._visibility._watchers)
        await bob.leave()
        assert (len(node.share_sessions), len(node.share_partitions), node.share_sessions.partitions) == (0, 0, 0)
        assert len(node.partition._visibility._watchers) == watching - 1
        assert node.persister.kept["g", node.partition.topic_id, 0][2] == (0, 2)

    in_a_share_node(story, tmp_path)


def test_a_fetch_that_waits_ends_with_its_session(tmp_path: Any) -> None:
    """It hands nothing to a client that has gone."""

    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        await ada.fetch()
        parked = asyncio.create_task(ada.request(max_wait_ms=10_000))
        await asyncio.sleep(0)
        node.share_sessions.connection_closed(1)
        node.append(1)
        assert (await parked).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert node.persister.kept == {}

    in_a_share_node(story, tmp_path)


def test_there_is_room_for_so_many_sessions(tmp_path: Any) -> None:
    """Who finds none waits as long as it would have for records."""

    async def story(node: ShareNode) -> None:
        node.slots = 1
        ada, bob = Member(node, "ada"), Member(node, "bob")
        await ada.fetch()
        assert await refused(bob, max_wait_ms=1) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
        ada.epoch = 0
        await ada.fetch()
        await ada.leave()
        assert await bob.fetch() == []
        node.slots = 5
        many = FetchTopic(
            topic_id=node.partition.topic_id,
            partitions=[FetchPartition(partition_index=one, acknowledgement_batches=[]) for one in range(101)],
        )
        assert await refused(bob, topics=[many], max_wait_ms=1) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
        await node.quiet()
        assert (len(node.share_sessions), node.share_sessions.partitions) == (0, 0)

    in_a_share_node(story, tmp_path)


def test_partitions_come_and_go_in_a_session(tmp_path: Any) -> None:
    """An answer tells of those that have something to tell; the first one of all."""

    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        unknown, topic_id = b"\x01" * 16, node.partition.topic_id
        wanted = [
            FetchTopic(topic_id=one, partitions=[FetchPartition(partition_index=index, acknowledgement_batches=[])])
            for one, index in ((topic_id, 0), (topic_id, 9), (unknown, 0))
        ]
        errors = {(topic_id, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (unknown, 0): ErrorCode.UNKNOWN_TOPIC_ID}
        for expected in ({(topic_id, 0): 0} | errors, errors):
            answer = await ada.request(topics=wanted)
            told = {(one.topic_id, p.partition_index): p.error_code for one in answer.responses for p in one.partitions}
            assert told == expected
        node.append(1)
        assert (await ada.request(topics=[], forgotten_topics_data=wanted_no_more(topic_id))).responses == []
        assert await ada.fetch(topics=wanted[:1], max_wait_ms=10_000) == [(0, 0, 1)]

    in_a_share_node(story, tmp_path)


def wanted_no_more(topic_id: bytes) -> Any:
    return [
        ForgottenTopic(topic_id=topic_id, partitions=[0, 9]),
        ForgottenTopic(topic_id=b"\x01" * 16, partitions=[0]),
    ]


def test_what_nobody_has_initialised_cannot_be_read(tmp_path: Any) -> None:
    """Each who asks is told, and the next asks anew."""

    async def story(node: ShareNode) -> None:
        node.persister.refusals += [ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH]
        ada = Member(node, "ada")
        for error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER):
            answer = await ada.request(max_wait_ms=10_000)
            assert answer.responses[0].partitions[0].error_code == error
        answer = await ada.request()
        assert [(one.partition_index, one.error_code) for one in answer.responses[0].partitions] == [
            (0, ErrorCode.NONE)
        ]
        assert (await ada.request()).responses == [], "that the error is over is told once"
        await node.quiet()
        assert (node.persister.reads, len(node.share_partitions)) == (3, 1)

    in_a_share_node(story, tmp_path)


def test_who_keeps_the_state_is_waited_for(tmp_path: Any) -> None:
    """Kafka's consumers end with COORDINATOR_NOT_AVAILABLE of a partition."""

    async def story(node: ShareNode) -> None:
        passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
        node.persister.refusals += passing
        ada = Member(node, "ada")
        node.append(1)
        assert await ada.fetch(max_wait_ms=10_000) == [(0, 0, 1)]
        node.persister.refusals += passing
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE
        assert node.persister.refusals == []

    in_a_share_node(story, tmp_path)


def test_a_group_goes_on_when_a_topic_is_deleted(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        await ada.fetch()
        node.append(2)
        assert await ada.fetch(max_wait_ms=10_000) == [(0, 1, 1)]
        topic_id = node.partition.topic_id
        node.partition.discard()
        assert len(node.share_partitions) == 0
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic_id == node.partition.topic_id

    in_a_share_node(story, tmp_path)


@pytest.mark.parametrize(("start_at", "first"), [(StartAt.EARLIEST, 0), (StartAt.LATEST, 3), (StartAt.TIMESTAMP, 1)])
def test_a_group_begins_where_it_is_told_to(start_at: StartAt, first: int, tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        for ago_ms in (100_000, 1_000, 0):
            node.append(1, timestamp_ms=node.environment.wall_ms() - ago_ms)
        ada = Member(node, "ada")
        await ada.fetch()
        await node.quiet()
        node.append(1)
        assert await ada.fetch(max_wait_ms=10_000) == [(first, 3, 1)]

    in_a_share_node(story, tmp_path, start_at=start_at, back_ms=50_000)


def test_a_member_waits_until_there_is_as_much_as_it_wants(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        await ada.fetch()
        parked = asyncio.create_task(ada.fetch(max_wait_ms=10_000, min_bytes=500))
        node.append(1, value=b"v" * 100)
        await asyncio.sleep(0.01)
        assert not parked.done()
        node.append(1, value=b"v" * 400)
        assert await parked == [(0, 1, 1)]

    in_a_share_node(story, tmp_path)


def test_a_start_before_the_log_is_the_start_of_the_log(tmp_path: Any) -> None:
    """As in Kafka: of the negative ones, -1 alone leaves it to the group's settings."""

    async def story(node: ShareNode) -> None:
        node.persister.starts["g", node.partition.topic_id, 0] = -5
        node.append(3)
        assert await Member(node, "ada").fetch(max_wait_ms=10_000) == [(0, 2, 1)]

    in_a_share_node(story, tmp_path, start_at=StartAt.LATEST)


def test_a_session_does_not_outlive_a_connection_that_was_lost_before_it_began(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        ada.connection.is_lost = True
        await ada.fetch()
        assert len(node.share_sessions) == 0

    in_a_share_node(story, tmp_path)


def test_what_others_have_stays_theirs_when_a_member_leaves(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob, eve = (Member(node, name, number) for number, name in enumerate(("ada", "bob", "eve")))
        for member in (ada, bob, eve):
            assert await member.fetch() == []
            await node.quiet()
        node.append(2, 2)
        assert await ada.fetch(max_records=2) == [(0, 1, 1)]
        assert await bob.fetch(max_records=2) == [(2, 3, 1)]
        await ada.leave()
        assert await eve.fetch() == [(0, 1, 2)]
        assert await bob.say((2, 3, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path)
