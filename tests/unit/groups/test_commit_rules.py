"""Which clients may commit offsets: KIP-447's table, row by row, plain and transactional (I41)."""

import pytest

from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import Story, joined

UNKNOWN, FENCED, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION
NONE = ErrorCode.NONE


@pytest.mark.parametrize("producer", [None, 4])
def test_an_unknown_group_stores_offsets_without_a_generation(producer: int | None) -> None:
    story = Story()
    assert story.commit(5, producer=producer) == NONE
    assert story.listed() == ["orders"]
    assert story.describe().group_state == "Empty"
    assert story.describe().protocol_type == ""


def test_a_group_nobody_knows_has_no_generations() -> None:
    story = Story()
    assert story.commit(5, generation=1, member="m", version=8) == ILLEGAL
    assert story.commit(5, generation=1, member="m", version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert story.commit(5, generation=1, member="m", version=5, producer=4) == ILLEGAL
    assert story.listed() == []
    assert story.log.end_offset == 0


def test_an_empty_group_takes_commits_without_a_generation() -> None:
    story = Story()
    (member,) = story.stable()
    story.leave(member)
    assert story.commit(5) == NONE
    assert story.commit(6, producer=4) == NONE
    assert story.commit(5, member=member, generation=2) == UNKNOWN
    assert story.commit(5, generation=0) == UNKNOWN


@pytest.mark.parametrize("producer", [None, 4])
def test_a_member_with_its_generation(producer: int | None) -> None:
    story = Story()
    (member,) = story.stable()
    assert story.commit(5, member=member, generation=1, producer=producer) == NONE


@pytest.mark.parametrize("producer", [None, 4])
def test_wrong_identities_are_refused_and_stage_nothing(producer: int | None) -> None:
    story = Story()
    ticket = story.join(instance="i", version=5)
    story.tick()
    member = joined(ticket).member_id
    story.sync(member, 1, {})
    before = story.log.end_offset
    refused = {
        (2, member, None): ILLEGAL,
        (0, member, None): ILLEGAL,
        (-1, member, None): ILLEGAL,
        (1, "ghost", None): UNKNOWN,
        (1, "", None): UNKNOWN,
        (1, member, "nobody"): UNKNOWN,
        (1, "ghost", "i"): FENCED,
        (-1, "", "i"): FENCED,
    }
    for (generation, name, instance), error in refused.items():
        found = story.commit(5, generation=generation, member=name, instance=instance, producer=producer)
        assert found == error, (generation, name, instance)
    assert story.log.end_offset == before
    assert story.offset() == -1
    assert story.commit(5, generation=1, member=member, instance="i", producer=producer) == NONE


def test_an_anonymous_commit_to_a_live_group_needs_a_transaction() -> None:
    """TxnOffsetCommit v0-2 cannot name a member; OffsetCommit can."""
    story = Story()
    story.stable()
    assert story.commit(5) == UNKNOWN
    assert story.commit(5, producer=4) == NONE


def test_while_the_leader_computes_only_transactions_commit() -> None:
    story = Story()
    ticket = story.join(version=3)
    story.tick()
    member = joined(ticket).member_id
    assert story.commit(5, generation=1, member=member) == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.commit(5, generation=1, member=member, producer=4) == NONE


def test_members_commit_until_they_have_rejoined() -> None:
    """A rebalance is where consumers commit what they have done."""
    story = Story()
    first, second = story.stable(2)
    story.join(first)
    assert story.commit(5, generation=1, member=second) == NONE


def test_a_plain_commit_is_as_good_as_a_heartbeat() -> None:
    story = Story()
    (member,) = story.stable()
    for _ in range(3):
        story.time.advance(9_999)
        assert story.commit(5, generation=1, member=member) == NONE


def test_metadata_has_a_largest_size() -> None:
    story = Story(FixedGroupSettings(offset_metadata_max_size=4))
    assert story.commit(5, metadata="abcd") == NONE
    assert story.commit(6, metadata="abcde") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert story.commit(6, metadata="ab\U0001f600") == NONE
    assert story.commit(6, metadata="abc\uffff") == NONE
    assert story.commit(7, metadata="abc\U0001f600", producer=4) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert story.offset() == 6


def test_what_was_committed_comes_back_as_it_was() -> None:
    story = Story()
    story.commit(42, partition=3, metadata="m\u0000")
    found = story.fetched(partition=3)
    assert (found.offset, found.leader_epoch, found.metadata, found.error) == (42, 7, "m\u0000", NONE)
    missing = story.fetched(partition=4)
    assert (missing.offset, missing.leader_epoch, missing.metadata, missing.error) == (-1, -1, "", NONE)
    story.restart()
    assert story.fetched(partition=3) == found


def test_offsets_of_an_earlier_namesake_topic_are_not_found() -> None:
    story = Story()
    story.commit(42, topic_id=b"a" * 16)
    assert story.offset(topic_id=b"b" * 16) == -1
    assert story.offset(topic_id=b"a" * 16) == 42
    assert story.offset(topic_id=bytes(16)) == 42
    assert story.all_offsets(topic_id=b"b" * 16) == {}
    assert story.all_offsets(topic_id=b"a" * 16) == {("t", 0): 42}


def test_a_commit_is_answered_when_it_is_durable() -> None:
    story = Story(durable=False)
    ticket = story.submit_commit(5)
    assert ticket.waiting
    story.log.sync()
    assert ticket.answer == [NONE]
