"""Members of streams groups: what they are told, for how long they are waited for, and what a restart leaves of it."""

import pytest

from coordinator.groups.held import LOGGED_GROUP_BYTES, Held
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from coordinator.machine import Record, ReplayedRecord
from protocol.codec import versioned_key
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings, FixedStreamsSettings
from tests.unit.streams_groups.story import GROUP, StreamsStory, application, internal, reads, share, tasks

APPLICATION = application(reads("t"))
STATEFUL = application(reads("t", keeps=["log"]))
SESSION_MS = 45_000
KEYS = (
    StreamsGroupMetadataKey(group_id=GROUP),
    StreamsGroupMemberMetadataKey(group_id=GROUP, member_id="A"),
    StreamsGroupTargetAssignmentMetadataKey(group_id=GROUP),
    StreamsGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="A"),
    StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="A"),
    StreamsGroupTopologyKey(group_id=GROUP),
)
"""Of each kind of record that a group has."""


def of_two() -> StreamsStory:
    """A has given one of its tasks back to B."""
    story = StreamsStory(t=2)
    assert story.runs(story.come("A", APPLICATION)) == {"0": [0, 1]}
    assert story.runs(story.come("B", APPLICATION)) == {}
    assert story.runs(story.say("A", 2)) == {"0": [0]}
    assert story.say("A", 2, owned=tasks({"0": [0]})).member_epoch == 3
    assert story.runs(story.say("B", 3)) == {"0": [1]}
    return story


def test_a_task_is_given_to_its_next_member_when_the_former_has_given_it_back() -> None:
    story = of_two()
    assert story.current() == {"A": {"0": [0]}, "B": {"0": [1]}}
    assert story.group_state() == ("Stable", 3, 3)


def test_a_task_of_a_member_that_is_gone_is_free() -> None:
    story = of_two()
    assert story.say("A", -1).member_epoch == -1
    assert story.runs(story.say("B", 3)) == {"0": [0, 1]}


def test_members_are_given_up_when_their_sessions_end() -> None:
    story = of_two()
    story.time.advance(SESSION_MS - 1)
    story.say("B", 3)
    story.time.advance(1)
    assert list(story.current()) == ["B"]
    assert story.say("A", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.runs(story.say("B", 3)) == {"0": [0, 1]}


def test_a_member_that_does_not_give_back_is_given_up_in_its_rebalance_timeout() -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION, rebalance_timeout_ms=20_000)
    story.come("B", APPLICATION)
    assert story.runs(story.say("A", 2)) == {"0": [0]}
    story.time.advance(19_999)
    assert story.say("A", 2, owned=tasks({"0": [0, 1]})).error_code == ErrorCode.NONE
    story.time.advance(1)
    assert list(story.current()) == ["B"]


def test_a_member_that_gives_back_in_time_stays() -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION, rebalance_timeout_ms=20_000)
    story.come("B", APPLICATION)
    story.say("A", 2)
    assert story.say("A", 2, owned=tasks({"0": [0]})).member_epoch == 3
    story.time.advance(30_000)
    assert list(story.current()) == ["A", "B"]


def test_a_restart_leaves_everything_that_is_logged() -> None:
    story = of_two()
    before = story.described()
    story.restart()
    assert story.described() == before
    assert story.say("A", 3).member_epoch == 3
    assert story.say("B", 3, owned=tasks({"0": [0, 1]})).error_code == ErrorCode.NONE
    story.restart()
    story.time.advance(SESSION_MS)
    assert story.group_state()[0] == "Empty"


def test_a_member_that_is_to_give_back_is_not_forgotten_by_a_restart() -> None:
    story = StreamsStory(t=2)
    story.come("A", APPLICATION, rebalance_timeout_ms=20_000)
    story.come("B", APPLICATION)
    story.say("A", 2)
    story.restart()
    assert story.runs(story.say("B", 3)) is None, "A has not given it back"
    story.time.advance(20_000)
    assert list(story.current()) == ["B"]


def test_the_first_tasks_wait_for_more_members() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(delay_ms=3_000)), t=2)
    delayed = [(5, "Assignment delayed due to the configured initial rebalance delay.")]
    first = story.come("A", APPLICATION)
    assert (first.member_epoch, story.runs(first), story.statuses(first)) == (1, {}, delayed)
    story.time.advance(2_999)
    assert story.statuses(story.come("B", APPLICATION)) == delayed, "those who come do not prolong it"
    story.time.advance(1)
    assert story.group_state() == ("Reconciling", 3, 3)
    assert [story.runs(story.say(member, 1)) for member in "AB"] == [{"0": [0]}, {"0": [1]}]
    story.say("A", -1)
    story.say("B", -1)
    assert story.statuses(story.come("A", APPLICATION)) == delayed, "a group that was empty begins again"


