"""What members of streams groups hold, to the byte; what they may name; and what a later release leaves of them."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.held import MEMBER_BYTES
from coordinator.groups.streams.log_entries import current_assignment
from coordinator.groups.streams.member import NO_TASKS, HeldTasks, MemberState, StreamsMember, Tasks
from coordinator.groups.streams.records import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from coordinator.groups.streams.topology import Copartitioned, InternalTopic, Topology
from coordinator.machine import Record
from protocol.codec import versioned, versioned_key
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings, FixedStreamsSettings
from tests.unit.streams_groups.story import GROUP, StreamsStory, application, reads, tasks

A = StreamsMember("A")
APPLICATION = application(reads("t"))
HELD = HeldTasks({"0": {0: 1, 1: 1}}, {"1": frozenset((0,))}, {"2": frozenset((0, 1, 2))})
HELD_BYTES = 3 * 250 + 6 * 50
FENCED, REFUSED = ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.COORDINATOR_NOT_AVAILABLE

# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"instance_id": "xy"}, 2),
        ({"rack_id": "abc"}, 3),
        ({"client_id": "four"}, 4),
        ({"client_host": "/five"}, 5),
        ({"process_id": "process"}, 7),
        ({"endpoint": ("here", 8080)}, 4),
        ({"tags": (("zone", "left"), ("a", "b"))}, 150 + 8 + 150 + 2),
        ({"assigned": HELD}, HELD_BYTES),
        ({"revoking": HELD}, HELD_BYTES),
        ({"member_id": "ABC"}, 2),
        ({"rack_id": "abc", "process_id": "process", "tags": (("zone", "left"),)}, 3 + 7 + 150 + 8),
    ],
)
def test_a_member_counts_what_it_says_and_has(change: dict[str, Any], more: int) -> None:
    assert NO_TASKS.held_bytes == 200
    assert A.held_bytes == MEMBER_BYTES + 1 + 2 * 200
    assert replace(A, **change).held_bytes == A.held_bytes + more


def test_an_application_counts_all_that_it_is_made_of() -> None:
    assert Topology(0, ()).held_bytes == 500
    log = InternalTopic("log", 1, 1, (("cleanup.policy", "compact"), ("a", "b")))
    plain = replace(reads("t1", "t22", subtopology_id="sub"), changelogs=(), repartition_sources=())
    whole = replace(
        plain,
        repartition_sinks=("sink",),
        changelogs=(log,),
        repartition_sources=(InternalTopic("r", 0, 0, ()),),
        copartitioned=(Copartitioned((0, 1), ()), Copartitioned((0,), (0,))),
    )
    plain_bytes = 500 + 3 + 80 + 2 + 80 + 3
    more = 80 + 4 + 200 + 3 + 150 + 21 + 150 + 2 + 200 + 1 + 2 * 100
    assert application(plain).held_bytes == 500 + plain_bytes
    assert application(whole).held_bytes == 500 + plain_bytes + more
    assert application(plain, replace(whole, subtopology_id="other")).held_bytes == 502 + 2 * plain_bytes + more


def test_a_member_needs_room_for_what_is_more_to_the_byte() -> None:
    story = StreamsStory(t=1)
    assert story.come("A", APPLICATION).error_code == ErrorCode.NONE
    held = story.shard.machine.ledger.held
    new = StreamsMember("B", client_id="client", client_host="/127.0.0.1", process_id="process of B")
    story.settings.max_held_bytes = held.bytes + new.held_bytes - 1
    assert story.come("B", APPLICATION).error_code == REFUSED
    assert list(story.current()) == ["A"]
    story.settings.max_held_bytes += 1
    assert story.come("B", APPLICATION).error_code == ErrorCode.NONE
    story.settings.max_held_bytes = held.bytes + 3
    assert story.say("A", 2, rack_id="four").error_code == REFUSED
    assert story.say("A", 2, rack_id="two").error_code == ErrorCode.NONE


# -- what members name -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owned", "error"),
    [
        (None, FENCED),
        (tasks({}), ErrorCode.NONE),
        (tasks({"0": [0]}), ErrorCode.NONE),
        (tasks({"0": [0, 1]}), ErrorCode.NONE),
        (tasks({}, {"0": [0]}), FENCED),
        (tasks({"0": [0]}, {"0": [1]}), FENCED),
        (Tasks({"0": frozenset((0,))}, {}, {"0": frozenset((1,))}), FENCED),
    ],
)
def test_who_comes_with_the_epoch_before_must_name_what_it_has_alone(owned: Tasks | None, error: ErrorCode) -> None:
    """The answer that told it of the next epoch may have been lost."""
    story = StreamsStory(t=2)
    story.come("A", APPLICATION)
    group = story.shard.machine.ledger.streams.by_id[GROUP]
    assert (group.members["A"].previous_epoch, group.members["A"].epoch) == (0, 2)
    story.topics.set("t", 2)
    story.come("B", APPLICATION)
    story.say("B", -1)
    assert story.say("A", 2, owned=tasks({"0": [0, 1]})).member_epoch == 4
    assert story.say("A", 2, owned=owned).error_code == error


@pytest.mark.parametrize("named", [None, tasks({"0": [0]}), tasks({}, {"0": [0]})])
def test_a_member_in_a_state_of_a_later_release_begins_anew_when_it_has_nothing(named: Tasks | None) -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION)
    group = story.shard.machine.ledger.streams.by_id[GROUP]
    odd = replace(group.members["A"], state=MemberState.UNKNOWN)
    story.log.append([current_assignment(GROUP, odd)], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    refused = story.say("A", 2, owned=named)
    assert (refused.error_code, refused.error_message) == (
        FENCED,
        "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
    )
    assert story.group_state()[0] == "Reconciling"
    assert story.say("A", 2, owned=tasks({})).member_epoch == 2
    assert (story.group_state()[0], story.current()) == ("Stable", {"A": {"0": [0, 1]}})


@pytest.mark.parametrize(("named", "gives_back"), [(tasks({"0": [1]}), False), (tasks({"0": [0]}), True)])
def test_a_member_gives_back_when_it_names_none_of_what_it_is_to_lose(named: Tasks, gives_back: bool) -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION)
    story.come("B", APPLICATION)
    assert story.say("A", 2, owned=tasks({"0": [0, 1]})).member_epoch == 2
    assert story.say("A", 2, owned=named).member_epoch == (3 if gives_back else 2)


# -- the log ---------------------------------------------------------------------------------------------------------


def test_a_member_that_the_log_does_not_let_go_is_given_up_later() -> None:
    story = StreamsStory(t=1)
    story.come("A", APPLICATION)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    story.time.advance(45_000)
    assert list(story.current()) == ["A"]
    story.time.advance(999)
    assert list(story.current()) == ["A"]
    story.time.advance(1)
    assert story.current() == {}


def test_members_of_a_record_without_epochs_have_had_their_tasks_since_their_own() -> None:
    """Kafka before 4.3 writes none (KIP-1251)."""
    story = StreamsStory(t=2)
    story.come("A", APPLICATION)
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=1,
        active_tasks=[CurrentTaskIds(subtopology_id="0", partitions=[0, 1])],
        standby_tasks=[],
        warmup_tasks=[],
        active_tasks_pending_revocation=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="A")
    story.log.append([Record(versioned_key(key), versioned(value, 0))], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    member = story.shard.machine.ledger.streams.by_id[GROUP].members["A"]
    assert (member.epoch, member.previous_epoch, member.assigned) == (7, 6, HeldTasks({"0": {0: 7, 1: 7}}, {}, {}))


# -- times -----------------------------------------------------------------------------------------------------------


def test_the_first_tasks_wait_for_a_millisecond_if_that_is_said() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(delay_ms=1)), t=1)
    assert story.runs(story.come("A", APPLICATION)) == {}
    story.time.advance(1)
    assert story.runs(story.say("A", 1)) == {"0": [0]}


@pytest.mark.parametrize("timeout_ms", [-1, 0])
def test_a_member_without_a_rebalance_timeout_gives_back_at_once_or_goes(timeout_ms: int) -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION, rebalance_timeout_ms=timeout_ms)
    story.come("B", APPLICATION)
    story.say("A", 2)
    assert list(story.current()) == ["A", "B"]
    story.tick()
    assert list(story.current()) == ["B"]


def test_groups_that_go_together_leave_nothing_behind() -> None:
    story = StreamsStory(FixedGroupSettings(offsets_retention_check_interval_ms=60_000), t=1)
    for group in ("one", "other"):
        story.come("A", APPLICATION, group_id=group)
        story.say("A", -1, group_id=group)
    story.time.advance(59_999)
    assert list(story.shard.machine.ledger.streams.by_id) == ["one", "other"]
    story.time.advance(1)
    assert list(story.shard.machine.ledger.streams.by_id) == []
    story.tick()
    assert story.shard.machine._streams_shard.soft.seen == {}
