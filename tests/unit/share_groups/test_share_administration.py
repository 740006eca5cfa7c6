"""Offsets of share groups that administrators set and delete, groups that they delete, and groups of other kinds."""

from typing import cast

import pytest

from coordinator.groups.share.administration import PASSABLE
from coordinator.groups.share.answers import Errand, wanted_share_states
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, JoinGroupResponse
from tests.unit.consumer_groups.story import topic_id
from tests.unit.groups.story import GROUP
from tests.unit.share_groups.story import ShareStory


def test_offsets_are_set_of_groups_without_members_only() -> None:
    story = ShareStory(t=2, u=1)
    assert story.set_offsets({"t": [0]}).error is ErrorCode.NONE
    assert story.shared() == ({"t": [0]}, {}, [])
    story.keep_all()
    assert story.shared() == ({}, {"t": [0]}, []), "a group that was not there is made"
    assert story.group_state() == ("Empty", 1, 1)
    assert story.come("m1", "t") == 3
    assert story.shared() == ({}, {"t": [0, 1]}, []), "what was set is not begun anew"
    for prepared in (story.set_offsets({"t": [0]}), story.forget("t"), story.forget()):
        assert (prepared.error, prepared.message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    story.say("m1", -1)
    prepared = story.set_offsets({"t": [1], "u": [0]})
    assert prepared.errand is not None and prepared.errand.state_epoch == 4
    assert story.shared() == ({"t": [1], "u": [0]}, {"t": [0, 1]}, [])
    story.keep({topic_id("t"): frozenset({1})})
    assert story.shared() == ({}, {"t": [0, 1]}, []), "what the share coordinator refused is not there"
    assert story.set_offsets({}).error is ErrorCode.NONE


def test_a_member_that_comes_meanwhile_does_not_begin_anew_with_what_is_set() -> None:
    story = ShareStory(t=2)
    story.set_offsets({"t": [0]})
    story.say("m1", 0, "t")
    first, second = story.errands
    assert (first.partitions, second.partitions) == (
        {topic_id("t"): frozenset({0})},
        {topic_id("t"): frozenset({1})},
    )


def test_offsets_are_deleted_topic_by_topic() -> None:
    story = ShareStory(t=2, u=1)
    missing = story.forget("t")
    assert (missing.error, missing.message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
    story.set_offsets({"t": [0, 1], "u": [0]})
    story.keep_all()
    prepared = story.forget("t", "no")
    assert prepared.errand is not None
    assert prepared.errand.partitions == {topic_id("t"): frozenset({0, 1})}
    assert story.shared() == ({}, {"u": [0]}, ["t"])
    story.forgotten(prepared)
    assert story.shared() == ({}, {"u": [0]}, [])


def test_nothing_is_initialised_while_it_is_forgotten() -> None:
    story = ShareStory(t=1)
    story.set_offsets({"t": [0]})
    story.keep_all()
    prepared = story.forget("t")
    assert story.forget("t").error is story.set_offsets({"t": [0]}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    story.say("m1", 0, "t")
    assert story.errands == []
    story.forgotten(prepared)
    story.say("m1", 2)
    assert len(story.errands) == 1
    story.keep_all()
    assert story.gets(story.say("m1", 2)) == {"t": [0]}


def test_what_a_crash_has_left_of_a_deletion_is_deleted_or_begun_anew() -> None:
    story = ShareStory(t=2, u=1)
    story.set_offsets({"t": [0, 1], "u": [0]})
    story.keep_all()
    story.forget()
    story.restart()
    assert story.shared() == ({}, {}, ["t", "u"])
    again = story.forget()
    assert again.errand is not None
    assert again.errand.partitions == {topic_id("t"): frozenset({0, 1}), topic_id("u"): frozenset({0})}
    story.forgotten(again, "u")
    assert story.shared() == ({}, {}, ["u"])
    story.restart()
    assert story.come("m1", "u") == 3
    assert story.shared() == ({}, {"u": [0]}, [])


def test_a_deleted_group_leaves_nothing() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    assert story.delete() is ErrorCode.NON_EMPTY_GROUP
    story.say("m1", -1)
    story.forgotten(story.forget())
    assert story.delete() is ErrorCode.NONE
    assert story.delete() is ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.shard.machine.ledger.shares.by_id == {}
    assert story.shard.machine.ledger.held.bytes == 0
    assert story.come("m1", "t") == 3


def test_a_group_that_somebody_has_begun_with_again_is_not_deleted_until_that_is_forgotten() -> None:
    """Else the share coordinator would keep something of a group that is gone."""
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.say("m1", -1)
    story.forgotten(story.forget())
    story.set_offsets({"t": [0]})
    assert story.delete() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    story.forgotten(story.forget())
    assert story.delete() is ErrorCode.NONE


def test_other_protocols_find_no_group_of_theirs() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    joined = cast(JoinGroupResponse, story.join().answer)
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.commit(5) is ErrorCode.GROUP_ID_NOT_FOUND
    classic: DescribedGroup = story.ask(lambda machine, ticket, now: machine.describe_group(GROUP, ticket, now))
    assert (classic.error_code, classic.error_message, classic.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a classic group.",
        "Dead",
    )
    consumer = story.ask(lambda machine, ticket, now: machine.describe_consumer_group(GROUP, ticket, now)).group
    assert (consumer.error_code, consumer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a consumer group.",
    )


def test_groups_are_listed_by_state_and_type() -> None:
    story = ShareStory(t=1)
    story.come("m1", "t")
    story.set_offsets({"t": [0]}, group="other")

    def listed(states: list[str], types: list[str]) -> list[str]:
        wanted = wanted_share_states(states, types)
        found = story.ask(lambda machine, ticket, now: machine.share_administration.list_groups(wanted, ticket, now))
        return [group_id for group_id, _ in found]

    assert listed([], []) == listed([], ["Share"]) == [GROUP, "other"]
    assert listed(["stable"], []) == [GROUP]
    assert listed(["Empty"], ["share"]) == ["other"]
    assert listed([], ["consumer"]) == []


@pytest.mark.parametrize(("kept", "epoch"), [(3, 4), (8, 9), (PASSABLE - 1, PASSABLE)])
def test_the_epoch_passes_what_is_kept_with_one_that_the_group_never_had(kept: int, epoch: int) -> None:
    """The end of the group's log was lost, and what the share coordinator keeps was not."""
    story = ShareStory(t=2, u=1)
    story.say("m1", 0, "t", "u")
    errand = story.pass_by({("t", 0): 2, ("t", 1): kept, ("u", 0): 1})
    assert errand == Errand(GROUP, epoch, {topic_id("t"): frozenset({1})})
    story.restart()
    assert story.group_state() == ("Stable", epoch, 2), "it is in the log"


def test_what_nobody_waits_for_is_not_passed() -> None:
    """It is initialised by now, or was never to be: its members have read of it."""
    story = ShareStory(t=1)
    assert story.pass_by({("t", 0): 8}) is None, "there is no group"
    epoch = story.come("m1", "t")
    assert story.pass_by({("t", 0): 8, ("no", 0): 8}) is None
    story.topics.set("t", 2)
    story.say("m1", epoch)
    assert story.pass_by({("t", 1): PASSABLE}) is None, "the group could not change any more"
    story.keep_all()
    epoch = story.say("m1", epoch).member_epoch
    assert story.group_state() == ("Stable", epoch, epoch)