def test_a_group_that_waited_for_its_members_goes_on_after_a_restart() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(delay_ms=3_000)), t=2)
    story.come("A", APPLICATION)
    story.restart()
    assert story.runs(story.say("A", 1)) == {"0": [0, 1]}


def test_a_topology_that_turns_out_to_be_wrong_while_its_first_tasks_wait() -> None:
    """As long as a source is missing, nobody looks for loops."""
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(delay_ms=3_000)))
    loop = application(reads("t", repartition=[internal("r")], writes=["r"]))
    assert story.come("A", loop).error_code == ErrorCode.NONE
    story.topics.set("t", 2)
    story.time.advance(3_000)
    assert story.say("A", 1).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert story.described().group_state == "NotReady"


def test_a_delay_ends_with_its_group() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(delay_ms=3_000)), t=2)
    story.come("A", APPLICATION)
    story.say("A", -1)
    written = len(list(story.entries()))
    story.time.advance(3_000)
    assert len(list(story.entries())) == written
    assert story.group_state() == ("Empty", 3, 1)


def test_an_assignment_waits_for_the_interval() -> None:
    story = StreamsStory(t=2)
    story.settings.streams.assignment_ms = 1_000
    story.come("A", APPLICATION)
    late = story.come("B", APPLICATION)
    assert story.statuses(late) == [(5, "Assignment delayed due to the configured assignment interval.")]
    assert (late.member_epoch, story.group_state()) == (2, ("Assigning", 3, 2))
    story.time.advance(999)
    assert story.say("B", 2).member_epoch == 2
    story.time.advance(1)
    assert (story.say("B", 2).member_epoch, story.group_state()) == (3, ("Reconciling", 3, 3))


def test_internal_topics_are_asked_for_until_they_are_there() -> None:
    story = StreamsStory(t=2)
    answer = story.come("A", STATEFUL)
    assert story.statuses(answer) == [(3, "Internal topics are missing: log")]
    assert (story.wanted, story.group_state()[0]) == ([("log", 2)], "NotReady")
    assert story.statuses(story.say("A", 2)) == [(3, "Internal topics are missing: log")]
    story.topics.set("log", 2)
    assert (story.runs(story.say("A", 2)), story.wanted, story.group_state()[0]) == ({"0": [0, 1]}, [], "Stable")


def test_copies_are_kept_by_other_processes_only() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(standbys=1)), t=1, log=1)
    story.come("A", STATEFUL, process_id="P")
    assert share(story.come("B", STATEFUL, process_id="P").standby_tasks or []) == {}
    assert share(story.come("C", STATEFUL, process_id="Q").standby_tasks or []) == {"0": [0]}


def test_a_copy_becomes_active_when_it_is_given_back_as_a_copy() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(standbys=1)), t=1, log=1)
    story.come("A", STATEFUL)
    assert share(story.come("B", STATEFUL).standby_tasks or []) == {"0": [0]}
    story.say("A", -1)
    told = story.say("B", 3)
    assert (story.runs(told), share(told.standby_tasks or []), told.member_epoch) == ({}, {}, 3)
    assert story.runs(story.say("B", 3, owned=tasks({}))) is None, "the state is in its process until now"
    assert story.runs(story.say("B", 4)) == {"0": [0]}


def test_a_group_has_as_many_members_as_it_may() -> None:
    story = StreamsStory(FixedGroupSettings(streams=FixedStreamsSettings(max_size=1)), t=1)
    story.come("A", APPLICATION)
    assert story.come("B", APPLICATION).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.come("A", APPLICATION).error_code == ErrorCode.NONE


def test_members_without_room_are_refused() -> None:
    story = StreamsStory(FixedGroupSettings(max_held_bytes=4_000), t=1)
    assert story.come("A", APPLICATION).error_code == ErrorCode.NONE
    assert story.come("B", APPLICATION).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.say("A", 2).error_code == ErrorCode.NONE


def test_a_topology_needs_room() -> None:
    story = StreamsStory(FixedGroupSettings(max_held_bytes=4_000), t=1)
    large = application(*(reads("t", subtopology_id=f"{number}") for number in range(6)))
    assert story.come("A", large).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert story.come("A", APPLICATION).error_code == ErrorCode.NONE


