"""Members of a consumer group that speak the classic protocol: what each of their requests is answered."""

from typing import Any

import pytest

from coordinator.groups.consumer.records import (
    ConsumerGroupMemberMetadataKey,
)
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from tests.unit.consumer_groups.story import (
    OWNS_0,
    REBALANCE_MS,
    ConsumerStory,
    T,
    assignment,
    classic_group,
    embedded,
    given,
    mixed,
)
from tests.unit.groups.story import SESSION_MS, joined, synced

# -- JoinGroup -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("turns", embedded("t")),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\xff\xff"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "one", "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_is_refused_changes_nothing(said: dict[str, Any], error: ErrorCode) -> None:
    story, _ = mixed()
    end, before = story.log.end_offset, story.described()
    refused = joined(story.join(**({"member_id": "C", "protocols": T} | said)))
    expected = JoinGroupResponse(
        error_code=error, protocol_name=None, leader="", member_id=said.get("member_id", "C"), members=[]
    )
    assert refused == expected
    assert (story.log.end_offset, story.described()) == (end, before)


def test_the_classic_protocol_may_be_switched_off_and_a_group_may_be_full() -> None:
    story, old = mixed()
    story.settings.consumer.max_size = 2
    assert joined(story.join("C", protocols=T)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(story.join(old, protocols=OWNS_0)).error_code == ErrorCode.NONE
    story.settings.consumer.migration_policy = "disabled"
    assert joined(story.join(old, protocols=OWNS_0)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_joins_must_speak_what_all_others_speak() -> None:
    story = ConsumerStory(t=2)
    story.come("B", "t")
    both = (("turns", embedded("t")), ("range", embedded("t")))
    first = joined(story.join("C", protocols=both))
    assert (first.error_code, first.protocol_name) == (ErrorCode.NONE, "turns")
    assert joined(story.join("D", protocols=T)).error_code == ErrorCode.NONE
    other = (("turns", embedded("t")), ("sticky", embedded("t")))
    assert joined(story.join("E", protocols=other)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joined(story.join("E", protocols=(("sticky", embedded("t")), *T))).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("version", "instance"), [(3, None), (9, "one")])
def test_a_new_member_gets_its_id_at_once_or_asks_with_it_again(version: int, instance: str | None) -> None:
    story, _ = mixed()
    answer = joined(story.join(protocols=T, version=version, instance=instance))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 3)
    assert story.gets(story.say("B", 2)) == {"t": [1]} or story.group_state()[1] == 3
    assert answer.member_id in [member.member_id for member in story.described().members]
    asked = joined(story.join(protocols=T, version=4))
    assert (asked.error_code, asked.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert asked.member_id and asked.member_id not in [member.member_id for member in story.described().members]


def test_what_a_member_says_of_itself_is_written_down() -> None:
    story, old = mixed()
    metadata = embedded("t", "u", owned={"t": [0]}, rack="left")
    protocols = (("range", metadata), ("turns", b"1"), ("range", b"2"))
    story.join(old, protocols=protocols, client="other", session_ms=7_000, rebalance_ms=8_000)
    ((_, value),) = [one for one in story.written() if one[0] == _member_key(old)][-1:]
    assert (
        value.rack_id,  # type: ignore[attr-defined]
        value.client_id,  # type: ignore[attr-defined]
        value.client_host,  # type: ignore[attr-defined]
        value.rebalance_timeout_ms,  # type: ignore[attr-defined]
        value.subscribed_topic_names,  # type: ignore[attr-defined]
        value.subscribed_topic_regex,  # type: ignore[attr-defined]
        value.server_assignor,  # type: ignore[attr-defined]
    ) == ("left", "other", "/127.0.0.1", 8_000, ["t", "u"], "", None)
    classic = value.classic_member_metadata  # type: ignore[attr-defined]
    said = [(one.name, bytes(one.metadata)) for one in classic.supported_protocols]
    assert (classic.session_timeout_ms, said) == (7_000, [("range", metadata), ("turns", b"1")])
    story.join(old, protocols=OWNS_0, session_ms=7_000, rebalance_ms=-1)
    ((_, value),) = [one for one in story.written() if one[0] == _member_key(old)][-1:]
    assert (value.rebalance_timeout_ms, value.rack_id) == (7_000, "left")  # type: ignore[attr-defined]


def _member_key(member: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id="orders", member_id=member)


def test_a_static_member_takes_the_place_of_the_one_before() -> None:
    story = ConsumerStory(t=2)
    story.come("B", "t")
    first = joined(story.join(protocols=T, instance="one"))
    assert first.generation_id == 3
    story.say("B", 2, owned={"t": [0]})
    assert joined(story.join(first.member_id, protocols=T, instance="one")).generation_id == 3
    assert given(synced(story.sync(first.member_id, 3, instance="one")).assignment) == {"t": [1]}
    second = joined(story.join(protocols=T, instance="one"))
    assert (second.generation_id, second.member_id != first.member_id) == (3, True)
    assert given(synced(story.sync(second.member_id, 3, instance="one")).assignment) == {"t": [1]}
    assert joined(story.join(first.member_id, protocols=T, instance="one")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.sync(first.member_id, 3, instance="one").answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert story.heartbeat(first.member_id, 3, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    assert story.group_state() == ("Stable", 3, 3)


# -- SyncGroup -------------------------------------------------------------------------------------------------------


def test_who_may_fetch_an_assignment() -> None:
    story, old = mixed()
    for member, generation, said, error in (
        ("C", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("B", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        (old, 2, {"instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (old, 1, {}, ErrorCode.ILLEGAL_GENERATION),
        (old, 3, {}, ErrorCode.ILLEGAL_GENERATION),
        (old, 2, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (old, 2, {"protocol": "turns"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        refused = synced(story.sync(member, generation, **said))  # type: ignore[arg-type]
        assert refused == SyncGroupResponse(error_code=error, assignment=b""), said
    answer = synced(story.sync(old, 2, protocol_type="consumer", protocol="range"))
    assert answer == SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=assignment("t", 0))
    bare = synced(story.sync(old, 2))
    assert (bare.protocol_type, bare.protocol_name, given(bare.assignment)) == (None, None, {"t": [0]})


def test_an_assignment_is_told_in_the_version_of_the_subscription_and_without_topics_that_are_gone() -> None:
    story, old = mixed()
    assert synced(story.sync(old, 2)).assignment[:2] == b"\0\3"
    story.topics.delete("t")
    assert given(synced(story.sync(old, 2)).assignment) == {}


def test_a_newer_assignment_makes_a_member_join_again_in_time() -> None:
    story, old = mixed()
    story.topics.set("t", 4)
    story.say("B", 2)
    refused = synced(story.sync(old, 2))
    assert refused == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")
    for _ in range(REBALANCE_MS // 5_000):
        assert story.heartbeat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        story.say("B", 3)
        story.time.advance(5_000)
    assert story.heartbeat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_joins_and_does_not_fetch_its_assignment_in_time_is_given_up() -> None:
    story, old = mixed()
    story.join(old, protocols=OWNS_0)
    for _ in range(REBALANCE_MS // 5_000):
        assert story.heartbeat(old, 2) is ErrorCode.NONE
        story.say("B", 2)
        story.time.advance(5_000)
    assert story.heartbeat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_has_fetched_its_assignment_stays() -> None:
    story, old = mixed()
    for _ in range(REBALANCE_MS // 5_000 + 2):
        assert story.heartbeat(old, 2) is ErrorCode.NONE
        story.say("B", 2)
        story.time.advance(5_000)
    assert story.heartbeat(old, 2) is ErrorCode.NONE


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "sync", "join"])
def test_a_member_has_its_own_session_after_each_sign_of_life(sign_of_life: str) -> None:
    story, old = mixed()
    story.time.advance(5_000)
    if sign_of_life == "heartbeat":
        assert story.heartbeat(old, 2) is ErrorCode.NONE
    elif sign_of_life == "sync":
        assert synced(story.sync(old, 2)).error_code == ErrorCode.NONE
    else:
        assert joined(story.join(old, protocols=OWNS_0)).error_code == ErrorCode.NONE
    story.time.advance(SESSION_MS - 1)
    assert old in story.current()
    story.time.advance(1)
    assert list(story.current()) == ["B"]


# -- Heartbeat -------------------------------------------------------------------------------------------------------


def test_who_may_send_heartbeats() -> None:
    story, old = mixed()
    assert story.heartbeat("C", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat("B", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.heartbeat(old, 1) is ErrorCode.ILLEGAL_GENERATION
    assert story.heartbeat(old, 3) is ErrorCode.ILLEGAL_GENERATION
    assert story.heartbeat(old, 2, instance="one") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_joins_again_when_what_it_waits_for_is_free() -> None:
    story = ConsumerStory(t=2)
    assert story.gets(story.come("B", "t")) == {"t": [0, 1]}
    new = joined(story.join("C", protocols=T))
    assert given(synced(story.sync("C", new.generation_id)).assignment) == {}
    assert story.heartbeat("C", 3) is ErrorCode.NONE, "B has given nothing back"
    story.say("B", 2, owned={"t": [0, 1]})
    assert story.heartbeat("C", 3) is ErrorCode.NONE
    assert story.say("B", 2, owned={"t": [0]}).member_epoch == 3
    assert story.heartbeat("C", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(story.join("C", protocols=T)).generation_id == 3
    assert given(synced(story.sync("C", 3)).assignment) == {"t": [1]}
    assert story.heartbeat("C", 3) is ErrorCode.NONE


def test_a_member_joins_again_when_all_that_it_waits_for_is_free() -> None:
    story = ConsumerStory(t=6)
    story.come("A", "t")
    story.come("B", "t")
    story.say("A", 2, owned={"t": [0, 1, 2]})
    assert story.gets(story.say("B", 3)) == {"t": [3, 4, 5]}
    assert joined(story.join("C", protocols=T)).generation_id == 4
    story.sync("C", 4)
    assert story.gets(story.say("A", 3, owned={"t": [0, 1, 2]})) == {"t": [0, 1]}
    assert story.gets(story.say("B", 3, owned={"t": [3, 4, 5]})) == {"t": [3, 4]}
    assert story.say("A", 3, owned={"t": [0, 1]}).member_epoch == 4
    assert story.heartbeat("C", 4) is ErrorCode.NONE, "B has not given back what C waits for, too"
    assert story.say("B", 3, owned={"t": [3, 4]}).member_epoch == 4
    assert story.heartbeat("C", 4) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_is_to_give_back_joins_again() -> None:
    story = ConsumerStory(t=2)
    (old,) = classic_group(story, share=lambda _: assignment("t", 0, 1))
    assert story.gets(story.come("B", "t")) == {}
    assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    both = (("range", embedded("t", owned={"t": [0, 1]})),)
    assert joined(story.join(old, protocols=both)).generation_id == 1
    assert given(synced(story.sync(old, 1)).assignment) == {"t": [0]}
    assert story.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS, "it has not given 1 back"
    assert joined(story.join(old, protocols=OWNS_0)).generation_id == 2
    assert story.heartbeat(old, 2) is ErrorCode.NONE
    assert story.gets(story.say("B", 2)) == {"t": [1]}


# -- LeaveGroup ------------------------------------------------------------------------------------------------------


def test_each_that_leaves_is_answered_and_whoever_may_is_gone() -> None:
    story, old = mixed()
    story.come("D", "t", instance_id="four")
    story.come("S", "t", instance_id="six")
    story.come("E", "t")
    answer = story.submit_leave(
        "stranger", "B", "B", instances=[("", "four"), ("D", "six"), ("S", "seven"), ("S", "six")]
    ).answer
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("B", None, ErrorCode.NONE),
        ("B", None, ErrorCode.NONE),
        ("", "four", ErrorCode.NONE),
        ("D", "six", ErrorCode.FENCED_INSTANCE_ID),
        ("S", "seven", ErrorCode.UNKNOWN_MEMBER_ID),
        ("S", "six", ErrorCode.NONE),
    ]
    assert list(story.current()) == [old, "E"]
    story.restart()
    assert list(story.current()) == [old, "E"]


def test_when_nobody_leaves_nothing_is_written() -> None:
    story, _ = mixed()
    end = story.log.end_offset
    assert story.leave("stranger") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert story.log.end_offset == end
