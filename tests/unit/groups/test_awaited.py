"""Whom a group waits for, and until when: what its coordinator knows, and Kafka's protocol does not say."""

from coordinator.groups.seen.awaited import AwaitedGroup, AwaitedMember
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import GROUP, REBALANCE_MS, SESSION_MS, Story, joined, subscription

PROTOCOLS = (("range", subscription("t")),)


def look(story: Story, group: str = GROUP) -> tuple[AwaitedGroup, dict[str, AwaitedMember]]:
    found = story.shard.machine.awaited.of(group)
    assert found is not None
    return found, {one.member_id: one for one in found.members}


def test_nobody_is_awaited_where_all_have_their_partitions() -> None:
    story = Story()
    ids = story.stable(2)
    group, members = look(story)
    assert (group.kind, group.state, group.until_ms, group.newcomers) == ("classic", "Stable", None, 0)
    assert list(members) == ids
    assert not any(one.is_awaited for one in members.values())
    assert {one.given_up_at_ms for one in members.values()} == {story.time.now_ms() + SESSION_MS}
    assert story.shard.machine.awaited.of("another") is None


def test_whoever_has_not_joined_again_is_awaited_until_the_rebalance_ends() -> None:
    story = Story()
    first, second = story.stable(2)
    story.time.advance(1_000)
    story.join(first, protocols=(("range", subscription("t", "u")),))
    began_ms = story.time.now_ms()
    story.time.advance(4_000)
    group, members = look(story)
    assert (group.state, group.since_ms, group.until_ms) == ("PreparingRebalance", began_ms, began_ms + REBALANCE_MS)
    assert not group.is_initial
    assert {name: one.is_awaited for name, one in members.items()} == {first: False, second: True}
    assert members[first].given_up_at_ms is None, "it waits for the others, and need say nothing meanwhile"
    assert members[second].given_up_at_ms == began_ms - 1_000 + SESSION_MS


def test_a_generation_waits_for_the_assignment_of_its_leader() -> None:
    story = Story()
    leader, other = (story.new_member(protocols=PROTOCOLS) for _ in range(2))
    tickets = [story.join(one, protocols=PROTOCOLS) for one in (leader, other)]
    story.tick()
    generation = joined(tickets[0]).generation_id
    _, members = look(story)
    assert {name: one.is_awaited for name, one in members.items()} == {leader: True, other: False}
    story.sync(other, generation)
    group, members = look(story)
    assert group.state == "CompletingRebalance" and group.until_ms == story.time.now_ms() + REBALANCE_MS
    assert members[leader].is_awaited and members[other].given_up_at_ms is None
    story.sync(leader, generation, {leader: b"a", other: b"b"})
    group, members = look(story)
    assert group.state == "Stable" and not any(one.is_awaited for one in members.values())


def test_a_new_group_waits_for_its_first_members() -> None:
    story = Story(FixedGroupSettings(initial_rebalance_delay_ms=3_000))
    first = story.new_member(protocols=PROTOCOLS)
    story.new_member(protocols=PROTOCOLS)
    story.join(first, protocols=PROTOCOLS)
    group, members = look(story)
    assert group.is_initial and group.until_ms == story.time.now_ms() + 3_000
    assert (list(members), group.newcomers) == ([first], 1), "the other one got an id, and has not come back"


def test_after_a_restart_members_have_a_session_to_be_heard_of() -> None:
    story = Story()
    ids = story.stable(2)
    story.restart()
    _, members = look(story)
    assert {name: one.given_up_at_ms for name, one in members.items()} == dict.fromkeys(
        ids, story.time.now_ms() + SESSION_MS
    )
