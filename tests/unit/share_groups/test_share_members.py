"""Members of share groups: how they come, what they are told, how they go. The answers are Apache Kafka 4.3.1's."""

from typing import Any

import pytest

from coordinator.groups.share.protocol import Said
from coordinator.groups.share.records import ShareGroupMetadataKey
from coordinator.machine import Record
from protocol.codec import versioned_key
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.consumer_groups.story import topic_id
from tests.unit.groups.story import GROUP
from tests.unit.share_groups.story import ShareStory


def refused(answer: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(answer.error_code), answer.error_message


def test_partitions_are_assigned_when_the_share_coordinator_keeps_them() -> None:
    story = ShareStory(t=2)
    answer = story.say("m1", 0, "t")
    assert (answer.member_epoch, story.gets(answer)) == (2, {})
    assert story.shared() == ({"t": [0, 1]}, {}, [])
    assert story.gets(story.say("m1", 2)) is None and len(story.errands) == 1, "asked for once"
    story.keep_all()
    assert story.shared() == ({}, {"t": [0, 1]}, [])
    answer = story.say("m1", 2)
    assert (answer.member_epoch, story.gets(answer)) == (3, {"t": [0, 1]})
    assert story.gets(story.say("m1", 2)) is None, "the answer may have been lost: the epoch before is one, too"
    assert story.group_state() == ("Stable", 3, 3)
    story.restart()
    assert story.group_state() == ("Stable", 3, 3)
    assert story.gets(story.say("m1", 3)) is None
    assert story.errands == []


def test_several_members_share_a_partition() -> None:
    story = ShareStory(t=2)
    assert story.come("m1", "t") == 3
    answer = story.say("m2", 0, "t")
    assert (answer.member_epoch, len(story.gets(answer)["t"])) == (4, 1)  # type: ignore[index]
    assert story.gets(story.say("m1", 3)) != {"t": [0, 1]}
    answer = story.say("m3", 0, "t")
    assert answer.member_epoch == 5
    assert story.gets(story.say("m1", 4)) == {"t": [0, 1]}, "two places for each partition: the first has two"
    assert story.say("m3", -1).member_epoch == -1
    assert story.group_state() == ("Stable", 6, 5)
    assert story.gets(story.say("m1", 5)) != {"t": [0, 1]}
    assert story.group_state() == ("Stable", 6, 6)


def test_epochs_fence_members() -> None:
    story = ShareStory(t=2)
    story.come("m1", "t")
    rejoin = "The member must abandon all its partitions and rejoin."
    known = "than the one known by the group coordinator (3)"
    assert refused(story.say("m1", 9)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a greater member epoch (9) {known}. {rejoin}",
    )
    assert refused(story.say("m1", 1)) == (
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a smaller member epoch (1) {known}, and it does not match the previous member "
        f"epoch (2). {rejoin}",
    )
    answer = story.say("m1", 0, "t")
    assert (answer.member_epoch, story.gets(answer)) == (3, {"t": [0, 1]}), "it was away, and nothing has changed"
    nobody = f"Member m7 is not a member of group {GROUP}."
    assert refused(story.say("m7", 3)) == refused(story.say("m7", -1)) == (ErrorCode.UNKNOWN_MEMBER_ID, nobody)


def test_a_group_that_is_not_there_or_of_another_kind() -> None:
    story = ShareStory(t=2)
    assert refused(story.say("m1", 5)) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {GROUP} not found.")
    assert refused(story.say("m1", -1)) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
    assert refused(story.described()) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
    assert story.commit(5) is ErrorCode.NONE
    other = (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a share group.")
    assert refused(story.say("m1", 0, "t")) == refused(story.say("m1", -1)) == refused(story.described()) == other


def test_a_group_is_full() -> None:
    settings = FixedGroupSettings()
    settings.share.max_size = 1
    story = ShareStory(settings, t=1)
    story.come("m1", "t")
    full = "The share group has reached its maximum capacity of 1 members."
    assert refused(story.say("m2", 0, "t")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, full)
    assert story.say("m1", 0, "t").error_code == ErrorCode.NONE


def test_topics_come_grow_and_go() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t", "u")
    story.topics.set("u", 1)
    answer = story.say("m1", 3)
    assert (answer.member_epoch, story.gets(answer)) == (4, None), "another epoch, and nothing to have yet"
    story.keep_all()
    assert story.gets(story.say("m1", 4)) == {"t": [0], "u": [0]}
    story.topics.set("t", 3)
    story.say("m1", 5)
    assert story.shared() == ({"t": [1, 2]}, {"t": [0], "u": [0]}, [])
    story.keep_all()
    assert story.gets(story.say("m1", 6)) == {"t": [0, 1, 2], "u": [0]}
    story.topics.delete("u")
    assert story.gets(story.say("m1", 7)) == {"t": [0, 1, 2]}
    assert story.shared() == ({}, {"t": [0, 1, 2]}, []), "the share coordinator has noticed by itself"
    assert story.gets(story.say("m1", 8, "no")) == {}


def test_what_could_not_be_initialised_is_asked_for_again() -> None:
    story = ShareStory(t=2)
    story.say("m1", 0, "t")
    first = story.errands[0]
    story.keep({story.topics.by_name("t").topic_id: frozenset({1})})  # type: ignore[union-attr]
    assert story.shared() == ({}, {"t": [1]}, [])
    assert story.gets(story.say("m1", 2)) == {"t": [1]}
    (second,) = story.errands
    assert [set(of) for of in second.partitions.values()] == [{0}]
    assert second.state_epoch > first.state_epoch
    story.keep_all()
    assert story.gets(story.say("m1", 3)) == {"t": [0, 1]}


def test_what_nobody_has_heard_of_is_asked_for_again_in_a_while_and_after_a_restart() -> None:
    story = ShareStory(t=1)
    story.say("m1", 0, "t")
    story.errands.clear()
    story.time.advance(story.settings.share.initialize_retry_interval_ms - 1)
    story.say("m1", 2)
    assert story.errands == []
    story.time.advance(1)
    story.say("m1", 2)
    assert len(story.errands) == 1
    story.errands.clear()
    story.restart()
    story.say("m1", 2)
    assert len(story.errands) == 1
    story.keep_all()
    assert story.shared() == ({}, {"t": [0]}, [])


@pytest.mark.parametrize("restarts", [False, True])
def test_each_time_it_is_asked_for_has_an_epoch_of_its_own(restarts: bool) -> None:
    """What was asked for before, and comes late, finds a later one: it does not begin anew with what members read."""
    story = ShareStory(t=1)
    story.say("m1", 0, "t")
    for _ in range(3):
        if restarts:
            story.restart()
        story.time.advance(story.settings.share.initialize_retry_interval_ms)
        story.say("m1", 2)
    epochs = [one.state_epoch for one in story.errands]
    assert epochs == sorted(set(epochs)) and len(epochs) == 4
    assert epochs[-1] == story.shard.machine.shares.find(GROUP).epoch


def test_only_who_was_asked_last_is_heard() -> None:
    """Whoever was asked before is answered first, and members would read what the later one begins anew with."""
    story = ShareStory(t=2)
    t = topic_id("t")
    story.say("m1", 0, "t")
    story.time.advance(story.settings.share.initialize_retry_interval_ms)
    story.topics.set("u", 1)
    story.say("m1", 2, "t", "u")
    first, second = story.errands
    assert first.partitions == {t: frozenset({0, 1})} and second.partitions == {**first.partitions, topic_id("u"): {0}}
    story.keep(first.partitions)
    assert story.shared() == ({"t": [0, 1], "u": [0]}, {}, [])
    story.keep({t: frozenset({1}), topic_id("u"): frozenset({0})})
    assert story.shared() == ({}, {"t": [1], "u": [0]}, [])


def test_a_later_errand_may_ask_for_less() -> None:
    story = ShareStory(t=1)
    story.say("m1", 0, "t")
    story.topics.set("t", 2)
    story.say("m1", 2)
    first, second = story.errands
    assert (first.partitions, second.partitions) == ({topic_id("t"): {0}}, {topic_id("t"): {1}})
    story.keep(first.partitions)
    assert story.shared() == ({"t": [1]}, {"t": [0]}, [])
    story.keep(second.partitions)
    assert story.shared() == ({}, {"t": [0, 1]}, [])


@pytest.mark.parametrize("restarts", [False, True])
def test_what_nobody_has_heard_of_is_asked_for_again_when_the_clock_was_set_back(restarts: bool) -> None:
    """It says of itself that it was asked for at a time that has not come yet."""
    story = ShareStory(t=1)
    story.say("m1", 0, "t")
    story.errands.clear()
    story.time.advance(-1_800_000)
    if restarts:
        story.restart()
    story.say("m1", 2)
    assert len(story.errands) == 1
    story.keep_all()
    assert story.shared() == ({}, {"t": [0]}, [])


def test_a_silent_member_is_given_up() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.come("m2", "t")
    story.time.advance(30_000)
    story.say("m2", 4)
    story.restart()
    story.time.advance(44_999)
    assert len(story.described().members) == 2, "a restart begins the sessions anew"
    story.say("m2", 4)
    story.time.advance(1)
    assert [member.member_id for member in story.described().members] == ["m2"]
    story.time.advance(45_000)
    assert story.group_state()[0] == "Empty"


def test_a_refused_record_leaves_nothing_behind() -> None:
    story = ShareStory(t=1)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    ticket = story.submit(
        lambda machine, ticket, now: machine.shares.heartbeat(_said("m1", 0, "t"), ticket, now)  # type: ignore[arg-type]
    )
    assert ticket.errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert refused(story.say("m1", 2))[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert story.come("m1", "t") == 3
    assert story.shared() == ({}, {"t": [0]}, [])


def test_the_room_for_groups_is_bounded() -> None:
    story = ShareStory(FixedGroupSettings(max_held_bytes=60_000), t=1, u=10, v=100)
    assert refused(story.say("m1", 0, "v"))[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.come("m1", "t") == 3
    held = story.shard.machine.ledger.held.bytes
    story.say("m1", 3, "t", "u")
    story.keep_all()
    assert story.shard.machine.ledger.held.bytes - held > 6_500, "each share partition counts"
    assert refused(story.say("m2", 0, *(f"topic-{number:0200}" for number in range(300))))[0] is (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    story.say("m1", -1)
    story.forgotten(story.forget())
    story.delete()
    assert story.shard.machine.ledger.held.bytes == 0


def test_what_is_unreadable_is_refused_until_the_group_is_deleted() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    key = versioned_key(ShareGroupMetadataKey(group_id=GROUP))
    story.log.append([Record(key, b"\x00\x63")], stamp=None, now_ms=0)
    story.restart()
    ticket = story.submit(lambda machine, ticket, now: machine.shares.heartbeat(_said("m1", 3), ticket, now))  # type: ignore[arg-type]
    assert ticket.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert story.delete() is ErrorCode.NONE
    assert story.come("m1", "t") == 3


def test_the_epoch_says_what_the_topics_were() -> None:
    story = ShareStory(t=2)
    story.come("m1", "t")
    assert story.group.metadata_hash != 0
    before = story.group.metadata_hash
    story.say("m1", 3, "no")
    assert story.group.metadata_hash == 0
    story.say("m1", 4, "t")
    assert story.group.metadata_hash == before


def _said(member: str, epoch: int, *topics: str) -> Any:
    return Said(GROUP, member, epoch, "client", "/127.0.0.1", topics=frozenset(topics) if topics else None)


def test_the_topics_of_a_member_that_leaves_are_no_longer_those_of_the_group() -> None:
    """Its epoch rises once, and not once more when the next member looks at them."""
    story = ShareStory(t=1, u=1)
    first = story.come("m1", "t")
    second = story.come("m2", "t", "u")
    first = story.say("m1", first).member_epoch
    assert story.group_state() == ("Stable", second, second)
    story.say("m2", -1)
    story.restart()  # whoever comes next looks at the topics anew
    assert story.say("m1", first).member_epoch == second + 1
    assert story.say("m1", second + 1).member_epoch == second + 1
    assert story.group_state() == ("Stable", second + 1, second + 1)


def test_no_more_is_initialised_than_was_asked_for() -> None:
    story = ShareStory(t=2)
    story.say("m1", 0, "t")
    story.keep({topic_id("t"): frozenset(range(5)), b"o" * 16: frozenset({0})})
    assert story.shared() == ({}, {"t": [0, 1]}, [])
