"""Groups and their offsets at the edges of their limits: of generations, times, sizes and steps."""

import pytest

from coordinator.groups.commits import DELETED_AT_ONCE, FETCHED_AT_ONCE, Commit, OffsetToCommit
from coordinator.groups.joining import NEW_MEMBER_TIMEOUT_MS
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import GROUP, REBALANCE_MS, SESSION_MS, TOPIC_ID, Story, joined, subscription, synced

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
UNKNOWN, ILLEGAL, NONE = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NONE


def commit_many(story: Story, count: int, **more: object) -> list[ErrorCode]:
    offsets = [OffsetToCommit("t", TOPIC_ID, partition, partition, -1, "") for partition in reversed(range(count))]
    commit = Commit(GROUP, -1, "", None, 8, offsets)
    errors: list[ErrorCode] = story.ask(lambda machine, ticket, now: machine.commit_offsets(commit, ticket, now))
    return errors


def test_generation_zero_is_one_that_has_to_be_right() -> None:
    story = Story()
    assert story.commit(5, generation=0, member="m") == ILLEGAL
    assert story.commit(5, generation=0, member="m", version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert story.commit(5, generation=0, member="m", version=9, producer=4) == ILLEGAL
    assert story.log.end_offset == 0
    story.stable()
    assert story.commit(5, generation=0, producer=4) == UNKNOWN
    assert story.commit(5, generation=-1, producer=4) == NONE


def test_how_long_an_offset_is_kept_is_reckoned_as_in_java() -> None:
    settings = FixedGroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=HOUR_MS)
    story = Story(settings)
    story.commit(1, partition=1, retention_ms=0, version=4)
    story.commit(1, partition=2, retention_ms=(1 << 63) - 1, version=4)
    story.commit(1, partition=3, retention_ms=-1, version=4)
    story.commit(1, partition=4, retention_ms=2 * RETENTION_MS, version=4)
    assert set(story.all_offsets()) == {("t", partition) for partition in (1, 2, 3, 4)}
    story.time.advance(HOUR_MS)
    assert set(story.all_offsets()) == {("t", 3), ("t", 4)}
    story.time.advance(RETENTION_MS)
    assert set(story.all_offsets()) == {("t", 4)}
    story.time.advance(RETENTION_MS)
    assert story.all_offsets() == {}


def test_nothing_expires_while_members_join_again() -> None:
    settings = FixedGroupSettings(offsets_retention_ms=20_000, offsets_retention_check_interval_ms=5_000)
    story = Story(settings)
    first, second = story.stable(2, topics=("t",))
    story.commit(1, topic="u", member=first, generation=1)
    assert story.join(first, protocols=(("range", subscription("t")),)).waiting
    story.pass_time(REBALANCE_MS - 5_000, first, second)
    assert story.all_offsets() == {("u", 0): 1}
    again = [story.join(member, protocols=(("range", subscription("t")),)) for member in (first, second)]
    generation = joined(again[1]).generation_id
    story.sync(joined(again[1]).leader, generation, {})
    story.pass_time(10_000, first, second, generation=generation)
    assert story.all_offsets() == {}


def test_a_group_with_an_id_that_was_handed_out_is_not_forgotten() -> None:
    settings = FixedGroupSettings(offsets_retention_ms=5_000, offsets_retention_check_interval_ms=5_000)
    story = Story(settings)
    member = story.new_member(session_ms=12_000)
    story.time.advance(11_000)
    assert story.listed() == [GROUP]
    ticket = story.join(member)
    story.tick()
    assert joined(ticket).generation_id == 1
    story.leave(member)
    story.time.advance(10_000)
    assert story.listed() == []


@pytest.mark.parametrize("count", [FETCHED_AT_ONCE, FETCHED_AT_ONCE + 1])
def test_how_many_offsets_are_fetched_in_one_step(count: int) -> None:
    story = Story(FixedGroupSettings(max_batch_bytes=1 << 30))
    assert set(commit_many(story, count)) == {NONE}
    fetched = story._fetch(lambda _: TOPIC_ID, True, GROUP)
    if count > FETCHED_AT_ONCE:
        assert fetched is None
    else:
        (topic,) = fetched
        assert [(one.partition, one.offset) for one in topic.partitions] == [(one, one) for one in range(count)]


def test_how_many_offsets_are_looked_at_in_one_step_of_a_deletion() -> None:
    story = Story()
    last = DELETED_AT_ONCE
    story.commit(1, partition=last)
    partitions = list(range(last + 1))
    assert story.delete_offsets(*partitions).errors == [NONE] * DELETED_AT_ONCE
    assert story.offset(partition=last) == 1
    assert story.delete_offsets(*partitions, start=DELETED_AT_ONCE).errors == [NONE]
    assert story.all_offsets() == {}


def test_an_offset_is_deleted_once_and_one_that_is_not_there_not_at_all() -> None:
    story = Story()
    story.commit(1)
    story.commit(2, partition=1, producer=4)
    end = story.log.end_offset
    assert story.delete_offsets(0, 0, 7, 1, 0).errors == [NONE] * 5
    assert story.log.end_offset == end + 2
    story.end(4, commit=True)
    assert story.all_offsets() == {}


