"""When offsets and groups are forgotten (KIP-211), and what owners may delete."""

import pytest

from coordinator.groups.commits import Commit, OffsetToCommit
from coordinator.groups.retention import VISITS_PER_STEP
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import GROUP, TOPIC_ID, Story, subscription

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS


def story_with_retention() -> Story:
    return Story(FixedGroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=HOUR_MS))


def test_offsets_of_a_group_without_members_expire_after_their_commit() -> None:
    story = story_with_retention()
    story.commit(1)
    story.time.advance(RETENTION_MS - HOUR_MS)
    story.commit(2, partition=1)
    story.time.advance(HOUR_MS)
    assert story.all_offsets() == {("t", 1): 2}
    story.time.advance(RETENTION_MS)
    assert story.all_offsets() == {}
    assert story.listed() == [], "with the last offset goes the group"
    story.restart()
    assert story.listed() == []


def test_the_clock_starts_when_the_group_became_empty() -> None:
    story = story_with_retention()
    (member,) = story.stable()
    story.commit(1, member=member, generation=1)
    story.pass_time(2 * HOUR_MS, member)
    story.leave(member)
    emptied_ms = story.time.now_ms()
    story.restart()
    story.time.advance(RETENTION_MS - 1)
    assert story.offset() == 1
    story.time.advance(HOUR_MS)
    assert story.time.now_ms() > emptied_ms + RETENTION_MS
    assert story.offset() == -1
    assert story.listed() == []


def test_a_live_group_keeps_what_it_is_subscribed_to() -> None:
    story = Story(FixedGroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000))
    (member,) = story.stable(topics=("t",))
    story.commit(1, topic="t", member=member, generation=1)
    story.commit(1, topic="u", member=member, generation=1)
    story.pass_time(80_000, member)
    assert story.all_offsets() == {("t", 0): 1}
    assert story.state == "Stable"


def test_a_live_group_whose_topics_are_unknown_keeps_everything() -> None:
    story = Story(FixedGroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000))
    member = story.new_member(protocol_type="connect")
    story.join(member, protocol_type="connect")
    story.tick()
    story.sync(member, 1, {})
    story.commit(1, member=member, generation=1)
    story.pass_time(80_000, member)
    assert story.offset() == 1


def test_an_explicit_retention_is_obeyed() -> None:
    """OffsetCommit v2-4 could bring its own; a reload remembers it (value v1 in the log)."""
    story = story_with_retention()
    story.commit(1, retention_ms=2 * HOUR_MS, version=4)
    story.commit(1, partition=1, retention_ms=100 * RETENTION_MS, version=4)
    story.restart()
    story.time.advance(HOUR_MS)
    assert story.offset() == 1
    story.time.advance(HOUR_MS)
    assert story.offset() == -1
    story.time.advance(2 * RETENTION_MS)
    assert story.offset(partition=1) == 1


def test_an_open_transaction_protects_its_offsets_and_its_group() -> None:
    """I40: a tombstone now would swallow the commit that comes later."""
    story = story_with_retention()
    story.commit(1)
    story.commit(2, producer=4)
    story.time.advance(2 * RETENTION_MS)
    assert story.listed() == ["orders"]
    story.end(4, commit=True)
    assert story.offset() == 2


def test_a_group_with_nothing_but_an_open_transaction_stays() -> None:
    story = story_with_retention()
    story.commit(2, producer=4)
    story.time.advance(2 * RETENTION_MS)
    assert story.listed() == ["orders"]
    story.end(4, commit=False)
    story.time.advance(HOUR_MS)
    assert story.listed() == []


def test_many_groups_are_looked_at_in_slices() -> None:
    story = story_with_retention()
    for index in range(1_000):
        story.commit(1, group=f"g{index}")
    story.time.advance(RETENTION_MS + 1_000)
    before = story.log.end_offset
    assert story.listed() == []
    assert before == 1_000 + 2 * 1_000
    assert len(story.log.batches) >= 1_000 + 3


def test_a_step_with_nothing_expired_looks_at_few() -> None:
    """The steps of a round are not one turn of the loop, and none of them is due at the moment of the one before."""
    story = story_with_retention()
    offsets = [OffsetToCommit("t", TOPIC_ID, partition, 1, -1, "") for partition in range(5 * VISITS_PER_STEP // 2)]
    story.ask(lambda machine, ticket, now: machine.commit_offsets(Commit(GROUP, -1, "", None, 8, offsets), ticket, now))
    machine = story.shard.machine
    due = [machine.next_deadline_ms()]
    while len(due) < 4:
        assert due[-1] is not None
        assert machine.expire(due[-1]).records == []
        due.append(machine.next_deadline_ms())
    assert due[0] is not None
    assert due == [due[0], due[0] + 1, due[0] + 2, due[0] + 2 + HOUR_MS]


def test_only_a_group_without_members_can_be_deleted() -> None:
    story = Story()
    assert story.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = story.stable()
    assert story.delete() == ErrorCode.NON_EMPTY_GROUP
    story.leave(member)
    assert story.delete() == ErrorCode.NONE
    assert story.delete() == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_topics_in_use_cannot_be_deleted() -> None:
    story = Story()
    assert story.delete_offsets(0).error == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = story.stable(topics=("t",))
    story.commit(1, member=member, generation=1)
    story.commit(1, topic="u", member=member, generation=1)
    assert story.delete_offsets(0).errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert story.delete_offsets(0, topic="u").errors == [ErrorCode.NONE]
    assert story.all_offsets() == {("t", 0): 1}
    story.leave(member)
    assert story.delete_offsets(0).errors == [ErrorCode.NONE]
    assert story.all_offsets() == {}


def test_offsets_of_a_live_opaque_group_cannot_be_deleted() -> None:
    story = Story()
    ticket = story.join(version=3, protocol_type="connect")
    story.tick()
    assert not ticket.waiting
    assert story.delete_offsets(0).error == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff", subscription("t")[:-8], b"\x00\x00\x7f\xff\xff\xff"])
def test_unreadable_subscriptions_mean_that_all_topics_are_in_use(metadata: bytes) -> None:
    story = Story()
    ticket = story.join(version=3, protocols=(("range", metadata),))
    story.tick()
    assert not ticket.waiting
    assert story.delete_offsets(0).errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_groups_are_listed_by_state_and_type() -> None:
    story = Story()
    story.stable(group="alive")
    story.commit(1, group="simple")
    assert story.listed() == ["alive", "simple"]
    assert story.listed(states=["stable"]) == ["alive"]
    assert story.listed(states=["Empty", "Dead"]) == ["simple"]
    assert story.listed(types=["Classic"]) == ["alive", "simple"]
    assert story.listed(types=["consumer"]) == []
