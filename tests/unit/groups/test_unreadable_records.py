"""A coordinator's log with records that nobody can read: they are counted, named, and passed over when it is loaded."""

import struct

import pytest

from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.log_entries import group_key, offset_key
from coordinator.machine import Record
from coordinator.runtime import Shard
from protocol.errors import ErrorCode
from protocol.records.batch import seal
from tests.unit.groups.story import GROUP, Story

UNKNOWN_TYPE = Record(b"\x00\x63whatever", b"\x00\x00value")
NEWER_TYPE = Record(b"\x00\x03\x00\x01g", b"\x00\x00")
FUTURE_GROUP = Record(group_key("other"), b"\x00\x63")
CUT_GROUP = Record(group_key("other"), b"\x00\x03\x00\x08consu")
FUTURE_OFFSET = Record(offset_key(GROUP, "t", 0), b"\x00\x63")
CUT_OFFSET = Record(offset_key(GROUP, "t", 0), b"\x00\x01\x00")
CUT_KEY = Record(b"\x00\x01\x00\x20x", b"\x00\x01")
NO_KEY = Record(b"", b"value")


def loaded(story: Story) -> list[tuple[int, str]]:
    """Load the log again; what was passed over."""
    story.shard.close()
    story.log = story.log.copy()
    passed: list[tuple[int, str]] = []
    story.shard = Shard(
        lambda: GroupCoordinator(story.settings), story.log, story.time, story.time, name="groups-0", compacted=True
    )
    story.shard.on_passed_over = lambda offset, reason: passed.append((offset, reason))
    while not story.shard.load_slice(1 << 20):
        pass
    assert story.shard.passed_over == len(passed)
    return passed


@pytest.mark.parametrize(
    "record",
    [UNKNOWN_TYPE, NEWER_TYPE, FUTURE_GROUP, CUT_GROUP, FUTURE_OFFSET, CUT_OFFSET, CUT_KEY, NO_KEY],
    ids=["unknown type", "newer type", "future group", "cut group", "future offset", "cut offset", "cut key", "no key"],
)
def test_one_record_that_cannot_be_read_is_passed_over(record: Record) -> None:
    story = Story()
    story.commit(5)
    story.commit(7, partition=1)
    at = story.log.append([record], stamp=None, now_ms=1)
    story.commit(8, partition=2)
    passed = loaded(story)
    assert [offset for offset, _ in passed][:1] == [at]
    assert story.all_offsets() == {("t", 0): 5, ("t", 1): 7, ("t", 2): 8}
    assert story.commit(9) is ErrorCode.NONE
    assert story.offset() == 9


def test_a_batch_that_cannot_be_opened_is_passed_over() -> None:
    """Its checksum is right, for it was written like that; a wrong one is a damaged log, which is another matter."""
    story = Story()
    story.commit(5)
    story.commit(6, partition=1)
    story.commit(7, partition=2)
    base, batch = story.log.batches[1]
    broken = bytearray(batch)
    struct.pack_into(">i", broken, 57, 1_000)  # So many records are not in it.
    seal(broken)
    story.log.batches[1] = (base, bytes(broken))
    passed = loaded(story)
    assert [offset for offset, _ in passed] == [base]
    assert story.all_offsets() == {("t", 0): 5, ("t", 2): 7}
