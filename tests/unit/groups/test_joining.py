"""JoinGroup: which clients become members, under which id, and which are refused."""

import pytest

from coordinator.groups.joining import PENDING_MOST
from coordinator.groups.membership import Membership
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import GROUP, SESSION_MS, Story, joined, subscription

PROTOCOLS = (("range", subscription("t")),)
"""What members of `Story.stable` bring."""


def test_a_dynamic_member_gets_an_id_and_rejoins_with_it() -> None:
    """KIP-394: from v4 on, an unknown member joins in two steps."""
    story = Story()
    first = joined(story.join())
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "client-id1"
    assert first.generation_id == -1
    assert story.state == "Empty"
    second = story.join(first.member_id)
    assert second.waiting
    story.tick()
    answer = joined(second)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, first.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [member.member_id for member in answer.members] == [first.member_id]
    assert story.state == "CompletingRebalance"


def test_an_old_client_joins_in_one_step() -> None:
    story = Story()
    ticket = story.join(version=3)
    story.tick()
    assert joined(ticket).error_code == ErrorCode.NONE
    assert joined(ticket).member_id == "client-id1"


def test_an_id_that_is_not_fetched_in_time_is_forgotten() -> None:
    story = Story()
    member = story.new_member()
    story.time.advance(10_000)
    assert joined(story.join(member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_handed_out() -> None:
    story = Story()
    (leader,) = story.stable()
    pending = story.new_member()
    story.join(leader)
    assert story.state == "PreparingRebalance"
    ticket = story.join(pending)
    assert joined(ticket).generation_id == 2
    for _ in range(2):
        story.time.advance(SESSION_MS - 1)
        story.heartbeat(leader, 2)
    assert story.heartbeat(pending, 2) == ErrorCode.UNKNOWN_MEMBER_ID, "its session counts from the end of its join"


def test_only_the_leader_gets_the_member_list() -> None:
    story = Story()
    ids = [story.new_member() for _ in range(3)]
    tickets = [story.join(member, protocols=(("range", member.encode()),)) for member in ids]
    story.tick()
    assert [(m.member_id, m.metadata) for m in joined(tickets[0]).members] == [(m, m.encode()) for m in ids]
    assert joined(tickets[1]).members == []
    assert joined(tickets[2]).members == []
    assert {joined(ticket).leader for ticket in tickets} == {ids[0]}


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    story = Story()
    assert joined(story.join(session_ms=session_ms)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert story.listed() == []


def test_a_group_needs_a_protocol_type_and_a_protocol() -> None:
    story = Story()
    assert joined(story.join(protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined(story.join(protocols=())).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_types_must_match_and_share_a_protocol() -> None:
    story = Story()
    story.stable()
    assert joined(story.join(protocol_type="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stranger = joined(story.join(protocols=(("sticky", b""),)))
    assert stranger.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined(story.join(protocols=(("sticky", b""), ("range", b"")))).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert story.state == "Stable"


def test_protocol_types_are_opaque() -> None:
    """Connect, Schema Registry and others bring metadata nobody but they can read."""
    story = Story()
    member = story.new_member(protocol_type="connect", protocols=(("sessioned", b"\xff\x00 not a subscription"),))
    ticket = story.join(member, protocol_type="connect", protocols=(("sessioned", b"\xff\x00 not a subscription"),))
    story.tick()
    assert joined(ticket).protocol_name == "sessioned"
    story.sync(member, 1, {member: b"\x01"})
    assert story.describe().protocol_type == "connect"
    assert story.describe().members[0].member_assignment == b"\x01"


def test_the_common_protocol_with_the_most_votes_wins() -> None:
    story = Story()
    likes = [("a", "b", "c"), ("b", "a"), ("b", "c", "a")]
    ids = [story.new_member(protocols=[(name, b"") for name in names]) for names in likes]
    tickets = [
        story.join(member, protocols=[(name, name.encode()) for name in names])
        for member, names in zip(ids, likes, strict=True)
    ]
    story.tick()
    assert {joined(ticket).protocol_name for ticket in tickets} == {"b"}
    assert [member.metadata for member in joined(tickets[0]).members] == [b"b", b"b", b"b"]


def test_a_member_that_joins_with_other_protocols_is_counted_among_those_alone() -> None:
    story = Story()
    (member,) = story.stable()
    both = joined(story.join(member, protocols=(("sticky", b"s"), ("range", b"r"))))
    assert (both.protocol_name, both.members[0].metadata) == ("sticky", b"s")
    one = joined(story.join(member, protocols=(("sticky", b"s"),)))
    assert (one.protocol_name, one.generation_id) == ("sticky", both.generation_id + 1)
    assert joined(story.join(protocols=(("range", b""),))).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined(story.join(protocols=(("sticky", b""),))).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_an_unknown_id_is_refused_and_makes_no_group() -> None:
    story = Story()
    assert joined(story.join("ghost")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.describe().group_state == "Dead"
    story.stable()
    assert joined(story.join("ghost")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_has_a_largest_size() -> None:
    story = Story(FixedGroupSettings(max_size=2))
    first, second = story.stable(2)
    third = joined(story.join())
    assert third.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    # While a rebalance is under way, places go to the first to join.
    story.settings.max_size = 3
    late = story.new_member()
    story.settings.max_size = 2
    tickets = [story.join(first), story.join(second)]
    assert joined(story.join(late)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [joined(ticket).generation_id for ticket in tickets] == [2, 2]


def test_a_group_too_large_after_a_restart_rejoins() -> None:
    story = Story()
    first, second = story.stable(2)
    story.settings.max_size = 1
    story.restart()
    assert story.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    stays = story.join(second)
    assert joined(story.join(first)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(stays).generation_id == 2
    assert joined(stays).leader == second


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation() -> None:
    """It lost the answer. A rebalance for that would be one more than Kafka makes."""
    story = Story()
    leader, follower = story.stable(2)
    again = joined(story.join(follower, protocols=PROTOCOLS))
    assert (again.error_code, again.generation_id, again.leader) == (0, 1, leader)
    assert story.state == "Stable"


def test_a_follower_with_new_metadata_causes_a_rebalance() -> None:
    story = Story()
    leader, follower = story.stable(2)
    ticket = story.join(follower, protocols=(("range", b"other"),))
    assert ticket.waiting
    assert story.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_joins_again_causes_a_rebalance() -> None:
    """It may have seen what metadata does not show, such as new partitions of a topic."""
    story = Story()
    leader, follower = story.stable(2)
    ticket = story.join(leader, protocols=PROTOCOLS)
    assert ticket.waiting
    assert story.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_each_repeated_join_of_a_waiting_member_gets_a_response() -> None:
    """The first connection is gone; its ticket must still end."""
    story = Story()
    leader, _ = story.stable(2)
    lost = story.join(leader)
    again = story.join(leader)
    assert joined(lost).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert again.waiting


def test_a_pending_id_may_not_rejoin_as_a_static_member() -> None:
    story = Story()
    member = story.new_member()
    assert joined(story.join(member, instance="i")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_refused_first_record_leaves_no_group_behind() -> None:
    """The log says no to the record that makes the group: waiting clients get an error, nothing else happened."""
    story = Story()
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    lost = story.join(version=3)
    assert lost.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    story.time.advance(600_000)
    assert story.listed() == []
    assert story.describe(GROUP).group_state == "Dead"
    story.stable()


def test_long_client_ids_do_not_make_long_member_ids() -> None:
    member = Story().new_member(client="c" * 32_000)
    assert member.startswith("c" * 255 + "-")
    assert len(member) < 300


def test_ids_nobody_comes_for_are_bounded() -> None:
    """Beyond the bound the oldest goes, and with it its deadline; its owner joins anew."""
    story = Story()
    handed_out = [story.new_member() for _ in range(PENDING_MOST + 50)]
    machine = story.shard.machine
    assert len(machine._classic.memberships[GROUP].pending) == PENDING_MOST
    assert len(machine._deadlines) == PENDING_MOST + 1, "and the one of retention"
    assert joined(story.join(handed_out[0])).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_are_not_counted_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand members that join would each look at all of the others."""
    counted: list[str] = []
    monkeypatch.setattr(Membership, "joining_count", property(lambda group: counted.append(group.group_id) or 0))
    story = Story()
    ids = [story.new_member() for _ in range(20)]
    tickets = [story.join(member) for member in ids]
    story.tick()
    assert {joined(ticket).generation_id for ticket in tickets} == {1}
    assert counted == []
