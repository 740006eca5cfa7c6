"""From one generation to the next: which members are awaited, for how long, and how many rebalances that makes."""

import pytest

from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import REBALANCE_MS, SESSION_MS, Story, joined, subscription, synced

PROTOCOLS = (("range", subscription("t")),)


def test_three_members_become_a_stable_group() -> None:
    story = Story()
    ids = story.stable(3)
    described = story.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [member.member_id for member in described.members] == ids
    assert [member.member_assignment for member in described.members] == [member.encode() for member in ids]
    assert {member.client_host for member in described.members} == {"/127.0.0.1"}
    assert [story.heartbeat(member, 1) for member in ids] == [ErrorCode.NONE] * 3


def test_a_new_member_makes_one_rebalance() -> None:
    story = Story()
    first, second = story.stable(2)
    third = story.new_member()
    assert story.heartbeat(first, 1) == ErrorCode.NONE
    newcomer = story.join(third)
    assert story.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.heartbeat(second, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [newcomer, story.join(first), story.join(second)]
    assert {joined(ticket).generation_id for ticket in tickets} == {2}
    assert story.state == "CompletingRebalance"


def test_a_member_that_does_not_rejoin_in_time_is_out() -> None:
    story = Story()
    first, second = story.stable(2)
    ticket = story.join(first)
    story.pass_time(REBALANCE_MS - 1, second)
    assert ticket.waiting
    story.time.advance(1)
    assert joined(ticket).generation_id == 2
    assert [member.member_id for member in joined(ticket).members] == [first]
    assert story.heartbeat(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    story = Story()
    patient = story.new_member()
    hasty = story.new_member()
    story.join(patient, rebalance_ms=100_000, protocols=PROTOCOLS)
    story.join(hasty, rebalance_ms=1_000, protocols=PROTOCOLS)
    story.tick()
    story.sync(hasty, 1)
    story.sync(patient, 1, {})
    ticket = story.join(hasty, rebalance_ms=1_000, protocols=(("range", b"new"),))
    story.pass_time(99_999, patient)
    assert ticket.waiting
    story.time.advance(1)
    assert joined(ticket).generation_id == 2


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    story = Story()
    leader, follower = story.stable(2)
    ticket = story.join(follower, protocols=(("range", b"new"),))
    story.heartbeat(leader, 1)
    story.time.advance(REBALANCE_MS)
    assert joined(ticket).leader == follower


def test_a_member_that_leaves_makes_the_others_join_again() -> None:
    story = Story()
    first, second = story.stable(2)
    assert story.leave(second) == [ErrorCode.NONE]
    assert story.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.heartbeat(second, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert joined(story.join(first)).generation_id == 2


def test_the_last_member_that_leaves_leaves_an_empty_group() -> None:
    story = Story()
    (member,) = story.stable()
    story.leave(member)
    described = story.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Empty", "consumer", "")
    assert described.members == []
    (again,) = story.stable()
    assert story.heartbeat(again, 3) == ErrorCode.NONE, "an empty generation counts"


def test_leaving_ends_a_rebalance_waiting_for_the_member() -> None:
    story = Story()
    first, second = story.stable(2)
    ticket = story.join(first)
    assert ticket.waiting
    story.leave(second)
    assert joined(ticket).generation_id == 2


def test_a_waiting_member_that_leaves_gets_a_response() -> None:
    story = Story()
    first, _ = story.stable(2)
    ticket = story.join(first)
    assert story.leave(first) == [ErrorCode.NONE]
    assert joined(ticket).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_and_rejoining_at_once_needs_no_timeout() -> None:
    """A consumer beyond max.poll.interval.ms leaves by itself and joins at once: two rebalances, no waiting."""
    story = Story()
    first, second = story.stable(2)
    story.leave(second)
    back = story.new_member()
    tickets = [story.join(first), story.join(back)]
    assert {joined(ticket).generation_id for ticket in tickets} == {2}
    assert story.time.now_ms() == Story().time.now_ms(), "no time has passed"


def test_an_id_given_back_disturbs_nobody() -> None:
    story = Story()
    (member,) = story.stable()
    pending = story.new_member()
    assert story.leave(pending) == [ErrorCode.NONE]
    assert story.heartbeat(member, 1) == ErrorCode.NONE
    assert story.state == "Stable"


def test_when_the_last_member_leaves_an_id_that_was_handed_out_is_not_waited_for() -> None:
    story = Story()
    (member,) = story.stable()
    pending = story.new_member()
    story.leave(member)
    story.tick()
    assert story.state == "Empty"
    ticket = story.join(pending)
    story.tick()
    assert joined(ticket).generation_id == 3


def test_an_id_nobody_comes_for_holds_a_rebalance_up_for_its_session_alone() -> None:
    story = Story()
    (leader,) = story.stable()
    story.new_member()
    ticket = story.join(leader)
    story.time.advance(SESSION_MS - 1)
    assert ticket.waiting
    story.time.advance(1)
    assert [member.member_id for member in joined(ticket).members] == [leader]


def test_a_session_ends_without_heartbeats() -> None:
    story = Story()
    first, second = story.stable(2)
    story.time.advance(SESSION_MS - 1)
    assert story.heartbeat(first, 1) == ErrorCode.NONE
    story.time.advance(1)
    assert story.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.heartbeat(second, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_clock_that_is_set_forward_ends_no_session() -> None:
    """Kafka's sessions go by a clock that nobody sets; here the leap is made good (docs/decisions/0012)."""
    story = Story()
    first, second = story.stable(2)
    joining = story.join(first)
    story.shard.machine.time_leapt(REBALANCE_MS * 60)
    story.time.advance(REBALANCE_MS * 60)
    assert joining.waiting and story.heartbeat(second, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    story.pass_time(REBALANCE_MS, second)
    assert [member.member_id for member in joined(joining).members] == [first]


def test_all_sessions_end_and_the_group_is_empty() -> None:
    story = Story()
    story.stable(3)
    story.time.advance(SESSION_MS)
    assert story.state == "Empty"


def test_waiting_for_the_others_excuses_from_heartbeats() -> None:
    story = Story()
    first, second = story.stable(2)
    ticket = story.join(first)
    story.heartbeat(second, 1)
    story.time.advance(SESSION_MS - 1)
    story.heartbeat(second, 1)
    story.time.advance(SESSION_MS - 1)
    assert ticket.waiting
    joined(story.join(second))
    assert [member.member_id for member in joined(ticket).members] == [first, second]


def test_a_new_member_whose_client_is_gone_is_given_up() -> None:
    """It cannot heartbeat while it waits for its first generation, so it gets five minutes."""
    story = Story()
    (leader,) = story.stable()
    ghost = story.join(story.new_member(), rebalance_ms=1_000_000, protocols=PROTOCOLS)
    story.pass_time(299_999, leader)
    assert ghost.waiting
    story.time.advance(1)
    assert joined(ghost).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert joined(story.join(leader)).generation_id == 2


def test_a_new_member_that_completes_a_generation_has_a_session() -> None:
    """Five minutes are for one that waits, and cannot heartbeat."""
    story = Story()
    (leader,) = story.stable()
    newcomer = story.new_member()
    story.leave(leader)
    leader = story.new_member()
    first = story.join(leader, protocols=PROTOCOLS)
    assert story.state == "PreparingRebalance" and first.waiting
    assert joined(story.join(newcomer, protocols=PROTOCOLS)).generation_id == joined(first).generation_id
    story.time.advance(SESSION_MS - 1)
    assert len(story.describe().members) == 2
    story.time.advance(1)
    assert story.describe().members == []


def test_members_that_never_fetch_their_assignment_are_out() -> None:
    story = Story()
    ids = [story.new_member() for _ in range(2)]
    for member in ids:
        story.join(member)
    story.tick()
    story.sync(ids[0], 1, {})
    story.pass_time(REBALANCE_MS - 1, *ids)
    assert story.state == "Stable"
    story.time.advance(1)
    assert story.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_replaced() -> None:
    story = Story()
    ids = [story.new_member() for _ in range(2)]
    for member in ids:
        story.join(member)
    story.tick()
    waiting = story.sync(ids[1], 1)
    story.pass_time(REBALANCE_MS - 1, *ids)
    assert waiting.waiting
    story.time.advance(1)
    assert synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(story.join(ids[1])).leader == ids[1]


def test_the_first_rebalance_may_wait_for_more_members() -> None:
    """KIP-134: each newcomer puts it off once more, up to the rebalance timeout."""
    story = Story(FixedGroupSettings(initial_rebalance_delay_ms=3_000))
    tickets = [story.join(story.new_member(), rebalance_ms=10_000)]
    for _ in range(2):
        story.time.advance(2_000)
        tickets.append(story.join(story.new_member(), rebalance_ms=10_000))
    story.time.advance(4_999)
    assert all(ticket.waiting for ticket in tickets)
    story.time.advance(1)
    assert {joined(ticket).generation_id for ticket in tickets} == {1}


def test_the_first_rebalance_waits_once_where_nobody_else_comes() -> None:
    """Also in a group that waited longer when it was new."""
    story = Story(FixedGroupSettings(initial_rebalance_delay_ms=3_000))
    both = [story.join(story.new_member(), rebalance_ms=10_000) for _ in range(2)]
    story.time.advance(6_000)
    story.leave(*(joined(ticket).member_id for ticket in both))
    assert story.state == "Empty"
    alone = story.join(story.new_member(), rebalance_ms=10_000)
    story.time.advance(2_999)
    assert alone.waiting
    story.time.advance(1)
    assert joined(alone).generation_id == 3


@pytest.mark.parametrize("timeout_ms", [10_000, 9_000, 7_500, 3_500, 3_000, 2_000])
def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout(timeout_ms: int) -> None:
    """But as long as it waits for anybody at all."""
    story = Story(FixedGroupSettings(initial_rebalance_delay_ms=3_000))
    first = story.join(story.new_member(), rebalance_ms=timeout_ms)
    ends_ms = story.time.now_ms() + max(timeout_ms, 3_000)
    while story.time.now_ms() < ends_ms - 500:
        story.time.advance(500)
        story.join(story.new_member(), rebalance_ms=timeout_ms)
    story.time.advance(499)
    assert first.waiting
    story.time.advance(1)
    assert joined(first).generation_id == 1


def test_an_empty_group_may_change_its_protocol_type() -> None:
    story = Story()
    (member,) = story.stable()
    story.leave(member)
    ticket = story.join(protocol_type="connect", version=3, protocols=(("p", b""),))
    story.tick()
    assert joined(ticket).protocol_type == "connect"


def test_an_administrator_removes_several_members_with_one_rebalance() -> None:
    story = Story()
    first, second, third = story.stable(3)
    assert story.leave(second, "ghost", third) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert joined(story.join(first)).generation_id == 2


def test_leaving_a_group_nobody_knows() -> None:
    story = Story()
    assert story.leave("ghost") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert story.heartbeat("ghost", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_generation_the_log_refuses_is_tried_again() -> None:
    story = Story()
    (member,) = story.stable()
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    ticket = story.submit_leave(member)
    assert ticket.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    story.time.advance(999)
    assert story.state == "PreparingRebalance"
    story.time.advance(1)
    assert story.state == "Empty"
