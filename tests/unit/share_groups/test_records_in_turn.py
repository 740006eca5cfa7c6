"""Records of a share partition: who is handed which, what is said of them, and what becomes of them then."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from broker.partitions.share.acquiring import MOST_AT_ONCE
from broker.partitions.share.states import RecordState
from coordinator.machine import Marker
from protocol.errors import ErrorCode
from protocol.messages.share import acknowledge
from tests.unit.share_groups.rig import ACCEPT, REJECT, RELEASE, RENEW, Member, ShareNode, in_a_share_node

LOCK_MS = 40


async def begun(node: ShareNode, *names: str) -> list[Member]:
    """Members with sessions, of a share partition that has read what is kept of it."""
    members = [Member(node, name, number) for number, name in enumerate(names)]
    for member in members:
        assert await member.fetch() == []
        await node.quiet()
    return members


def kept(node: ShareNode) -> dict[int, tuple[int, int]]:
    (states,) = node.persister.kept.values()
    return states


def test_a_record_is_handed_to_one_member_at_a_time(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(3, 2)
        assert await ada.fetch() == [(0, 4, 1)]
        assert await bob.fetch() == []
        assert await ada.say((0, 2, ACCEPT)) is ErrorCode.NONE
        node.append(1)
        assert await bob.fetch() == [(5, 5, 1)]
        assert await ada.say((3, 4, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch() == [(3, 4, 2)]
        acknowledged, available = (RecordState.ACKNOWLEDGED, 1), (RecordState.AVAILABLE, 1)
        assert kept(node) == dict.fromkeys(range(3), acknowledged) | dict.fromkeys((3, 4), available)

    in_a_share_node(story, tmp_path)


def test_what_is_handed_out_comes_with_its_batches_and_no_others(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2, 2, 2)
        assert await ada.fetch(max_records=2) == [(0, 1, 1)]
        answer = await bob.request(max_records=1)
        (partition,) = answer.responses[0].partitions
        data = b"".join(partition.records)
        assert int.from_bytes(data[:8]) == 2 and len(data) == 12 + int.from_bytes(data[8:12])
        assert answer.acquisition_lock_timeout_ms == 30_000

    in_a_share_node(story, tmp_path)


def test_batches_are_handed_out_whole_unless_a_member_is_strict(tmp_path: Any) -> None:
    """KIP-1206."""

    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(10, 10, 10, 10)
        assert await ada.fetch(max_records=15, batch_size=5) == [(0, 9, 1), (10, 19, 1)]
        assert await bob.fetch(max_records=4, share_acquire_mode=1) == [(20, 23, 1)]
        assert await bob.fetch(max_records=8, share_acquire_mode=1) == [(24, 29, 1), (30, 31, 1)]
        assert await ada.say((0, 9, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch(max_records=3, share_acquire_mode=1) == [(0, 2, 2)]
        assert await bob.fetch(max_records=1) == [(3, 9, 2)]

    in_a_share_node(story, tmp_path)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ((2, 3, ACCEPT), ErrorCode.INVALID_RECORD_STATE),  # another's
        ((1, 5, ACCEPT), ErrorCode.INVALID_REQUEST),  # beyond what was handed out
        ((7, 7, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((1, 0, ACCEPT), ErrorCode.INVALID_REQUEST),
        ((1, 1, []), ErrorCode.INVALID_REQUEST),
        ((1, 1, [1, 1, 1]), ErrorCode.INVALID_REQUEST),
        ((1, 1, [5]), ErrorCode.INVALID_REQUEST),
        ((1, 1, RENEW), ErrorCode.INVALID_REQUEST),  # without saying that it renews
        ((0, 1, ACCEPT), ErrorCode.INVALID_RECORD_STATE),  # twice
    ],
)
def test_what_cannot_be_changes_nothing(said: Any, error: ErrorCode, tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2, 2)
        assert await ada.fetch(max_records=1) == [(0, 1, 1)]
        assert await bob.fetch() == [(2, 3, 1)]
        assert await ada.say((0, 0, ACCEPT), said) is error
        assert node.persister.kept == {}
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path)


def test_a_record_that_was_delivered_too_often_is_archived(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(1, 1)
        for count in (1, 2):
            assert [one[2] for one in await ada.fetch(batch_size=1)] == [count, count]
            assert await ada.say((0, 0, RELEASE), (1, 1, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == []
        assert kept(node) == {0: (RecordState.ARCHIVED, 2), 1: (RecordState.ARCHIVED, 2)}

    in_a_share_node(story, tmp_path, delivery_count_limit=2)


def test_what_came_back_often_is_handed_out_few_at_a_time_and_alone_for_the_last_time(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(8)
        for count in (1, 2):
            assert await ada.fetch() == [(0, 7, count)]
            assert await ada.say((0, 7, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == [(0, 3, 3)]
        assert await ada.say((0, 3, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == [(0, 0, 4)]
        assert await ada.fetch() == [(1, 1, 4)]

    in_a_share_node(story, tmp_path, delivery_count_limit=4)


def test_a_lock_ends_and_the_record_is_anybodys(tmp_path: Any) -> None:
    """What waits for records is told."""

    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2)
        assert await ada.fetch() == [(0, 1, 1)]
        assert await bob.fetch(max_wait_ms=10_000) == [(0, 1, 2)]
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE

    in_a_share_node(story, tmp_path, record_lock_duration_ms=LOCK_MS)


def test_a_renewed_lock_lasts_longer(tmp_path: Any) -> None:
    """KIP-1222: the other record comes back meanwhile."""

    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(1, 1)
        assert await ada.fetch(batch_size=1) == [(0, 0, 1), (1, 1, 1)]
        node.settings = node.settings.__class__(start_at=node.settings.start_at, record_lock_duration_ms=60_000)
        assert await ada.say((0, 0, RENEW), is_renew_ack=True) is ErrorCode.NONE
        assert await bob.fetch(max_wait_ms=10_000) == [(1, 1, 2)]
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path, record_lock_duration_ms=LOCK_MS)


def test_a_group_may_be_kept_from_renewing(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(1)
        await ada.fetch()
        assert await ada.say((0, 0, RENEW), is_renew_ack=True) is ErrorCode.INVALID_RECORD_STATE

    in_a_share_node(story, tmp_path, renew_allowed=False)


def test_nobody_is_handed_what_is_being_written(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2)
        assert await ada.fetch() == [(0, 1, 1)]
        node.persister.may_write.clear()
        says = asyncio.create_task(ada.say((0, 1, RELEASE)))
        parked = asyncio.create_task(bob.fetch(max_wait_ms=10_000))
        await asyncio.sleep(0)
        again = Member(node, "ada")
        again.epoch = ada.epoch + 1
        assert await again.say((0, 1, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
        assert not parked.done()
        node.persister.may_write.set()
        assert await says is ErrorCode.NONE
        assert await parked == [(0, 1, 2)]

    in_a_share_node(story, tmp_path)


def test_what_was_not_written_is_its_members_again(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(2)
        assert await ada.fetch() == [(0, 1, 1)]
        node.persister.refusals.append(ErrorCode.MESSAGE_TOO_LARGE)
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await bob.fetch() == []
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE
        assert kept(node)[1] == (RecordState.ACKNOWLEDGED, 1)

    in_a_share_node(story, tmp_path)


def test_a_fenced_share_partition_begins_with_what_is_kept(tmp_path: Any) -> None:
    """An administrator has moved the group: what was in flight is forgotten."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(5)
        assert await ada.fetch() == [(0, 4, 1)]
        node.persister.epoch = 1
        node.persister.starts["g", node.partition.topic_id, 0] = 3
        assert await ada.say((0, 4, ACCEPT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await ada.fetch(max_wait_ms=10_000) == [(3, 4, 1)]
        assert (node.persister.reads, len(node.share_partitions)) == (2, 1)

    in_a_share_node(story, tmp_path)


def test_an_acknowledgement_is_kept_though_its_client_has_gone(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(2)
        await ada.fetch()
        node.persister.may_write.clear()
        says = asyncio.create_task(ada.say((0, 1, ACCEPT)))
        await asyncio.sleep(0)
        says.cancel()
        node.share_sessions.connection_closed(0)
        await asyncio.sleep(0)
        node.persister.may_write.set()
        await node.quiet()
        assert kept(node) == dict.fromkeys((0, 1), (RecordState.ACKNOWLEDGED, 1))
        assert len(node.share_partitions) == len(node.share_sessions) == 0

    in_a_share_node(story, tmp_path)


def test_what_was_acknowledged_before_a_restart_is_not_handed_out(tmp_path: Any) -> None:
    """What was acquired is, and counts as never delivered."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(2, 2, 2)
        assert await ada.fetch(batch_size=2) == [(0, 1, 1), (2, 3, 1), (4, 5, 1)]
        assert await ada.say((2, 3, ACCEPT), (4, 4, RELEASE), (5, 5, REJECT)) is ErrorCode.NONE
        assert node.persister.complete_count == 3
        node.share_partitions.let_go_group("g")
        node.append(1)
        assert await ada.fetch(max_wait_ms=10_000) == [(0, 1, 1), (4, 4, 2), (6, 6, 1)]

    in_a_share_node(story, tmp_path)


def test_records_of_aborted_transactions_are_nobodys(tmp_path: Any) -> None:
    """Where the group reads what is committed. Markers are handed out; members say that they are gaps."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(2, producer=(7, 0))
        node.append(1)
        assert await ada.fetch() == []
        node.partition.append_marker(Marker(7, 0, False, 0, 1), 1)
        node.commit()
        assert await ada.fetch() == [(2, 3, 1)]
        assert await ada.say((2, 3, [1, 0])) is ErrorCode.NONE
        assert node.persister.starts["g", node.partition.topic_id, 0] == 2

    in_a_share_node(story, tmp_path, read_committed=True)


def test_what_the_log_has_let_go_is_nobodys(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(4, 4)
        assert await ada.fetch() == [(0, 7, 1)]
        node.partition.delete_records(4)
        assert await ada.say((0, 7, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == [(4, 7, 2)]
        node.partition.delete_records(8)
        assert await ada.say((4, 7, ACCEPT)) is ErrorCode.NONE
        node.append(1)
        assert await ada.fetch() == [(8, 8, 1)]

    in_a_share_node(story, tmp_path)


def test_what_is_being_deleted_is_the_groups_until_that_is_written(tmp_path: Any) -> None:
    """Whoever leads the partition next may find it there: what was said of it counts, and nothing of it is skipped."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(4, 4)
        assert await ada.fetch() == [(0, 7, 1)]
        with mock.patch.object(type(node.partition.log), "written_start", 0, create=True):
            node.partition.delete_records(4)
            assert await ada.say((0, 1, ACCEPT), (2, 3, RELEASE)) is ErrorCode.NONE
            assert kept(node)[2] == (RecordState.AVAILABLE, 1)
            assert await ada.fetch() == []
        assert await ada.say((4, 7, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == [(4, 7, 2)]

    in_a_share_node(story, tmp_path)


def test_records_in_flight_are_bounded(tmp_path: Any) -> None:
    """Those that came back are handed out all the same."""

    async def story(node: ShareNode) -> None:
        ada, bob = await begun(node, "ada", "bob")
        node.append(*[2] * 6)
        assert await ada.fetch(batch_size=2) == [(0, 1, 1), (2, 3, 1), (4, 5, 1)]
        assert await bob.fetch() == []
        assert await ada.say((2, 3, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch() == [(2, 3, 2)]
        assert await bob.fetch() == []
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE
        assert await bob.fetch() == [(6, 7, 1)]

    in_a_share_node(story, tmp_path, max_record_locks=5)


def test_of_one_large_batch_so_many_records_are_handed_out(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(MOST_AT_ONCE + 10)
        assert await ada.fetch() == [(0, MOST_AT_ONCE - 1, 1)]
        types = [1, 2] * (MOST_AT_ONCE // 2)
        assert await ada.say((0, MOST_AT_ONCE - 1, types)) is ErrorCode.NONE
        assert len(await ada.fetch(max_records=5)) > 5

    in_a_share_node(story, tmp_path)


def test_who_led_the_partition_before_is_fenced(tmp_path: Any) -> None:
    """By the leader epoch that each read and each write names."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(2)
        await ada.fetch()
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE
        assert node.partition.leader_epoch >= 0
        assert node.persister.leader_epochs == [node.partition.leader_epoch] * 2

    in_a_share_node(story, tmp_path)


def test_of_a_partition_that_is_named_twice_the_last_counts(tmp_path: Any) -> None:
    """As in Kafka."""

    async def story(node: ShareNode) -> None:
        (ada,) = await begun(node, "ada")
        node.append(2)
        await ada.fetch()
        topics = [
            acknowledge.AcknowledgeTopic(
                topic_id=node.partition.topic_id,
                partitions=[
                    acknowledge.AcknowledgePartition(
                        partition_index=0,
                        acknowledgement_batches=[
                            acknowledge.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=kind)
                        ],
                    )
                ],
            )
            for kind in (RELEASE, ACCEPT)
        ]
        assert await ada.say(topics=topics) is ErrorCode.NONE
        assert kept(node) == dict.fromkeys((0, 1), (RecordState.ACKNOWLEDGED, 1))

    in_a_share_node(story, tmp_path)
