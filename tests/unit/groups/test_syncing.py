"""SyncGroup and Heartbeat: assignments go round, and every wrong identity gets the error for it."""

import pytest

from protocol.errors import ErrorCode
from tests.unit.groups.story import SESSION_MS, Story, joined, synced


def completing(count: int = 2) -> tuple[Story, list[str]]:
    """A group whose leader has yet to assign."""
    story = Story()
    ids = [story.new_member() for _ in range(count)]
    for member in ids:
        story.join(member)
    story.tick()
    assert story.state == "CompletingRebalance"
    return story, ids


def test_followers_wait_for_the_leader() -> None:
    story, (leader, follower) = completing()
    waiting = story.sync(follower, 1)
    assert waiting.waiting
    story.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert synced(waiting).assignment == b"F"
    assert (synced(waiting).protocol_type, synced(waiting).protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("last", ["leader", "follower"])
def test_when_all_have_synced_nothing_is_waited_for_but_their_sessions(last: str) -> None:
    story = Story()
    ids = [story.new_member() for _ in range(2)]
    for member in ids:
        story.join(member, rebalance_ms=SESSION_MS // 2)
    story.tick()
    assert story.shard.machine.next_deadline_ms() == story.time.now_ms() + SESSION_MS // 2
    for member in ids if last == "follower" else reversed(ids):
        story.sync(member, 1, {})
    assert story.state == "Stable"
    assert story.shard.machine.next_deadline_ms() == story.time.now_ms() + SESSION_MS
    story.leave(*ids)
    assert story.state == "Empty"
    # What is left is the next look for offsets that have expired.
    assert (
        story.shard.machine.next_deadline_ms()
        == story.time.now_ms() + story.settings.offsets_retention_check_interval_ms
    )


def test_a_follower_that_syncs_late_finds_its_assignment() -> None:
    story, (leader, follower) = completing()
    assert synced(story.sync(leader, 1, {leader: b"L", follower: b"F"})).assignment == b"L"
    assert synced(story.sync(follower, 1)).assignment == b"F"
    assert synced(story.sync(follower, 1)).assignment == b"F", "and again"


def test_a_member_without_an_assignment_gets_empty_bytes() -> None:
    """Never null: clients read on where a null would end."""
    story, (leader, follower) = completing()
    waiting = story.sync(follower, 1)
    story.sync(leader, 1, {leader: b"L", "ghost": b"nobody"})
    assert synced(waiting).assignment == b""
    assert synced(waiting).error_code == ErrorCode.NONE


def test_what_a_sync_says_of_the_protocol_must_be_right() -> None:
    """KIP-559; a client that says nothing is believed."""
    story, (leader, _) = completing()
    wrong = [
        story.sync(leader, 1, {}, protocol_type="connect"),
        story.sync(leader, 1, {}, protocol_type="consumer", protocol="sticky"),
    ]
    assert {synced(ticket).error_code for ticket in wrong} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    right = story.sync(leader, 1, {}, protocol_type="consumer", protocol="range")
    assert synced(right).error_code == ErrorCode.NONE


def test_wrong_identities() -> None:
    story, (leader, follower) = completing()
    assert synced(story.sync("ghost", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert synced(story.sync(leader, 2)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert synced(story.sync(leader, 0)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert synced(story.sync(leader, 1, instance="i")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert synced(story.sync(leader, 1, group="other")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat("ghost", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(follower, 0) == ErrorCode.ILLEGAL_GENERATION
    assert story.heartbeat(follower, 1) == ErrorCode.NONE, "heartbeats begin before the assignment"


def test_a_sync_during_a_rebalance_is_sent_back() -> None:
    story = Story()
    first, second = story.stable(2)
    story.join(first)
    assert synced(story.sync(second, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_in_an_empty_group_is_of_nobody() -> None:
    story = Story()
    (member,) = story.stable()
    story.leave(member)
    assert synced(story.sync(member, 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_newcomer_while_the_leader_computes_sends_waiting_syncs_back() -> None:
    story, (leader, follower) = completing()
    waiting = story.sync(follower, 1)
    newcomer = story.join(story.new_member())
    assert synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [newcomer, story.join(leader), story.join(follower)]
    assert {joined(ticket).generation_id for ticket in tickets} == {2}


def test_a_member_that_repeats_its_sync_is_answered_once_each() -> None:
    story, (leader, follower) = completing()
    lost = story.sync(follower, 1)
    again = story.sync(follower, 1)
    assert synced(lost).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    story.sync(leader, 1, {follower: b"F"})
    assert synced(again).assignment == b"F"


def test_a_repeated_join_gets_the_same_generation() -> None:
    story, (leader, follower) = completing()
    assert joined(story.join(leader)).generation_id == 1
    assert len(joined(story.join(leader)).members) == 2
    assert joined(story.join(follower)).generation_id == 1
    assert story.state == "CompletingRebalance"


def test_assignments_are_returned_only_once_durable() -> None:
    story = Story(durable=False)
    member = story.join(version=3)
    story.tick()
    assert member.waiting, "the first record of the group is not durable yet"
    story.log.sync()
    member_id = joined(member).member_id
    sync = story.sync(member_id, 1, {member_id: b"A"})
    assert sync.waiting
    story.log.sync()
    assert synced(sync).assignment == b"A"


def test_a_generation_the_log_refuses_is_tried_again() -> None:
    story, (leader, follower) = completing()
    waiting = story.sync(follower, 1)
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    refused = story.sync(leader, 1, {leader: b"L"})
    assert refused.errors == waiting.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert story.state == "CompletingRebalance"
    story.sync(leader, 1, {leader: b"L"})
    assert story.state == "Stable"
