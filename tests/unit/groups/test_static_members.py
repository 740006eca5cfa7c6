"""Static members (KIP-345): an instance id is a place in the group that survives restarts of its process."""

import pytest

from protocol.errors import ErrorCode
from tests.unit.groups.story import REBALANCE_MS, SESSION_MS, Story, joined, subscription, synced

PROTOCOLS = (("range", subscription("t")),)


def static_group(count: int = 2) -> tuple[Story, list[str]]:
    """A stable group of instances i0, i1, …"""
    story = Story()
    tickets = [story.join(instance=f"i{index}", protocols=PROTOCOLS) for index in range(count)]
    story.tick()
    ids = [joined(ticket).member_id for ticket in tickets]
    shares = {member: f"share{index}".encode() for index, member in enumerate(ids)}
    for index in reversed(range(count)):
        story.sync(ids[index], 1, shares if index == 0 else None, instance=f"i{index}")
    assert story.state == "Stable"
    return story, ids


def test_a_static_member_joins_in_one_step_with_its_instance() -> None:
    _, ids = static_group()
    assert ids == ["i0-id1", "i1-id2"]


def test_a_restarted_follower_takes_its_place_back_without_a_rebalance() -> None:
    story, ids = static_group()
    back = joined(story.join(instance="i1", protocols=PROTOCOLS))
    assert (back.error_code, back.generation_id, back.leader) == (0, 1, ids[0])
    assert back.member_id not in ids
    assert back.members == []
    assert synced(story.sync(back.member_id, 1, instance="i1")).assignment == b"share1"
    assert story.heartbeat(ids[0], 1, instance="i0") == ErrorCode.NONE
    assert [member.member_id for member in story.describe().members] == [ids[0], back.member_id]


def test_a_restarted_leader_skips_the_assignment() -> None:
    """v9, KIP-814: it is still the leader and sees everybody, but the assignment stands."""
    story, ids = static_group()
    back = joined(story.join(instance="i0", protocols=PROTOCOLS))
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert [member.group_instance_id for member in back.members] == ["i0", "i1"]
    assert synced(story.sync(back.member_id, 1, instance="i0")).assignment == b"share0"
    assert story.heartbeat(ids[1], 1, instance="i1") == ErrorCode.NONE


def test_an_older_restarted_leader_takes_itself_for_a_follower() -> None:
    story, ids = static_group()
    back = joined(story.join(instance="i0", protocols=PROTOCOLS, version=8))
    assert not back.skip_assignment
    assert back.leader == ids[0]
    assert back.members == []


