"""Offsets in transactions: staged, unstable, and then all there or not at all."""

import itertools
from typing import cast

import pytest

from coordinator.groups.commits import FetchedTopic
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.log_entries import offset_tombstone
from coordinator.groups.retention import TopicDeletion
from coordinator.machine import Marker
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from tests.harness.memory_shard_log import CollectingTicket
from tests.unit.groups.story import GROUP, TOPIC_ID, Story

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def everything(topic: str) -> bytes:
    """Requests all topics, as they are now."""
    return TOPIC_ID


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("commit", "expected"), [(True, 9), (False, 5)])
def test_offsets_appear_with_their_transaction_or_not_at_all(commit: bool, expected: int, restart: bool) -> None:
    """I37, I38: the old offset, then 88, then the outcome; never anything in between, before or after a reload."""
    story = Story()
    story.commit(5)
    assert story.offset() == 5
    story.commit(9, producer=4)
    if restart:
        story.restart()
    assert story.offset() == UNSTABLE
    assert story.offset(stable=False) == 5
    unstable = story.fetched()
    assert (unstable.offset, unstable.leader_epoch, unstable.metadata) == (-1, -1, "")
    story.end(4, commit=commit)
    assert story.offset() == expected
    story.restart()
    assert story.offset() == expected


def test_a_reload_forgets_what_a_tombstone_has_removed() -> None:
    """I40: where a later commit stands behind it, too. Else the partition would be unstable again."""
    story = Story()
    story.commit(9, producer=4)
    story.log.append([offset_tombstone(GROUP, "t", 0)], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    story.commit(5)
    assert story.offset() == 5
    reloaded = Shard(
        lambda: GroupCoordinator(story.settings), story.log, story.time, story.time, name="groups-0", compacted=True
    )
    assert reloaded.load_slice(1 << 20)
    offsets, live = reloaded.machine.ledger.offsets, story.shard.machine.ledger.offsets
    assert (offsets.committed, offsets.staged) == (live.committed, live.staged) and not offsets.staged


def test_only_the_partitions_of_the_transaction_are_unstable() -> None:
    story = Story()
    story.commit(1, partition=0)
    story.commit(1, partition=1)
    story.commit(2, partition=1, producer=4)
    story.commit(3, partition=1, producer=6)
    assert story.offset(partition=0) == 1
    story.end(4, commit=True)
    assert story.offset(partition=1) == UNSTABLE, "another producer is still at it"
    story.end(6, commit=False)
    assert story.offset(partition=1) == 2


def test_what_is_only_staged_is_not_listed() -> None:
    story = Story()
    story.commit(1, partition=0)
    story.commit(2, partition=0, producer=4)
    story.commit(2, partition=1, producer=4)
    assert story.all_offsets() == {("t", 0): UNSTABLE}
    assert story.all_offsets(stable=False) == {("t", 0): 1}
    story.end(4, commit=True)
    assert story.all_offsets() == {("t", 0): 2, ("t", 1): 2}


@pytest.mark.parametrize("order", list(itertools.permutations(["plain", "first", "second"])))
@pytest.mark.parametrize("ends", [(4, 6), (6, 4)])
def test_the_latest_record_among_the_committed_wins(order: tuple[str, ...], ends: tuple[int, int]) -> None:
    """I39: whenever the transactions end, and the same after a reload."""
    story = Story()
    producers = {"plain": None, "first": 4, "second": 6}
    for position, name in enumerate(order):
        story.commit(10 + position, producer=producers[name])
    for producer in ends:
        story.end(producer, commit=True)
    assert story.offset() == 12
    story.restart()
    assert story.offset() == 12


def test_a_plain_commit_after_an_aborted_one_stays() -> None:
    story = Story()
    story.commit(1, producer=4)
    story.commit(2)
    story.end(4, commit=False)
    assert story.offset() == 2


def test_markers_that_find_nothing_are_harmless() -> None:
    """I42: they come twice, late, and for groups that never heard of the transaction."""
    story = Story()
    assert story.end(4, commit=True).answer == ErrorCode.NONE
    story.commit(1, producer=4)
    story.end(4, commit=True)
    story.end(4, commit=False)
    assert story.offset() == 1
    story.restart()
    assert story.offset() == 1


def test_a_marker_is_answered_when_it_is_materialised_and_durable() -> None:
    """I42: the next transaction of the same producer loses nothing."""
    story = Story(durable=False)
    story.submit_commit(1, producer=4)
    marker = story.end(4, commit=True)
    assert marker.waiting
    following = story.submit_commit(2, producer=4)
    story.log.sync()
    assert marker.answer == ErrorCode.NONE
    assert following.answer == [ErrorCode.NONE]
    ticket = CollectingTicket()
    story.shard.submit(
        lambda machine, now: machine.fetch_offsets(GROUP, everything, require_stable=False, ticket=ticket, now_ms=now),
        ticket,
    )
    topics = cast(list[FetchedTopic], ticket.answer)
    assert topics[0].partitions[0].offset == 1
    story.end(4, commit=True)
    story.log.sync()
    story.restart()
    story.log.sync()
    assert story.offset() == 2


def test_a_refused_marker_changes_nothing() -> None:
    story = Story()
    story.commit(1, producer=4)
    story.log.refuse(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    ticket = story.submit(lambda machine, t, now: machine.write_marker(Marker(4, 0, True, 0, 0), t, now))
    assert ticket.errors == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert story.offset() == UNSTABLE


def test_a_fetch_returns_only_durable_records() -> None:
    """I37: the answer waits for whatever it saw."""
    story = Story(durable=False)
    story.submit_commit(1)
    ticket = CollectingTicket()
    story.shard.submit(
        lambda machine, now: machine.fetch_offsets(GROUP, everything, require_stable=True, ticket=ticket, now_ms=now),
        ticket,
    )
    assert ticket.waiting
    story.log.sync()
    assert not ticket.waiting


def test_deleting_a_group_takes_what_is_staged_with_it() -> None:
    """I40: the marker that comes later must not bring the offset back."""
    story = Story()
    story.commit(1, partition=0)
    story.commit(2, partition=0, producer=4)
    story.commit(2, partition=1, producer=4)
    assert story.delete() == ErrorCode.NONE
    assert story.listed() == []
    story.end(4, commit=True)
    assert story.all_offsets() == {}
    story.restart()
    assert story.all_offsets() == {}
    assert story.listed() == []


def test_deleting_offsets_deletes_staged_ones_and_no_later_commit() -> None:
    story = Story()
    story.commit(1)
    story.commit(2, producer=4)
    assert story.delete_offsets(0, 5).errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert story.offset() == -1
    story.commit(3, producer=4)
    story.end(4, commit=True)
    assert story.offset() == 3
    story.restart()
    assert story.offset() == 3


def test_a_deleted_topic_takes_its_offsets_with_it() -> None:
    """I40; a topic made anew under that name keeps its own."""
    story = Story()
    old, new = b"o" * 16, b"n" * 16
    story.commit(1, topic_id=old)
    story.commit(2, partition=1, topic_id=old, producer=4)
    story.commit(3, partition=2, topic_id=new)
    story.commit(4, topic="u", topic_id=old)
    assert not story.forget_topics(TopicDeletion([("t", old)]))
    story.end(4, commit=True)
    assert story.all_offsets() == {("t", 2): 3, ("u", 0): 4}
    story.restart()
    assert story.all_offsets() == {("t", 2): 3, ("u", 0): 4}


def test_topics_that_are_deleted_together_are_forgotten_in_one_walk() -> None:
    """As often made and deleted again as it may be; of a topic that is there nothing is touched."""
    story = Story()
    first, second, there = b"1" * 16, b"2" * 16, b"3" * 16
    story.commit(1, topic="a", topic_id=first)
    story.commit(2, topic="a", partition=1, topic_id=second)
    story.commit(3, topic="a", partition=2, topic_id=there)
    story.commit(4, topic="b", topic_id=second)
    story.commit(5, topic="c", topic_id=second)
    assert not story.forget_topics(TopicDeletion([("a", first), ("a", second), ("b", second), ("c", there)]))
    assert story.all_offsets() == {("a", 2): 3, ("c", 0): 5}


def test_a_deleted_topic_is_forgotten_some_offsets_at_a_time() -> None:
    story = Story()
    for partition in range(1_000):
        story.commit(partition, partition=partition)
    deletion = TopicDeletion([("t", TOPIC_ID)])
    assert story.forget_topics(deletion)
    assert 0 < len(story.all_offsets()) < 1_000
    assert not story.forget_topics(deletion)
    assert story.all_offsets() == {}