def test_a_shutdown_is_known_until_the_group_is_empty() -> None:
    story = of_two()
    said = "Streams group member A encountered a fatal error and requested a shutdown for the entire application."
    assert story.statuses(story.say("A", 3, shuts_down=True)) == [(4, said)]
    story.say("A", -1)
    assert story.statuses(story.say("B", 3)) == [(4, said)]
    story.say("B", -1)
    assert story.statuses(story.come("C", APPLICATION)) == []


def test_members_hear_of_each_others_endpoints_when_something_has_changed() -> None:
    story = StreamsStory(t=2)
    first = story.come("A", APPLICATION, endpoint=("here", 80))
    assert first.endpoint_information_epoch == 0
    ((told),) = first.partitions_by_user_endpoint or []
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("here", 80)
    assert [(one.topic, one.partitions) for one in told.active_partitions] == [("t", [0, 1])]
    assert story.say("A", 2, endpoint_epoch=0).partitions_by_user_endpoint is None
    assert story.come("B", APPLICATION).endpoint_information_epoch == 0, "it cannot be reached"
    assert story.say("A", 2).endpoint_information_epoch == 1
    story.restart()
    assert story.say("A", 2).endpoint_information_epoch == 0


# -- the log ---------------------------------------------------------------------------------------------------------


def test_a_log_that_is_half_compacted_gives_a_task_to_the_later_record() -> None:
    story = of_two()
    group = story.shard.machine.ledger.streams.by_id[GROUP]
    moved = group.members["A"].moved(4, group.members["A"].state, group.members["B"].assigned)
    group.put(moved)
    runner = group.runs("0", 1)
    assert runner is not None and runner.member_id == "A"
    group.remove("B")
    runner = group.runs("0", 1)
    assert runner is not None and runner.member_id == "A", "the one before takes nothing with it"
    group.remove("A")
    assert group.runs("0", 1) is None


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
def test_tombstones_of_nothing_make_no_group(key: object) -> None:
    """What compaction leaves of a group that was deleted (KAFKA-17306)."""
    story = StreamsStory(t=1)
    story.shard.machine.replay(ReplayedRecord(0, 0, None, versioned_key(key), None))
    assert story.shard.machine.ledger.streams.by_id == {}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
def test_a_group_with_a_record_that_cannot_be_read_can_only_be_deleted(key: object) -> None:
    story = of_two()
    story.log.append([Record(versioned_key(key), b"\0\7garbage")], stamp=None, now_ms=0)
    story.restart()
    asked = story.submit(lambda machine, ticket, now: machine.streams.describe(GROUP, ticket, now))
    assert asked.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert story.ask(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now)) == ErrorCode.NONE
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    story.restart()
    assert story.runs(story.come("C", APPLICATION)) == {"0": [0, 1]}


def test_a_deleted_group_holds_nothing() -> None:
    story = of_two()
    for member in "AB":
        story.say(member, -1)
    assert story.ask(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now)) == ErrorCode.NONE
    assert story.shard.machine.ledger.held.bytes == 0


def test_a_group_counts_the_topology_that_it_has_and_no_other() -> None:
    """Later releases let it change."""
    held = Held()
    group = StreamsGroup(GROUP, held)
    empty = held.bytes
    for topology in (STATEFUL, APPLICATION):
        group.declare(topology)
        assert held.bytes == empty + topology.held_bytes
    group.declare(None)
    assert held.bytes == empty


def test_offsets_of_what_is_read_stay_and_others_expire() -> None:
    settings = FixedGroupSettings(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
    story = StreamsStory(settings, t=1, u=1)
    story.come("A", APPLICATION)
    for topic in "tu":
        assert story.commit(5, topic=topic, member="A", generation=2, version=9) is ErrorCode.NONE
    story.time.advance(12_000)
    assert set(story.shard.machine.ledger.offsets.committed[GROUP]) == {("t", 0)}
    story.say("A", -1)
    story.time.advance(2_000)
    assert GROUP not in story.shard.machine.ledger.offsets.committed
    assert story.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND, "an empty group without offsets goes"
    assert story.shard.machine.ledger.held.bytes == 0


def test_a_group_counts_what_it_holds() -> None:
    held, few, many = Held(), tasks({"0": [1]}), tasks({"0": [0, 1], "1": [0]})
    group = StreamsGroup("g" * 17, held)
    empty = LOGGED_GROUP_BYTES + 2 * 17
    for target, more in ((few, few.held_bytes), (many, many.held_bytes), (few, few.held_bytes), (None, 0), (None, 0)):
        assert few.held_bytes < many.held_bytes
        group.aim("A", target)
        assert held.bytes == empty + more
    group.let_go()
    assert held.bytes == 0