def test_the_one_that_was_replaced_is_fenced() -> None:
    story, ids = static_group()
    story.join(instance="i1", protocols=PROTOCOLS)
    assert story.heartbeat(ids[1], 1, instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert synced(story.sync(ids[1], 1, instance="i1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert joined(story.join(ids[1], instance="i1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.commit(1, generation=1, member=ids[1], instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert story.leave(instances=[(ids[1], "i1")]) == [ErrorCode.FENCED_INSTANCE_ID]
    assert story.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_wait_under_the_old_id_is_fenced_at_once() -> None:
    story, ids = static_group()
    waiting = story.join(ids[0], instance="i0", protocols=PROTOCOLS)
    assert waiting.waiting
    usurper = story.join(instance="i0", protocols=PROTOCOLS)
    assert joined(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    story.join(ids[1], instance="i1", protocols=PROTOCOLS)
    assert joined(usurper).generation_id == 2


def test_a_replacement_while_the_leader_computes_starts_over() -> None:
    story = Story()
    tickets = [story.join(instance=f"i{index}") for index in range(2)]
    story.tick()
    ids = [joined(ticket).member_id for ticket in tickets]
    waiting = story.sync(ids[1], 1, instance="i1")
    back = story.join(instance="i1")
    assert synced(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.state == "PreparingRebalance"
    story.join(ids[0], instance="i0")
    assert joined(back).generation_id == 2


def test_a_replacement_that_changes_the_protocol_makes_a_rebalance() -> None:
    story = Story()
    both = (("range", b""), ("sticky", b""))
    first = story.join(instance="i0", protocols=both)
    story.tick()
    member = joined(first).member_id
    story.sync(member, 1, {}, instance="i0")
    back = story.join(instance="i0", protocols=(("sticky", b""), ("range", b"")))
    assert joined(back).generation_id == 2
    assert joined(back).protocol_name == "sticky"


def test_static_members_keep_their_place_through_a_rebalance_they_miss() -> None:
    story, ids = static_group()
    newcomer = story.join(story.new_member(), protocols=PROTOCOLS)
    leader = story.join(ids[0], instance="i0", protocols=PROTOCOLS)
    story.pass_time(REBALANCE_MS, ids[1])
    assert joined(newcomer).generation_id == 2
    assert [member.group_instance_id for member in joined(leader).members] == ["i0", "i1", None]


def test_a_static_leader_that_misses_a_rebalance_hands_over() -> None:
    story, ids = static_group()
    follower = story.join(ids[1], instance="i1", protocols=(("range", b"new"),))
    story.pass_time(REBALANCE_MS, ids[0])
    assert joined(follower).leader == ids[1]
    assert len(joined(follower).members) == 2


def test_a_session_ends_for_static_members_too() -> None:
    story, ids = static_group()
    story.time.advance(SESSION_MS - 1)
    story.heartbeat(ids[0], 1, instance="i0")
    story.time.advance(1)
    assert [member.group_instance_id for member in story.describe().members] == ["i0"]
    assert story.state == "PreparingRebalance"


def test_a_rebalance_that_no_static_member_joins_goes_on_waiting() -> None:
    story, ids = static_group()
    dynamic = story.new_member()
    story.join(dynamic, protocols=PROTOCOLS)
    story.leave(dynamic)
    story.pass_time(2 * REBALANCE_MS, *ids)
    assert story.state == "PreparingRebalance"
    tickets = [story.join(ids[index], instance=f"i{index}", protocols=PROTOCOLS) for index in range(2)]
    assert {joined(ticket).generation_id for ticket in tickets} == {2}


@pytest.mark.parametrize("timeout_ms", [SESSION_MS // 4, 0])
def test_static_members_that_do_not_come_are_waited_for_as_long_as_they_say(timeout_ms: int) -> None:
    """And never in a circle."""
    story, _ = static_group(1)
    story.join(instance="i0", protocols=PROTOCOLS, rebalance_ms=timeout_ms)
    dynamic = story.new_member()
    story.join(dynamic, protocols=PROTOCOLS, rebalance_ms=timeout_ms)
    story.leave(dynamic)
    for _ in range(2):
        story.time.advance(timeout_ms)
        assert story.state == "PreparingRebalance"
        assert story.shard.machine.next_deadline_ms() == story.time.now_ms() + max(timeout_ms, 1)


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    story, _ = static_group()
    assert story.leave(instances=[("", "i1"), ("", "nobody")]) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert [member.group_instance_id for member in story.describe().members] == ["i0"]


def test_a_replacement_is_remembered_after_a_restart() -> None:
    story, ids = static_group()
    back = joined(story.join(instance="i1", protocols=PROTOCOLS)).member_id
    story.restart()
    assert story.heartbeat(back, 1, instance="i1") == ErrorCode.NONE
    assert story.heartbeat(ids[1], 1, instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert synced(story.sync(back, 1, instance="i1")).assignment == b"share1"


def test_a_static_member_that_came_back_has_a_session() -> None:
    """Under its new id; the deadline of the old one is gone."""
    story, ids = static_group()
    back = joined(story.join(instance="i1", protocols=PROTOCOLS)).member_id
    story.pass_time(SESSION_MS - 1, ids[0])
    assert back in [member.member_id for member in story.describe().members]
    story.pass_time(1, ids[0])
    assert story.heartbeat(back, 1, instance="i1") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_came_back_says_anew_how_long_its_session_is() -> None:
    story, ids = static_group()
    back = joined(story.join(instance="i1", protocols=PROTOCOLS, session_ms=3 * SESSION_MS)).member_id
    story.pass_time(3 * SESSION_MS - 1, ids[0])
    assert back in [member.member_id for member in story.describe().members]
    story.time.advance(1)
    assert story.heartbeat(back, 1, instance="i1") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_overlong_member_id_of_an_instance_is_refused() -> None:
    """Kafka's code. It has taken the member in by then, and fails every other request for the group."""
    story = Story()
    assert joined(story.join(instance="x" * 32_767)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    story.tick()
    assert story.describe().members == []
    ticket = story.join(instance="x" * (32_766 - len("id2")))
    story.tick()
    assert len(joined(ticket).member_id) == 32_767
