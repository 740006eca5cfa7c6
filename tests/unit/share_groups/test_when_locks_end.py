"""Locks of several lengths in one share partition: each ends when it is its turn. And what comes back often."""

from dataclasses import replace
from typing import Any

from protocol.errors import ErrorCode
from tests.unit.share_groups.rig import ACCEPT, RELEASE, Member, ShareNode, in_a_share_node

LONG_MS = 3_600_000


async def taken(node: ShareNode, *locks_ms: int) -> Member:
    """One record for each of these times, all with one member."""
    ada = Member(node, "ada")
    assert await ada.fetch() == []
    await node.quiet()
    node.append(*[1] * len(locks_ms))
    for offset, lock_ms in enumerate(locks_ms):
        node.settings = replace(node.settings, record_lock_duration_ms=lock_ms)
        assert await ada.fetch(max_records=1, batch_size=1) == [(offset, offset, 1)]
    return ada


def test_a_shorter_lock_ends_before_a_longer_one_that_was_there_first(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await taken(node, LONG_MS, 40), Member(node, "bob", 2)
        assert await bob.fetch(max_wait_ms=10_000) == [(1, 1, 2)]
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path)


def test_after_one_lock_the_next_to_end_is_waited_for(tmp_path: Any) -> None:
    async def story(node: ShareNode) -> None:
        ada, bob = await taken(node, LONG_MS, 40, 400), Member(node, "bob", 2)
        node.settings = replace(node.settings, record_lock_duration_ms=LONG_MS)
        assert await bob.fetch(max_wait_ms=10_000) == [(1, 1, 2)]
        assert await bob.fetch(max_wait_ms=10_000) == [(2, 2, 2)]
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path)


def test_one_record_that_came_back_often_makes_its_batch_one_for_few(tmp_path: Any) -> None:
    """The others of it may be what that record is: they wait for a fetch of their own."""

    async def story(node: ShareNode) -> None:
        ada = Member(node, "ada")
        await ada.fetch()
        await node.quiet()
        node.append(2, 4)
        assert await ada.fetch(batch_size=2) == [(0, 1, 1), (2, 5, 1)]
        for count in (2, 3):
            assert await ada.say((2, 3, RELEASE)) is ErrorCode.NONE
            assert await ada.fetch() == [(2, 3, count)]
        assert await ada.say((0, 1, RELEASE), (2, 5, RELEASE)) is ErrorCode.NONE
        assert await ada.fetch() == [(0, 1, 2)]

    in_a_share_node(story, tmp_path)


def test_what_is_said_of_a_record_that_was_lost_is_not_of_the_one_that_is_handed_out_with_the_answer(
    tmp_path: Any,
) -> None:
    """As in Kafka, acknowledgements are of what the member had before: else it would be told that a record is
    accepted, and handed it once more."""

    async def story(node: ShareNode) -> None:
        ada = await taken(node, LONG_MS)
        assert await ada.say((0, 0, RELEASE)) is ErrorCode.NONE
        answer = await ada.request((0, 0, ACCEPT))
        (found,) = answer.responses[0].partitions
        assert found.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
        assert [(one.first_offset, one.delivery_count) for one in found.acquired_records] == [(0, 2)]
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE

    in_a_share_node(story, tmp_path)
