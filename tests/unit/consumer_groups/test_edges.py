"""Consumer groups at their limits: memory, clocks, a log that refuses, records that are not ours."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from coordinator.groups.consumer.heartbeats import Said
from coordinator.groups.consumer.log_entries import current_assignment, partition_metadata_tombstone
from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.consumer.metadata_hash import MetadataHashes
from coordinator.groups.consumer.records import ConsumerGroupPartitionMetadataKey
from coordinator.machine import Record
from protocol.errors import ErrorCode
from tests.unit.consumer_groups.story import GROUP, REBALANCE_MS, ConsumerStory, classic_group, embedded
from tests.unit.groups.story import SESSION_MS, joined


def write(story: ConsumerStory, record: Record) -> None:
    """Into the log, by somebody else; the shard is loaded again."""
    story.log.append([record], stamp=None, now_ms=story.time.now_ms())
    story.restart()


def group_of(story: ConsumerStory) -> dict[str, ConsumerMember]:
    return story.shard.machine.ledger.consumers.by_id[GROUP].members


# -- a log that refuses ----------------------------------------------------------------------------------------------


def test_topics_that_were_seen_in_vain_are_looked_at_again() -> None:
    """The log refused what came of it."""
    story = ConsumerStory(t=1)
    story.come("A", "t")
    story.topics.set("t", 2)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(AssertionError, match="COORDINATOR_NOT_AVAILABLE"):
        story.say("A", 2)
    assert story.gets(story.say("A", 2)) == {"t": [0, 1]}


def test_topics_that_an_expression_found_in_vain_are_looked_at_again() -> None:
    story = ConsumerStory(a1=1)
    story.come("A", topics=None, regex="a.*")
    story.resolve({"a.*": ["a1"]})
    assert story.gets(story.say("A", 1)) == {"a1": [0]}
    story.topics.set("a1", 2)
    story.topics.set("a2", 1)
    story.time.advance(10_001)
    story.say("A", 2)
    story.topics.set("a1", 3)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(AssertionError, match="COORDINATOR_NOT_AVAILABLE"):
        story.resolve({"a.*": ["a1", "a2"]})
    assert story.gets(story.say("A", 3)) == {"a1": [0, 1, 2]}


def test_what_an_expression_found_is_not_looked_at_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    story = ConsumerStory(a1=1)
    story.come("A", topics=None, regex="a.*")
    story.resolve({"a.*": ["a1"]})
    hashed: list[int] = []
    right = MetadataHashes.of

    def counted(self: MetadataHashes, names: Iterable[str]) -> int:
        hashed.append(1)
        return right(self, names)

    monkeypatch.setattr(MetadataHashes, "of", counted)
    assert story.gets(story.say("A", 1)) == {"a1": [0]}
    assert hashed == []


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_without_an_interval_a_clock_that_was_set_back_delays_nothing() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t")
    story.time._now_ms -= 60_000
    assert story.come("B", "t").member_epoch == 3


def test_a_member_without_a_rebalance_timeout_gives_back_at_once_or_goes() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t", rebalance_timeout_ms=-5)
    story.come("B", "t")
    assert story.gets(story.say("A", 2)) == {"t": [0]}
    story.time.advance(0)
    assert list(story.current()) == ["B"]


# -- memory ----------------------------------------------------------------------------------------------------------


def test_a_new_member_needs_room_to_the_byte() -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    held = story.shard.machine.ledger.held
    new = ConsumerMember("B", client_id="client", client_host="/127.0.0.1", topics=frozenset(("t",)))
    story.settings.max_held_bytes = held.bytes + new.held_bytes - 1
    refused = story.come("B", "t")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "No room for another member of a group.",
    )
    assert list(story.current()) == ["A"]
    story.settings.max_held_bytes += 1
    assert story.come("B", "t").error_code == ErrorCode.NONE


def test_a_member_that_grows_needs_room_for_what_is_more() -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    story.settings.max_held_bytes = story.shard.machine.ledger.held.bytes + 80 + 4
    assert story.say("A", 2, "t", "four4").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.say("A", 2, "t", "four").error_code == ErrorCode.NONE


# -- what else the log may say ---------------------------------------------------------------------------------------


def test_a_member_in_a_state_of_a_later_release_begins_anew() -> None:
    story = ConsumerStory(a=1)
    story.come("A", topics=None, regex="a")
    story.resolve({"a": ["a"]})
    story.say("A", 1)
    (member,) = group_of(story).values()
    write(story, current_assignment(GROUP, replace(member, state=MemberState.UNKNOWN)))
    story.resolutions.clear()
    story.topics.set("a2", 1)
    story.time.advance(10_001)
    refused = story.say("A", 2)
    assert (refused.error_code, story.resolutions) == (ErrorCode.FENCED_MEMBER_EPOCH, [])
    assert story.gets(story.say("A", 2, regex="a", rebalance_timeout_ms=60_000, owned={})) == {"a": [0]}
    assert len(story.resolutions) == 1, "what was refused has asked for nothing"


def test_what_an_older_release_has_written_of_topics_is_deleted_with_the_next_change() -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    write(story, Record(partition_metadata_tombstone(GROUP).key, b"whatever"))
    begin = story.log.end_offset
    story.say("A", 2)
    assert story.written(begin) == [(ConsumerGroupPartitionMetadataKey(group_id=GROUP), None)]
    story.say("A", 2)
    assert len(story.written(begin)) == 1


def test_the_state_of_a_group_is_looked_for_once_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    group = story.shard.machine.ledger.consumers.by_id[GROUP]
    looked: list[ConsumerGroupState] = []

    def find() -> ConsumerGroupState:
        looked.append(ConsumerGroupState.STABLE)
        return looked[-1]

    monkeypatch.setattr(group, "_find_state", find)
    group.put(ConsumerMember("B"))
    assert (group.state, group.state, len(looked)) == (ConsumerGroupState.STABLE, ConsumerGroupState.STABLE, 1)
    group.remove("nobody")
    assert (group.state, len(looked)) == (ConsumerGroupState.STABLE, 1)
    group.remove("B")
    assert (group.state, len(looked)) == (ConsumerGroupState.STABLE, 2)


def test_who_was_refused_with_the_first_record_of_a_classic_group_is_not_answered_again() -> None:
    story = ConsumerStory(t=2)
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE, times=2)
    ticket = story.join(version=3, protocols=(("range", embedded("t")),))
    said = Said(GROUP, "A", 0, "client", "host", rebalance_timeout_ms=1, topics=frozenset("t"), owned=())
    refused = story.submit(lambda machine, ticket, now: machine.consumer_heartbeat(said, ticket, now))
    assert ticket.errors == refused.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]


# -- how long is waited for ------------------------------------------------------------------------------------------


def test_members_of_a_classic_group_have_their_sessions_when_it_has_moved() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    assert story.come("B", "t").error_code == ErrorCode.NONE
    story.time.advance(SESSION_MS - 1)
    assert set(story.current()) == {old, "B"}
    story.time.advance(1)
    assert set(story.current()) == {"B"}


def test_a_static_member_that_is_away_has_nothing_to_give_back() -> None:
    """It keeps its place for its session, though it has gone in the middle of a rebalance."""
    story = ConsumerStory(t=2)
    story.come("A", "t", instance_id="a", rebalance_timeout_ms=5_000)
    story.come("B", "t")
    assert story.gets(story.say("A", 2, instance_id="a")) == {"t": [0]}
    assert story.say("A", -2, instance_id="a").error_code == ErrorCode.NONE
    story.time.advance(44_999)
    assert set(story.current()) == {"A", "B"}
    story.time.advance(1)
    assert story.current() == {}


# -- nothing is waited for of those who are gone ---------------------------------------------------------------------


def deadlines(story: ConsumerStory) -> set[str]:
    """Of which members any are set."""
    return {key.member_id for key in story.shard.machine._deadlines._at if key.member_id}


def test_no_deadline_is_kept_of_members_who_are_gone() -> None:
    story = ConsumerStory(t=4)
    story.come("A", "t")
    story.come("B", "t")
    story.say("A", 2)
    assert deadlines(story) == {"A", "B"}
    story.say("A", -1)
    story.say("B", 3)
    assert deadlines(story) == {"B"}
    story.say("B", -1)
    story.time.advance(1)
    assert deadlines(story) == set()


def test_no_deadline_is_kept_of_classic_members_who_are_gone() -> None:
    story = ConsumerStory(t=4)
    waiting = story.new_member()
    assert deadlines(story) == {waiting}
    assert story.leave(waiting) == [ErrorCode.NONE]
    assert deadlines(story) == set()
    silent, other = story.new_member(), story.new_member()
    tickets = [story.join(member) for member in (silent, other)]
    story.tick()
    assert all(joined(ticket).generation_id == 1 for ticket in tickets)
    for _ in range(REBALANCE_MS // 5_000):
        story.heartbeat(silent, 1)
        story.heartbeat(other, 1)
        story.time.advance(5_000)
    assert deadlines(story) == set(), "neither has fetched its assignment"


def test_a_member_with_another_instance_id_gives_up_the_former() -> None:
    """As after a restart: its record has one. Kafka keeps the former until then."""
    story = ConsumerStory(t=2)
    for instance_id in ("a", "b"):
        assert story.come("A", "t", instance_id=instance_id).error_code == ErrorCode.NONE
    assert story.shard.machine.ledger.consumers.by_id[GROUP].static_ids == {"b": "A"}
    assert story.say("A", 2, instance_id="a").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.come("B", "t", instance_id="a").error_code == ErrorCode.NONE
    assert list(story.current()) == ["A", "B"]


def test_a_group_that_the_log_did_not_take_leaves_nothing_behind() -> None:
    story = ConsumerStory(t=2)
    story.log.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    said = Said(GROUP, "A", 0, "client", "host", rebalance_timeout_ms=1, regex="t.*", owned=())
    refused = story.submit(lambda machine, ticket, now: machine.consumer_heartbeat(said, ticket, now))
    assert refused.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    soft = story.shard.machine._shard.soft
    assert soft.resolving
    story.time.advance(45_000)
    assert not soft.resolving
    later = ConsumerGroup(GROUP)
    later.epoch = 1_000
    assert not soft.has_seen(later, story.topics.revision)
    assert deadlines(story) == set()