def test_only_who_insists_on_stable_offsets_waits_for_a_transaction() -> None:
    story = Story()
    story.commit(1)
    story.commit(2, producer=4)
    assert story.offset(stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert story.offset(stable=False) == 1
    assert story.all_offsets(stable=True) == {("t", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert story.all_offsets(stable=False) == {("t", 0): 1}


@pytest.mark.parametrize(("session_ms", "error"), [(6_000, 79), (5_999, 26), (1_800_000, 79), (1_800_001, 26)])
def test_how_long_a_session_may_be(session_ms: int, error: int) -> None:
    assert joined(Story().join(session_ms=session_ms)).error_code == error


def test_a_member_of_an_old_client_has_its_session_for_a_rebalance() -> None:
    """JoinGroup v0 has no timeout for it; one that is negative in another way is none at all."""
    story = Story()
    story.join(version=0, session_ms=7_000, rebalance_ms=-1)
    story.join(version=0, session_ms=8_000, rebalance_ms=-5)
    story.tick()
    timeouts = [
        member.rebalance_timeout_ms for member in story.shard.machine._classic.memberships[GROUP].members.values()
    ]
    assert timeouts == [7_000, 0]


def test_a_new_member_is_waited_for_as_long_as_kafka_waits() -> None:
    story = Story()
    (member,) = story.stable()
    newcomer = story.join(
        story.new_member(rebalance_ms=2 * NEW_MEMBER_TIMEOUT_MS), rebalance_ms=2 * NEW_MEMBER_TIMEOUT_MS
    )
    story.pass_time(NEW_MEMBER_TIMEOUT_MS - 1, member)
    assert newcomer.waiting
    story.time.advance(1)
    assert joined(newcomer).error_code == UNKNOWN


def test_a_session_ends_when_it_is_over_and_not_before() -> None:
    story = Story()
    (member,) = story.stable()
    story.time.advance(SESSION_MS - 1)
    assert story.state == "Stable"
    assert story.heartbeat(member, 1) == NONE
    story.time.advance(SESSION_MS - 1)
    assert story.state == "Stable"
    story.time.advance(1)
    assert story.state == "Empty"


def test_an_answer_to_a_sync_is_a_sign_of_life() -> None:
    story = Story()
    ids = [story.new_member() for _ in range(2)]
    for member in ids:
        story.join(member)
    story.tick()
    follower = story.sync(ids[1], 1)
    story.pass_time(2 * SESSION_MS, ids[0])
    assert follower.waiting
    leader = story.sync(ids[0], 1, {ids[1]: b"x"})
    assert (synced(follower).assignment, synced(leader).assignment) == (b"x", b"")
    story.time.advance(SESSION_MS - 1)
    assert len(story.describe().members) == 2
    story.time.advance(1)
    assert story.describe().members == []


def test_what_a_group_answers_to_each_generation() -> None:
    story = Story()
    (member,) = story.stable()
    assert [story.heartbeat(member, generation) for generation in (0, 1, 2, -1)] == [ILLEGAL, NONE, ILLEGAL, ILLEGAL]
    assert [synced(story.sync(member, generation)).error_code for generation in (0, 1, 2)] == [ILLEGAL, NONE, ILLEGAL]


def test_each_field_of_a_description() -> None:
    story = Story()
    nobody = story.describe()
    assert (nobody.error_code, nobody.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group orders not found.")
    assert (nobody.group_id, nobody.group_state, nobody.members) == (GROUP, "Dead", [])
    assert (nobody.protocol_type, nobody.protocol_data) == ("", "")
    ticket = story.join(instance="i", client="c", protocols=(("range", b"r"), ("other", b"o")))
    story.tick()
    member = joined(ticket).member_id

    def told() -> list[object]:
        group = story.describe()
        assert (group.error_code, group.error_message, group.group_id, group.protocol_type) == (
            0,
            None,
            GROUP,
            "consumer",
        )
        (one,) = group.members
        assert (one.member_id, one.group_instance_id) == (member, "i")
        assert (one.client_id, one.client_host) == ("c", "/127.0.0.1")
        return [group.group_state, group.protocol_data, one.member_metadata, one.member_assignment]

    assert told() == ["CompletingRebalance", "", b"", b""]
    story.sync(member, 1, {member: b"a"}, instance="i")
    assert told() == ["Stable", "range", b"r", b"a"]
    story.restart()
    assert told() == ["Stable", "range", b"r", b"a"]


def test_each_field_of_the_answers_to_members() -> None:
    story = Story()
    leader, follower = (story.new_member(protocols=(("range", b"r"),)) for _ in range(2))
    tickets = [story.join(one, protocols=(("range", one.encode()),)) for one in (leader, follower)]
    story.tick()
    for ticket, member in zip(tickets, (leader, follower), strict=True):
        answer = joined(ticket)
        assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, False)
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
        assert (answer.leader, answer.member_id) == (leader, member)
        members = [(one.member_id, one.group_instance_id, one.metadata) for one in answer.members]
        everybody = [(one, None, one.encode()) for one in (leader, follower)]
        assert members == (everybody if member == leader else [])
    refused = joined(story.join("ghost"))
    assert (refused.error_code, refused.generation_id, refused.member_id) == (UNKNOWN, -1, "ghost")
    assert (refused.protocol_type, refused.protocol_name, refused.leader, refused.members) == (None, None, "", [])
    answer = synced(story.sync(leader, 1, {follower: b"f"}))
    assert (answer.error_code, answer.assignment) == (0, b"")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    failed = synced(story.sync("ghost", 1))
    assert (failed.error_code, failed.assignment) == (UNKNOWN, b"")
    assert (failed.protocol_type, failed.protocol_name) == (None, None)


def test_who_joins_already_keeps_its_place_in_a_full_group() -> None:
    story = Story(FixedGroupSettings(max_size=2))
    first, second = story.stable(2)
    story.settings.max_size = 1
    waiting = story.join(first)
    again = story.join(first)
    assert joined(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS and again.waiting
    assert joined(story.join(second)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(again).generation_id == 2
    assert [member.member_id for member in joined(again).members] == [first]
    assert story.heartbeat(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert joined(story.join("ghost")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert joined(story.join(first)).error_code == ErrorCode.NONE
