"""Who may commit offsets of a consumer group, and who may ask for them: row by row (KIP-848, KIP-1251)."""

from typing import Any

import pytest

from coordinator.groups.commits import Commit, OffsetToCommit, WantedTopic
from protocol.errors import ErrorCode
from tests.unit.consumer_groups.story import GROUP, ConsumerStory, T, topic_id
from tests.unit.groups.story import joined

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
STALE, ILLEGAL, OLD = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNSUPPORTED_VERSION


def group_of_two() -> ConsumerStory:
    """A, of the consumer protocol, and C, of the classic one, are both at epoch 3. A has had partition 0 since 2."""
    story = ConsumerStory(t=2)
    assert story.gets(story.come("A", "t")) == {"t": [0, 1]}
    assert joined(story.join("C", protocols=T)).generation_id == 3
    assert story.gets(story.say("A", 2, owned={"t": [0, 1]})) == {"t": [0]}
    assert story.say("A", 2, owned={"t": [0]}).member_epoch == 3
    assert joined(story.join("C", protocols=T)).generation_id == 3
    assert story.current() == {"A": {"t": [0]}, "C": {"t": [1]}}
    return story


@pytest.mark.parametrize(
    ("member", "epoch", "plain", "plain_of_old", "transactional"),
    [
        ("", -1, NONE, NONE, NONE),
        ("A", -1, NONE, NONE, NONE),
        ("", 0, UNKNOWN, UNKNOWN, UNKNOWN),
        ("A", 0, UNKNOWN, UNKNOWN, UNKNOWN),
    ],
)
def test_a_group_without_members_takes_commits_without_an_epoch(
    member: str, epoch: int, plain: ErrorCode, plain_of_old: ErrorCode, transactional: ErrorCode
) -> None:
    assert _commits(_without_members(), member, epoch) == (plain, plain_of_old, transactional)


def _without_members() -> ConsumerStory:
    story = ConsumerStory(t=1)
    story.come("A", "t")
    story.say("A", -1)
    assert story.group_state()[0] == "Empty"
    return story


@pytest.mark.parametrize(
    ("member", "epoch", "plain", "plain_of_old", "transactional"),
    [
        ("", -1, UNKNOWN, UNKNOWN, NONE),
        ("", -2, UNKNOWN, UNKNOWN, UNKNOWN),
        ("", 0, UNKNOWN, UNKNOWN, UNKNOWN),
        ("stranger", -1, UNKNOWN, UNKNOWN, UNKNOWN),
        ("stranger", 2, UNKNOWN, UNKNOWN, UNKNOWN),
        ("A", -1, STALE, OLD, ILLEGAL),
        ("A", 0, STALE, OLD, ILLEGAL),
        ("A", 1, STALE, OLD, ILLEGAL),
        ("A", 2, NONE, OLD, NONE),
        ("A", 3, NONE, OLD, NONE),
        ("A", 4, STALE, OLD, ILLEGAL),
        ("C", -1, ILLEGAL, ILLEGAL, ILLEGAL),
        ("C", 2, ILLEGAL, ILLEGAL, ILLEGAL),
        ("C", 3, NONE, NONE, NONE),
        ("C", 4, ILLEGAL, ILLEGAL, ILLEGAL),
    ],
)
def test_members_commit_with_their_epochs(
    member: str, epoch: int, plain: ErrorCode, plain_of_old: ErrorCode, transactional: ErrorCode
) -> None:
    assert _commits(group_of_two(), member, epoch) == (plain, plain_of_old, transactional)


def _commits(story: ConsumerStory, member: str, epoch: int) -> tuple[ErrorCode, ErrorCode, ErrorCode]:
    said: dict[str, Any] = {"member": member, "generation": epoch, "topic_id": topic_id("t")}
    return story.commit(5, **said, version=9), story.commit(5, **said, version=8), story.commit(5, **said, producer=4)


@pytest.mark.parametrize(("partitions", "error"), [([0, 0], NONE), ([0, 1], STALE), ([1, 0], STALE)])
def test_one_partition_that_was_not_the_members_fails_all(partitions: list[int], error: ErrorCode) -> None:
    story = group_of_two()
    offsets = [OffsetToCommit("t", topic_id("t"), partition, 5, -1, "") for partition in partitions]
    commit = Commit(GROUP, 2, "A", None, 9, offsets)
    assert story.ask(lambda machine, ticket, now: machine.commit_offsets(commit, ticket, now)) == [error] * 2


def test_who_names_an_instance_is_not_let_through_as_nobody() -> None:
    story = group_of_two()
    assert story.commit(5, producer=4, instance="one") is UNKNOWN
    assert story.commit(5, producer=4) is NONE


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, NONE),
        (None, 0, UNKNOWN),
        ("", -1, UNKNOWN),
        ("stranger", 3, UNKNOWN),
        ("A", 3, NONE),
        ("A", 2, STALE),
        ("A", -1, STALE),
        ("C", 3, NONE),
        ("C", 2, ILLEGAL),
    ],
)
def test_members_ask_for_offsets_with_their_epochs(member: str | None, epoch: int, error: ErrorCode) -> None:
    story = group_of_two()
    assert story.commit(5, member="A", generation=3, topic_id=topic_id("t"), version=9) is NONE
    wanted = [WantedTopic("t", topic_id("t"), [0])]
    ticket = story.submit(
        lambda machine, ticket, now: machine.fetch_offsets(
            GROUP, wanted, require_stable=True, ticket=ticket, now_ms=now, member_id=member, member_epoch=epoch
        )
    )
    if error is NONE:
        (topic,) = ticket.answer
        assert [one.offset for one in topic.partitions] == [5]
    else:
        assert ticket.errors == [error]
