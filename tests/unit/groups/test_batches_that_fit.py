"""What the group coordinator writes fits into the batches its log takes: many tombstones are many batches."""

from coordinator.groups.commits import Commit, OffsetToCommit
from coordinator.groups.retention import TopicDeletion
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import GROUP, TOPIC_ID, Story, joined

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS
LIMIT = 4_000
MANY = 500


def story_with_limit() -> Story:
    return Story(
        FixedGroupSettings(
            offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=HOUR_MS, max_batch_bytes=LIMIT
        )
    )


def with_many_offsets(story: Story) -> None:
    for partition in range(MANY):
        assert story.commit(1, partition=partition) is ErrorCode.NONE


def offsets(count: int, metadata: str = "") -> list[OffsetToCommit]:
    return [OffsetToCommit("t", TOPIC_ID, partition, 1, -1, metadata) for partition in range(count)]


def test_a_group_of_many_offsets_expires() -> None:
    story = story_with_limit()
    with_many_offsets(story)
    story.time.advance(RETENTION_MS + HOUR_MS)
    assert story.listed() == []
    story.restart()
    assert story.listed() == []


def test_a_commit_during_expiry_keeps_the_group() -> None:
    """Between two batches of tombstones anything may happen; what is committed then stays."""
    story = story_with_limit()
    with_many_offsets(story)
    for _ in range(24 * 60):
        if len(story.all_offsets()) < MANY:
            break
        story.time.advance(60_000)
    assert story.commit(7, partition=0) is ErrorCode.NONE
    assert story.commit(8, partition=MANY) is ErrorCode.NONE
    story.time.advance(HOUR_MS)
    assert story.all_offsets() == {("t", 0): 7, ("t", MANY): 8}


def test_a_refused_tombstone_batch_is_retried_in_the_next_round() -> None:
    story = story_with_limit()
    with_many_offsets(story)
    story.commit(1, group="another")
    story.time.advance(RETENTION_MS - HOUR_MS)
    story.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS, times=3)
    story.time.advance(HOUR_MS + 1_000)
    assert 0 < len(story.all_offsets()) < MANY, "the first batches were refused, all after them written"
    assert GROUP in story.listed()
    story.time.advance(HOUR_MS)
    assert story.listed() == []


def test_a_group_of_many_offsets_can_be_deleted() -> None:
    story = story_with_limit()
    with_many_offsets(story)
    assert story.delete() is ErrorCode.NONE
    assert story.listed() == []
    story.restart()
    assert story.listed() == []


def test_a_deletion_cut_short_leaves_a_group_with_fewer_offsets() -> None:
    """At every batch the process may die: the group is there as long as any offset is, and can be deleted again."""
    story = story_with_limit()
    with_many_offsets(story)
    answer = None
    while answer is None:
        answer = story.ask(lambda machine, ticket, now: machine.delete_group(GROUP, ticket, now))
        left = story.all_offsets()
        story.restart()
        assert story.all_offsets() == left
        assert story.listed() == ([GROUP] if answer is None else [])
    assert answer is ErrorCode.NONE
    assert left == {}


def test_many_offsets_are_deleted_batch_by_batch() -> None:
    story = story_with_limit()
    with_many_offsets(story)
    errors: list[ErrorCode] = []
    while len(errors) < MANY:
        more = story.delete_offsets(*range(MANY), start=len(errors)).errors
        assert more
        errors += more
    assert errors == [ErrorCode.NONE] * MANY
    assert story.all_offsets() == {}


def test_offsets_of_a_deleted_topic_go_in_batches_that_fit() -> None:
    story = story_with_limit()
    with_many_offsets(story)
    story.commit(1, topic="another")
    deletion = TopicDeletion([("t", TOPIC_ID)])
    while story.forget_topics(deletion):
        pass
    assert story.all_offsets() == {("another", 0): 1}


def test_a_commit_that_fits_into_no_batch_changes_nothing() -> None:
    """Kafka's new coordinator answers UNKNOWN_SERVER_ERROR for MESSAGE_TOO_LARGE."""
    story = story_with_limit()
    story.commit(1)
    commit = Commit(GROUP, -1, "", None, 8, offsets(MANY, "m" * 100))
    errors = story.ask(lambda machine, ticket, now: machine.commit_offsets(commit, ticket, now))
    assert errors == [ErrorCode.UNKNOWN_SERVER_ERROR] * MANY
    assert story.all_offsets() == {("t", 0): 1}


def test_assignments_that_fit_into_no_batch_leave_the_generation_open() -> None:
    """The leader may hand in smaller ones; nobody got any of the large ones."""
    story = story_with_limit()
    first, second = story.stable(2)
    tickets = [story.join(member, protocols=(("range", b"new"),)) for member in (first, second)]
    generation = joined(tickets[0]).generation_id
    follower = story.sync(second, generation)
    leader = story.sync(first, generation, {first: b"x" * LIMIT, second: b"y"})
    assert [*leader.errors, *follower.errors] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert story.state == "CompletingRebalance"
    assert not story.sync(first, generation, {first: b"x", second: b"y"}).waiting
    assert story.state == "Stable"
