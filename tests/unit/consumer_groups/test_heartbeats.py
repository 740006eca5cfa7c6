"""Members of a consumer group come, share, change their minds and go."""

from coordinator.groups.consumer.records import ConsumerGroupMetadataKey
from coordinator.machine import Record, ReplayedRecord
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedConsumerSettings, FixedGroupSettings
from tests.unit.consumer_groups.story import GROUP, REBALANCE_MS, ConsumerStory, topic_id


def shared(story: ConsumerStory) -> ConsumerStory:
    """A has partitions 0 and 1 of t, B has 2 and 3, the group is at epoch 3."""
    story.come("A", "t")
    story.come("B", "t")
    assert story.gets(story.say("A", 2, owned={"t": [0, 1, 2, 3]})) == {"t": [0, 1]}
    assert story.say("A", 2, owned={"t": [0, 1]}).member_epoch == 3
    assert story.gets(story.say("B", 3)) == {"t": [2, 3]}
    assert story.group_state() == ("Stable", 3, 3)
    return story


def test_a_partition_is_given_on_only_when_it_was_given_back() -> None:
    story = ConsumerStory(t=4)
    assert story.gets(story.come("A", "t")) == {"t": [0, 1, 2, 3]}
    assert story.gets(story.come("B", "t")) == {}
    assert story.group_state() == ("Reconciling", 3, 3)
    assert story.gets(story.say("B", 3)) is None
    told = story.say("A", 2, owned={"t": [0, 1, 2, 3]})
    assert (told.member_epoch, story.gets(told)) == (2, {"t": [0, 1]})
    assert story.gets(story.say("B", 3)) is None, "A has not given them back yet"
    told = story.say("A", 2)
    assert (told.member_epoch, story.gets(told)) == (2, None), "a member that says nothing has given nothing back"
    assert story.say("A", 2, owned={"t": [0, 1, 3]}).member_epoch == 2
    assert story.say("A", 2, owned={"t": [0, 1]}).member_epoch == 3
    assert story.gets(story.say("B", 3)) == {"t": [2, 3]}
    assert story.group_state() == ("Stable", 3, 3)


def test_a_heartbeat_without_news_writes_nothing() -> None:
    story = shared(ConsumerStory(t=4))
    end = story.log.end_offset
    for _ in range(3):
        assert story.gets(story.say("A", 3)) is None
        assert story.gets(story.say("B", 3, owned={"t": [2, 3]})) is None
    assert story.log.end_offset == end


def test_a_full_request_is_answered_in_full() -> None:
    story = shared(ConsumerStory(t=4))
    full = story.say("A", 3, "t", rebalance_timeout_ms=REBALANCE_MS, owned={"t": [0, 1]})
    assert story.gets(full) == {"t": [0, 1]}


