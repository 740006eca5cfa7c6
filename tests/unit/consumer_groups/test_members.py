"""Static members, regular expressions, and groups that change their protocol."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupResponse
from tests.harness.group_settings import FixedConsumerSettings, FixedGroupSettings
from tests.harness.memory_shard_log import CollectingTicket
from tests.unit.consumer_groups.story import (
    REBALANCE_MS,
    ConsumerStory,
    assignment,
    classic_group,
    embedded,
    given,
)
from tests.unit.groups.story import joined, synced

# -- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_takes_its_own_place_again() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t", instance_id="one")
    assert story.come("B", "t", instance_id="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert story.say("A", -2, instance_id="one").member_epoch == -2
    assert story.group_state()[1:] == (2, 2)
    back = story.come("B", "t", instance_id="one")
    assert (back.member_epoch, story.gets(back), story.group_state()) == (2, {"t": [0, 1]}, ("Stable", 2, 2))
    assert story.say("A", 2, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.say("B", 2, instance_id="two").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    story.restart()
    assert story.current() == {"B": {"t": [0, 1]}}


def test_a_static_member_may_come_back_under_its_own_id() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t", instance_id="one")
    story.say("A", -2, instance_id="one")
    assert story.gets(story.come("A", "t", instance_id="one")) == {"t": [0, 1]}
    story.time.advance(44_999)
    assert list(story.current()) == ["A"]
    story.time.advance(1)
    assert story.current() == {}, "its session is watched as any other"


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_static_member_comes_back_to_a_group_that_is_full(protocol: str) -> None:
    """It takes a place that is its own, so the group does not grow (KAFKA-20601)."""
    story = ConsumerStory(FixedGroupSettings(consumer=FixedConsumerSettings(max_size=2)), t=2)
    story.settings.consumer.assignment_ms = 0
    story.come("A", "t", instance_id="one")
    story.come("B", "t", instance_id="two")
    story.say("A", -2, instance_id="one")
    assert story.come("C", "t", instance_id="three").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    if protocol == "consumer":
        assert story.come("C", "t", instance_id="one").member_epoch == 3
    else:
        back = joined(story.join("", instance="one", protocols=(("range", embedded("t")),)))
        assert (back.error_code, back.generation_id) == (ErrorCode.NONE, 3)
    assert len(story.described().members) == 2


def test_a_static_member_that_stays_away_is_given_up_when_its_session_ends() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t", instance_id="one")
    story.say("A", -2, instance_id="one")
    story.time.advance(45_000)
    assert story.group_state()[0] == "Empty"


def test_who_comes_after_a_static_member_may_commit_what_it_read() -> None:
    story = ConsumerStory(t=1)
    story.come("A", "t", instance_id="one")
    story.say("A", -2, instance_id="one")
    (member,) = story.shard.machine.ledger.consumers.by_id["orders"].members.values()
    assert [dict(epochs) for epochs in member.assigned.values()] == [{0: 0}]


def test_a_member_that_comes_again_with_an_instance_id_stays_the_one_it_is() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t", assignor="range")
    assert story.come("A", "t", instance_id="one").member_epoch == 2
    assert story.described().assignor_name == "range"
    assert [(member.member_id, member.instance_id) for member in story.described().members] == [("A", "one")]


# -- regular expressions ---------------------------------------------------------------------------------------------


def test_an_expression_stands_for_nothing_until_it_is_resolved() -> None:
    story = ConsumerStory(a1=1, a2=1, b=1)
    assert story.gets(story.come("A", topics=None, regex="a.*")) == {}
    (asked,) = story.resolutions
    assert asked.expressions == ("a.*",)
    story.say("A", 1)
    assert story.resolutions == [asked], "it is not asked for twice"
    story.resolve({"a.*": ["a1", "a2"]})
    assert story.gets(story.say("A", 1)) == {"a1": [0], "a2": [0]}
    story.restart()
    assert story.current() == {"A": {"a1": [0], "a2": [0]}}


def test_new_topics_are_looked_for_when_there_are_some_and_ten_seconds_have_gone_by() -> None:
    story = ConsumerStory(a1=1)
    story.come("A", topics=None, regex="a.*")
    story.resolve({"a.*": ["a1"]})
    story.say("A", 1)
    story.time.advance(10_001)
    story.say("A", 2)
    assert story.resolutions == []
    story.topics.set("a2", 1)
    story.say("A", 2)
    assert len(story.resolutions) == 1
    story.resolve({"a.*": ["a1", "a2"]})
    assert story.gets(story.say("A", 2)) == {"a1": [0], "a2": [0]}
    story.topics.set("a3", 1)
    story.say("A", 3)
    assert story.resolutions == [], "ten seconds have not gone by"
    story.time.advance(10_001)
    story.say("A", 3)
    assert len(story.resolutions) == 1


def test_what_could_not_be_found_out_is_asked_for_again() -> None:
    story = ConsumerStory(a=1)
    story.come("A", topics=None, regex="a")
    story.resolve(None)
    story.say("A", 1)
    assert story.resolutions == [], "not with each heartbeat"
    story.time.advance(10_000)
    story.say("A", 1)
    assert len(story.resolutions) == 1


def test_what_could_not_be_found_out_of_a_group_that_is_gone_is_forgotten() -> None:
    story = ConsumerStory(a=1)
    story.come("A", topics=None, regex="a")
    story.say("A", -1)
    assert story.delete() is ErrorCode.NONE
    story.resolve(None)
    assert not story.shard.machine._shard.soft.resolving


def test_when_nobody_looks_it_is_asked_for_again() -> None:
    """Its request was refused, or the one who asked has gone."""
    story = ConsumerStory(a=1)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(AssertionError, match="COORDINATOR_NOT_AVAILABLE"):
        story.come("A", topics=None, regex="a")
    story.come("A", topics=None, regex="a")
    assert story.resolutions == []
    story.time.advance(10_000)
    story.say("A", 1)
    assert len(story.resolutions) == 1


def test_an_expression_is_asked_for_as_long_as_anybody_wants_it() -> None:
    story = ConsumerStory(a=1, b=1)
    story.come("A", topics=None, regex="a")
    story.resolve({"a": ["a"]})
    epoch = story.come("B", topics=None, regex="a").member_epoch
    story.time.advance(10_001)
    assert story.say("B", epoch, regex="b").error_code == ErrorCode.NONE
    assert set(story.resolutions.pop().expressions) == {"a", "b"}
    group = story.shard.machine.ledger.consumers.by_id["orders"]
    assert list(group.resolved) == ["a"]
    story.time.advance(10_001)
    epoch = story.say("A", 1, regex="b").member_epoch
    assert list(group.resolved) == [], "nobody asks for it any more"
    assert story.say("A", epoch).error_code == ErrorCode.NONE
    asked = story.resolutions.pop()
    assert (asked.group_id, asked.expressions) == ("orders", ("b",))
    topics = story.topics
    assert (asked.creations, asked.offset, asked.asked_ms) == (topics.creations, topics.offset, story.time.now_ms())


def test_who_asks_for_what_is_known_already_is_given_it_at_once() -> None:
    story = ConsumerStory(a1=1, a2=1)
    story.come("A", topics=None, regex="a.*")
    story.resolve({"a.*": ["a1", "a2"]})
    epoch = story.group_state()[1]
    answer = story.come("B", topics=None, regex="a.*")
    assert (answer.member_epoch, story.group_state()[1:]) == (epoch + 1, (epoch + 1, epoch + 1))
    assert story.gets(answer) == {"a2": [0]} or story.gets(answer) == {"a1": [0]}


def test_one_of_two_expressions_stands_for_more() -> None:
    story = ConsumerStory(a=1, b=1)
    story.come("A", topics=None, regex="a.*")
    story.resolve({"a.*": ["a"]})
    story.come("B", topics=None, regex="b")
    story.time.advance(10_001)
    story.say("B", story.described().members[1].member_epoch)
    story.resolve({"b": ["b"], "a.*": ["a"]})
    before = story.group_state()[1]
    story.topics.set("c", 1)
    story.time.advance(10_001)
    assert story.say("A", 1).error_code == ErrorCode.NONE
    assert set(story.resolutions[0].expressions) == {"a.*", "b"}
    story.resolve({"a.*": ["a", "gone"], "b": ["b"]})
    assert story.group_state()[1] > before
    wanted = {"a.*": {"a", "gone"}, "b": {"b"}}
    group = story.shard.machine.ledger.consumers.by_id["orders"]
    assert {regex: set(of.topics) for regex, of in group.resolved.items()} == wanted


def test_an_expression_that_is_none_is_refused_where_it_is_new() -> None:
    story = ConsumerStory(a=1)
    refused = story.come("A", topics=None, regex="(", regex_problem="missing closing )")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_result_for_a_group_that_is_gone_changes_nothing() -> None:
    story = ConsumerStory(a=1)
    story.come("A", topics=None, regex="a")
    story.say("A", -1)
    story.delete()
    end = story.log.end_offset
    story.resolve({"a": ["a"]})
    assert story.log.end_offset == end


# -- between the protocols -------------------------------------------------------------------------------------------


def test_a_group_moves_to_the_consumer_protocol_and_back_while_its_members_work() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    new = story.come("B", "t")
    assert (new.member_epoch, story.gets(new)) == (2, {"t": [1]})
    assert story.group_state() == ("Reconciling", 2, 2)
    assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    protocols = (("range", embedded("t", owned={"t": [0]})),)
    answer: JoinGroupResponse = joined(story.join(old, protocols=protocols))
    assert (answer.generation_id, answer.leader, answer.members) == (2, "", [])
    assert given(synced(story.sync(old, 2)).assignment) == {"t": [0]}
    assert story.heartbeat(old, 2) is ErrorCode.NONE
    assert [member.member_type for member in story.described().members] == [0, 1]
    story.restart()
    assert story.heartbeat(old, 2) is ErrorCode.NONE
    story.say("B", -1)
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert story.state == "PreparingRebalance"
    assert story.heartbeat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    again = joined(story.join(old, protocols=protocols))
    assert (again.generation_id, again.leader) == (3, old)
    story.restart()
    assert story.state == "Stable"


def test_a_classic_member_gives_back_before_another_gets() -> None:
    story = ConsumerStory(t=2)
    first, second = classic_group(story, 2)
    new = story.come("B", "t")
    assert story.gets(new) == {}
    story.topics.set("t", 3)
    assert story.gets(story.say("B", 2)) == {"t": [2]}
    assert story.say("B", -1).error_code == ErrorCode.NONE
    assert story.state == "PreparingRebalance"
    assert story.heartbeat(first, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.heartbeat(second, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def rejoined(story: ConsumerStory, member: str) -> CollectingTicket:
    return story.join(member, protocols=(("range", embedded("t", owned={"t": [0]})),))


@pytest.mark.parametrize(("policy", "upgrades"), [("disabled", False), ("downgrade", False), ("upgrade", True)])
def test_the_policy_says_whether_a_group_may_move(policy: str, upgrades: bool) -> None:
    story = ConsumerStory(FixedGroupSettings(consumer=FixedConsumerSettings(migration_policy=policy)), t=2)
    (old,) = classic_group(story)
    error = story.come("B", "t").error_code
    assert error == (ErrorCode.NONE if upgrades else ErrorCode.GROUP_ID_NOT_FOUND)
    if upgrades:
        story.say("B", -1)
        assert story.group_state()[0] == "Assigning", "it may not go back"
        assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert given(synced(story.sync(old, joined(rejoined(story, old)).generation_id)).assignment) == {"t": [0, 1]}


def test_a_group_of_another_type_or_with_assignments_of_its_own_cannot_move() -> None:
    story = ConsumerStory(t=2)
    member = story.new_member(protocol_type="connect")
    story.join(member, protocol_type="connect")
    assert story.come("B", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shared = ConsumerStory(t=2)
    classic_group(shared, 2, lambda number: assignment("t", 0))
    assert shared.come("B", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "two members have one partition"
    strange = ConsumerStory(t=2)
    strange.stable()
    assert strange.come("B", "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its assignment is not a consumer's"


def test_members_that_wait_when_a_group_moves_are_told_to_come_again() -> None:
    story = ConsumerStory(t=2)
    classic_group(story)
    protocols = (("range", embedded("t")),)
    waiting = story.join(story.new_member(protocols=protocols), protocols=protocols)
    assert waiting.waiting
    assert story.come("B", "t").error_code == ErrorCode.NONE
    assert joined(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(story.current()) == 3


def test_a_group_goes_back_though_a_member_says_what_nobody_can_read() -> None:
    """Of the protocol that the others choose for it."""
    story = ConsumerStory(t=2)
    story.come("B", "t")
    for liked, other in (("range", "turns"), ("turns", "range"), ("turns", "range")):
        protocols = ((liked, embedded("t")), (other, b""))
        member = story.new_member(protocols=protocols)
        assert joined(story.join(member, protocols=protocols)).error_code == ErrorCode.NONE
    assert story.say("B", -1).error_code == ErrorCode.NONE
    assert story.state == "PreparingRebalance"


def test_a_consumer_that_is_refused_disturbs_nobody_in_a_classic_group() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    protocols = (("range", embedded("t")),)
    waiting = story.join(story.new_member(protocols=protocols), protocols=protocols)
    refused = story.come("B", topics=None, regex="(", regex_problem="missing closing )")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert waiting.waiting
    assert joined(story.join(old, protocols=protocols)).generation_id == 2
    assert joined(waiting).generation_id == 2


def test_a_classic_member_that_does_not_join_in_time_is_given_up() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story)
    story.come("B", "t")
    assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // 5_000):
        assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        story.say("B", 2)
        story.time.advance(5_000)
    assert list(story.current()) == ["B"]


def test_an_empty_group_changes_its_protocol_at_once_and_keeps_its_offsets() -> None:
    story = ConsumerStory(t=2)
    story.come("A", "t")
    story.say("A", -1)
    assert story.commit(7) is ErrorCode.NONE
    protocols = (("range", embedded("t")),)
    member = story.new_member(protocols=protocols)
    story.join(member, protocols=protocols)
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert story.offset() == 7
    story.leave(member)
    assert story.come("A", "t").error_code == ErrorCode.NONE
    story.restart()
    assert (story.group_state()[0], story.offset()) == ("Stable", 7)
