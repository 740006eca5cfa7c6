"""How much one step of a group's machine does, whatever limits its log has: the rest is for the next step."""

from collections.abc import Callable

import pytest

from coordinator.batch_room import STEP_BYTES
from coordinator.groups import assigning
from coordinator.groups.membership import Member, Membership
from coordinator.groups.retention import TopicDeletion
from protocol.errors import ErrorCode
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import TOPIC_ID, Story

LONG = "g" * 1_000
MANY = 100
DAY_MS = 24 * 3_600_000


def delete_the_group(story: Story) -> None:
    assert story.delete(LONG) is ErrorCode.NONE


def let_them_expire(story: Story) -> None:
    story.time.advance(8 * DAY_MS)


def delete_offsets(story: Story) -> None:
    done = 0
    while done < MANY:
        done += len(story.delete_offsets(*range(MANY), group=LONG, start=done).errors)


def delete_the_topic(story: Story) -> None:
    deletion = TopicDeletion([("t", TOPIC_ID)])
    while story.forget_topics(deletion):
        pass


@pytest.mark.parametrize("forget", [delete_the_group, let_them_expire, delete_offsets, delete_the_topic])
def test_tombstones_go_some_at_a_time(forget: Callable[[Story], None]) -> None:
    """The log would take all of them at once."""
    story = Story(FixedGroupSettings(max_batch_bytes=1 << 30))
    for partition in range(MANY):
        story.commit(1, partition=partition, group=LONG)
    before = len(story.log.batches)
    forget(story)
    assert story.all_offsets(group=LONG) == {}
    sizes = [len(batch) for _, batch in story.log.batches[before:]]
    assert len(sizes) == -(-MANY * 1_000 // STEP_BYTES)
    assert STEP_BYTES * 0.9 < max(sizes) <= STEP_BYTES


def test_a_record_of_many_members_is_made_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members, its bytes, and the end, at which all of them are answered."""
    monkeypatch.setattr(assigning, "AT_ONCE", 2)

    def steps(members: int) -> int:
        group = Membership("g", generation=1)
        for number in range(members):
            group.add(Member(str(number), None, "client", "host", 1, 1, {"range": b""}), "consumer")
        group.protocol = "range"
        return len(list(assigning.assigning(group, {})))

    # While it is put together, while it is encoded, and before the answers to more than are looked at in one step.
    assert [steps(members) for members in range(6)] == [0, 0 + 1, 1 + 1, 1 + 2 + 1, 2 + 2 + 1, 2 + 3 + 1]


def test_what_expires_is_looked_for_first_when_the_interval_is_over() -> None:
    story = Story()
    interval_ms = story.settings.offsets_retention_check_interval_ms
    assert story.shard.machine.next_deadline_ms() == story.time.now_ms() + interval_ms