def test_a_lost_answer_is_given_again() -> None:
    """The member comes with the epoch before, and with no more than it is to have."""
    story = shared(ConsumerStory(t=4))
    assert story.say("A", 2, owned={"t": [0]}).member_epoch == 3
    assert story.say("A", 2, owned={"t": [0, 2]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.say("A", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.say("A", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.say("A", 1, owned={}).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_who_was_fenced_joins_again_under_its_id_whatever_it_had() -> None:
    """KIP-848: FENCED_MEMBER_EPOCH makes a member give up everything and come again with epoch 0, at once."""
    story = ConsumerStory(t=2, u=1)
    story.come("A", "t")
    assert story.say("A", 2, "t", "u").member_epoch == 3
    assert story.say("A", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.gets(story.come("A", "t", "u")) == {"t": [0, 1], "u": [0]}, "stable"
    assert story.gets(story.come("B", "t", "u")) == {}
    assert story.say("A", 3, owned={"t": [0, 1], "u": [0]}).member_epoch == 3
    assert story.gets(story.come("B", "t", "u")) == {}, "waiting"
    assert story.come("A", "t", "u").member_epoch == 4, "giving back: it has nothing any more"


def test_who_leaves_leaves_its_partitions_to_others() -> None:
    story = shared(ConsumerStory(t=4))
    assert story.say("A", -1).member_epoch == -1
    assert story.group_state() == ("Assigning", 4, 3)
    assert story.gets(story.say("B", 3)) == {"t": [0, 1, 2, 3]}
    assert story.say("A", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_not_heard_of_is_given_up() -> None:
    story = shared(ConsumerStory(t=4))
    story.time.advance(30_000)
    story.say("B", 3)
    story.time.advance(15_000)
    assert story.current() == {"B": {"t": [2, 3]}}
    assert story.gets(story.say("B", 3)) == {"t": [0, 1, 2, 3]}
    story.time.advance(45_000)
    assert story.group_state() == ("Empty", 5, 4)


def test_a_member_that_does_not_give_back_in_time_is_given_up() -> None:
    story = ConsumerStory(t=4)
    story.come("A", "t", rebalance_timeout_ms=20_000)
    story.come("B", "t")
    story.say("A", 2, owned={"t": [0, 1, 2, 3]})
    for _ in range(4):
        story.time.advance(4_999)
        assert story.say("A", 2).error_code == ErrorCode.NONE
        story.say("B", 3)
    story.time.advance(4)
    assert story.say("A", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.gets(story.say("B", 3)) == {"t": [0, 1, 2, 3]}


def test_a_refused_record_gives_up_no_member_but_a_second_one_does() -> None:
    story = shared(ConsumerStory(t=4))
    story.time.advance(44_000)
    story.say("B", 3)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    story.time.advance(1_500)
    assert list(story.current()) == ["A", "B"]
    story.time.advance(1_500)
    assert list(story.current()) == ["B"]


def test_targets_are_computed_at_most_once_an_interval() -> None:
    story = ConsumerStory(FixedGroupSettings(consumer=FixedConsumerSettings()), t=4)
    story.settings.consumer.assignment_ms = 1_000
    story.come("A", "t")
    assert (story.come("B", "t").member_epoch, story.group_state()) == (2, ("Assigning", 3, 2))
    story.time.advance(999)
    assert story.say("B", 2).member_epoch == 2
    story.time.advance(1)
    assert story.say("B", 2).member_epoch == 3
    assert story.group_state() == ("Reconciling", 3, 3)


def test_a_group_is_full() -> None:
    story = ConsumerStory(FixedGroupSettings(consumer=FixedConsumerSettings(max_size=1)), t=4)
    story.come("A", "t")
    assert story.come("B", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.say("A", 2).error_code == ErrorCode.NONE


def test_topics_that_come_grow_and_go_are_seen_with_the_next_heartbeat() -> None:
    story = ConsumerStory(t=1)
    assert story.gets(story.come("A", "t", "u")) == {"t": [0]}
    story.topics.set("u", 2)
    assert story.gets(story.say("A", 2)) == {"t": [0], "u": [0, 1]}
    story.topics.set("t", 3)
    assert story.gets(story.say("A", 3)) == {"t": [0, 1, 2], "u": [0, 1]}
    story.topics.delete("u")
    told = story.say("A", 4, owned={"t": [0, 1, 2], "u": [0, 1]})
    assert (told.member_epoch, story.gets(told)) == (4, {"t": [0, 1, 2]})
    assert story.say("A", 4, owned={"t": [0, 1, 2]}).member_epoch == 5
    story.topics.set("other", 1)
    assert story.say("A", 5).member_epoch == 5


def test_a_topic_made_anew_is_another_topic() -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    story.topics.delete("t")
    story.topics.set("t", 1, fresh_id=b"n" * 16)
    answer = story.say("A", 2, owned={"t": [0]})
    assert answer.assignment is not None and answer.assignment.topic_partitions == []
    answer = story.say("A", 2, owned={})
    assert answer.assignment is not None
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [b"n" * 16]


def test_what_a_member_no_longer_wants_is_taken_away_before_there_is_a_target() -> None:
    story = ConsumerStory(t=1, u=1)
    story.settings.consumer.assignment_ms = 1_000
    story.come("A", "t", "u")
    told = story.say("A", 2, "u", owned={"t": [0], "u": [0]})
    assert (told.member_epoch, story.gets(told)) == (2, {"u": [0]})
    assert story.group_state() == ("Assigning", 3, 2)
    story.time.advance(1_000)
    assert story.say("A", 2, owned={"u": [0]}).member_epoch == 3


def test_without_room_no_member_is_taken_in_and_those_who_are_there_go_on() -> None:
    story = ConsumerStory(t=4)
    story.come("A", "t")
    story.settings.max_held_bytes = story.shard.machine.ledger.held.bytes
    assert story.come("B", "t").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.say("A", 2).error_code == ErrorCode.NONE


def test_what_a_group_holds_is_counted_and_given_back() -> None:
    story = shared(ConsumerStory(t=4))
    held = story.shard.machine.ledger.held
    assert held.bytes > 4_000
    for member in ("A", "B"):
        story.say(member, -1)
    assert story.delete() is ErrorCode.NONE
    assert held.bytes == 0


def test_deleting_writes_the_group_last_and_only_an_empty_one_goes() -> None:
    story = shared(ConsumerStory(t=4))
    assert story.delete() is ErrorCode.NON_EMPTY_GROUP
    story.say("A", -1)
    story.say("B", -1)
    story.commit(5)
    assert story.delete() is ErrorCode.NONE
    assert story.written()[-1] == (ConsumerGroupMetadataKey(group_id="orders"), None)
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_every_prefix_of_the_log_loads_to_one_owner_for_each_partition() -> None:
    story = shared(ConsumerStory(t=4))
    story.come("C", "t")
    story.say("A", 3, owned={"t": [0, 1]})
    story.say("B", -1)
    whole = len(story.log.batches)
    for count in range(whole + 1):
        twin = ConsumerStory(t=4)
        twin.shard.close()
        twin.log = story.log.copy(count)
        twin.shard = twin._shard(twin.log)
        owned = [(topic, one) for had in twin.current().values() for topic, of in had.items() for one in of]
        assert len(owned) == len(set(owned))
        state = twin.described()
        twin.restart()
        assert twin.described() == state


def test_members_live_on_after_a_restart_and_have_a_session_to_say_so() -> None:
    story = shared(ConsumerStory(t=4))
    story.restart()
    assert story.current() == {"A": {"t": [0, 1]}, "B": {"t": [2, 3]}}
    story.time.advance(44_000)
    assert story.say("A", 3).error_code == ErrorCode.NONE
    story.time.advance(2_000)
    assert list(story.current()) == ["A"]


def test_a_member_that_is_to_give_back_is_not_forgotten_by_a_restart() -> None:
    """It has its rebalance timeout for that, from the restart, however often it is heard of."""
    story = ConsumerStory(t=2)
    story.come("A", "t")
    story.come("B", "t")
    assert story.say("A", 2, owned={"t": [0, 1]}).member_epoch == 2
    story.restart()
    story.time.advance(30_000)
    assert story.say("A", 2, owned={"t": [0, 1]}).error_code == ErrorCode.NONE
    story.say("B", 3)
    story.time.advance(30_000)
    assert list(story.current()) == ["B"]


def test_the_partition_of_a_commit_may_be_older_than_the_member_is() -> None:
    """KIP-1251."""
    story = shared(ConsumerStory(t=4))
    mine = {"topic_id": topic_id("t"), "version": 10}
    assert story.commit(1, member="A", generation=3, **mine) is ErrorCode.NONE
    assert story.commit(2, member="A", generation=2, **mine) is ErrorCode.NONE
    assert story.commit(3, member="A", generation=2, partition=2, **mine) is ErrorCode.STALE_MEMBER_EPOCH
    assert story.commit(3, member="B", generation=2, partition=2, **mine) is ErrorCode.STALE_MEMBER_EPOCH
    assert story.commit(4, member="B", generation=4, partition=2, **mine) is ErrorCode.STALE_MEMBER_EPOCH
    assert story.commit(4, member="C", generation=3, **mine) is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.commit(4, member="A", generation=3, topic_id=topic_id("t")) is ErrorCode.UNSUPPORTED_VERSION
    assert story.commit(5, member="A", generation=1, producer=7) is ErrorCode.ILLEGAL_GENERATION
    assert story.offset(topic_id=topic_id("t")) == 2


def test_offsets_of_a_consumer_group_expire_by_their_commit_where_nobody_wants_the_topic() -> None:
    """With members and without, unlike those of a classic group."""
    day_ms = 24 * 3_600_000
    story = ConsumerStory(t=1, u=1)
    story.come("A", "t")
    for topic in ("t", "u"):
        assert story.commit(1, topic=topic, member="A", generation=2, version=9) is ErrorCode.NONE
    for _ in range(7 * 24 * 60 * 2 + 60):
        story.time.advance(30_000)
        story.say("A", 2)
    assert (story.offset(topic="t"), story.offset(topic="u")) == (1, -1)
    story.say("A", -1)
    story.time.advance(day_ms)
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its last offset was old, and so it went"


def test_a_group_whose_record_cannot_be_read_is_refused_until_it_is_deleted() -> None:
    """Half a group would give partitions to two members."""
    story = shared(ConsumerStory(t=4))
    key = next(entry.key for entry in story.entries() if isinstance(entry, ReplayedRecord) and entry.key[1] == 8)
    story.log.append([Record(key, b"\x00\x63")], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    assert story.shard.unreadable == 1
    refused = story.submit(lambda machine, ticket, now: machine.describe_consumer_group(GROUP, ticket, now))
    assert refused.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    story.time.advance(100_000_000)
    assert story.delete() is ErrorCode.NONE
    assert story.gets(story.come("A", "t")) == {"t": [0, 1, 2, 3]}
