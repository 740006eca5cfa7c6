"""Whom a group waits for that the broker leads: of the consumer protocol, with members of the classic one among it."""

from coordinator.groups.seen.awaited import AwaitedMember
from tests.unit.consumer_groups.story import GROUP, REBALANCE_MS, ConsumerStory


def members(story: ConsumerStory) -> dict[str, AwaitedMember]:
    found = story.shard.machine.awaited.of(GROUP)
    assert found is not None
    assert (found.kind, found.until_ms, found.newcomers) == ("consumer", None, 0)
    return {one.member_id: one for one in found.members}


def test_whoever_has_to_give_something_back_is_awaited() -> None:
    story = ConsumerStory(t=2)
    session_ms = story.settings.consumer.session_timeout_ms(GROUP)
    epoch = story.come("A", "t").member_epoch
    (alone,) = members(story).values()
    assert (alone.is_awaited, alone.given_up_at_ms) == (False, story.time.now_ms() + session_ms)
    story.time.advance(1_000)
    story.come("B", "t")
    told_ms = story.time.now_ms()
    assert story.gets(story.say("A", epoch, owned={"t": [0, 1]})) == {"t": [0]}  # it is told to give a partition back
    story.time.advance(2_000)
    found = members(story)
    assert (found["A"].is_awaited, found["A"].awaited_until_ms) == (True, told_ms + REBALANCE_MS)
    assert (found["B"].is_awaited, found["B"].given_up_at_ms) == (False, told_ms + session_ms)
    assert found["A"].session_timeout_ms == session_ms
    story.say("A", epoch, owned={"t": [0]})
    assert not any(one.is_awaited for one in members(story).values())
