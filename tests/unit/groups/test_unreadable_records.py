"""A log of groups with records that nobody can read: what depends on them is refused until something later stands in
their place, all else is served, and a log of which nobody knows what it is about is not served at all."""

import logging
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.log_entries import group_key, offset_key
from coordinator.loading import UnreadableLog
from coordinator.machine import ProducerStamp, Record, ReplayedRecord, UnreadableValue
from coordinator.runtime import Shard, ShardState
from protocol.errors import ErrorCode
from protocol.records.batch import seal
from tests.unit.groups.story import GROUP, Story, joined
from tests.unit.transactions.node_rig import in_a_node

REFUSED = ErrorCode.UNKNOWN_SERVER_ERROR
FUTURE, CUT = b"\x00\x63", b"\x00\x01\x00"
CUT_GROUP = b"\x00\x03\x00\x08consu"
UNKNOWN_TYPE = Record(b"\x00\x63whatever", b"\x00\x00value")
NEWER_TYPE = Record(b"\x00\x40\x00\x01g", b"\x00\x00")
CUT_KEY = Record(b"\x00\x01\x00\x20x", b"\x00\x01")
CUT_KEY_OF_A_TOMBSTONE = Record(b"\x00\x01\x00\x20x", None)
NO_KEY = Record(b"", b"value")
DAYS_8 = 8 * 86_400_000


def write(story: Story, key: bytes, value: bytes | None, *, producer: int | None = None) -> int:
    """Put a record into the log that no coordinator has made."""
    stamp = None if producer is None else ProducerStamp(producer, 0)
    return story.log.append([Record(key, value)], stamp=stamp, now_ms=story.time.now_ms())


def load(story: Story) -> tuple[list[int], list[int]]:
    """Load the log again; the offsets of what was ignored, and of what cannot be read."""
    story.shard.close()
    story.log = story.log.copy()
    ignored, unreadable = list[int](), list[int]()
    story.shard = shard = Shard(
        lambda: GroupCoordinator(story.settings), story.log, story.time, story.time, name="groups-0", compacted=True
    )
    shard.on_ignored = lambda offset, _: ignored.append(offset)
    shard.on_unreadable = lambda offset, _: unreadable.append(offset)
    while not shard.load_slice(1 << 20):
        pass
    assert (shard.ignored, shard.unreadable) == (len(ignored), len(unreadable))
    return ignored, unreadable


@pytest.mark.parametrize("record", [UNKNOWN_TYPE, NEWER_TYPE], ids=["unknown type", "newer type"])
def test_a_record_of_an_unknown_type_is_ignored(record: Record) -> None:
    """KIP-915: it may be left over from a later version."""
    story = Story()
    story.commit(5)
    at = story.log.append([record], stamp=None, now_ms=1)
    story.commit(8, partition=2)
    assert load(story) == ([at], [])
    assert story.all_offsets() == {("t", 0): 5, ("t", 2): 8}


@pytest.mark.parametrize("value", [FUTURE, CUT, b""], ids=["future", "cut", "empty"])
def test_an_unreadable_offset_does_not_reveal_an_older_one(value: bytes) -> None:
    """Records would be read twice, and in a transaction that is not exactly once. Everything else is served."""
    story = Story()
    story.commit(5)
    story.commit(7, partition=1)
    at = write(story, offset_key(GROUP, "t", 0), value)
    story.commit(8, group="other")
    assert load(story) == ([], [at])
    assert story.all_offsets() == {("t", 0): REFUSED, ("t", 1): 7}
    assert story.offset() is REFUSED
    assert story.offset(partition=1) == 7
    assert story.all_offsets(group="other") == {("t", 0): 8}
    story.stable(group="third")


def commit(story: Story) -> None:
    assert story.commit(9) is ErrorCode.NONE


def commit_in_a_transaction(story: Story) -> None:
    assert story.commit(9, producer=4) is ErrorCode.NONE
    assert story.offset(stable=False) is REFUSED
    story.end(4, commit=True)


def delete_offset(story: Story) -> None:
    assert story.delete_offsets(0).errors == [ErrorCode.NONE]


def delete_group(story: Story) -> None:
    assert story.delete() is ErrorCode.NONE


def wait_until_it_expires(story: Story) -> None:
    story.time.advance(DAYS_8 * 3 // 4)
    assert story.offset() is REFUSED, "it is kept as long as any"
    story.time.advance(DAYS_8 // 4)


@pytest.mark.parametrize(
    ("heal", "found"),
    [(commit, 9), (commit_in_a_transaction, 9), (delete_offset, -1), (delete_group, -1), (wait_until_it_expires, -1)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_stands_in_its_place_heals_an_offset(heal: Callable[[Story], None], found: int) -> None:
    story = Story()
    story.commit(5)
    write(story, offset_key(GROUP, "t", 0), FUTURE)
    load(story)
    heal(story)
    assert story.offset() == found
    load(story)
    assert story.offset() == found


def test_an_unreadable_offset_counts_with_its_transaction() -> None:
    """I40, I42: an abort leaves what was there, a commit does not, and what is open is unstable as ever."""
    story = Story()
    for partition in (0, 1, 2):
        story.commit(5, partition=partition)
        write(story, offset_key(GROUP, "t", partition), FUTURE, producer=partition)
    load(story)
    story.end(0, commit=True)
    story.end(1, commit=False)
    expected = {("t", 0): REFUSED, ("t", 1): 5, ("t", 2): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert story.all_offsets() == expected
    load(story)
    assert story.all_offsets() == expected
    assert story.all_offsets(stable=False)["t", 2] == 5


@pytest.mark.parametrize("value", [FUTURE, CUT_GROUP, b""], ids=["future", "cut", "empty"])
def test_a_group_that_cannot_be_read_takes_nothing_on(value: bytes) -> None:
    """It may have members, and any generation: a member that joined would have a first one of its own. Its offsets have
    records of their own, and are returned."""
    story = Story()
    (member,) = story.stable()
    story.commit(5, generation=1, member=member)
    at = write(story, group_key(GROUP), value)
    story.stable(group="other")
    assert load(story) == ([], [at])
    for ticket in (
        story.join(),
        story.sync(member, 1),
        story.submit_leave(member),
        story.submit_commit(9),
        story.submit_commit(9, generation=1, member=member),
        story.submit_commit(9, producer=4),
    ):
        assert ticket.errors == [REFUSED]
    assert story.describe_refusal() is REFUSED
    assert story.offset() == 5
    assert story.listed(["unknown"]) == [GROUP]
    story.time.advance(DAYS_8)
    assert story.offset() == 5
    assert story.commit(6, group="other") is not REFUSED
    assert story.delete() is ErrorCode.NONE
    assert story.all_offsets() == {}
    story.stable()
    assert load(story) == ([], [])
    assert story.state == "Stable"


def test_a_later_record_heals_a_group() -> None:
    story = Story()
    write(story, group_key(GROUP), FUTURE)
    write(story, group_key("other"), FUTURE)
    story.stable()
    write(story, group_key("other"), None)
    load(story)
    assert story.state == "Stable"
    assert joined(story.join(group="other")).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "record", [CUT_KEY, CUT_KEY_OF_A_TOMBSTONE, NO_KEY], ids=["cut key", "cut key of a tombstone", "no key"]
)
def test_an_unreadable_key_keeps_its_log_from_being_served(record: Record) -> None:
    """It may be anyone's, as in Kafka."""
    story = Story()
    story.commit(5)
    at = story.log.append([record], stamp=None, now_ms=1)
    with pytest.raises(UnreadableLog, match=f"offset {at}: "):
        load(story)
    assert story.shard.state is ShardState.CLOSED


def test_an_unreadable_batch_keeps_its_log_from_being_served() -> None:
    """Its checksum is right, for it was written like that; a wrong one is a damage of the disk."""
    story = Story()
    for partition in (0, 1, 2):
        story.commit(5, partition=partition)
    base, batch = story.log.batches[1]
    broken = bytearray(batch)
    struct.pack_into(">i", broken, 57, 1_000)  # So many records are not in it.
    seal(broken)
    story.log.batches[1] = (base, bytes(broken))
    with pytest.raises(UnreadableLog, match=f"offset {base}: "):
        load(story)
    assert story.shard.state is ShardState.CLOSED


def test_whatever_a_value_says_is_read_or_refused() -> None:
    """Values of all our records, with bytes changed and cut off: never another exception."""
    story = Story()
    story.stable(2)
    story.commit(5, partition=3)
    entries = [entry for entry in story.entries() if isinstance(entry, ReplayedRecord) and entry.value]
    random, refused = Random(5), 0
    for entry in entries * 300:
        value = bytearray(entry.value or b"")
        for _ in range(random.randrange(3)):
            value[random.randrange(len(value))] = random.randrange(256)
        value = value[: random.randrange(len(value) + 1)]
        try:
            GroupCoordinator(story.settings).replay(ReplayedRecord(0, 1, None, entry.key, bytes(value)))
        except UnreadableValue:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize(
    ("key", "value", "level", "message", "reason"),
    [
        (UNKNOWN_TYPE.key, b"v", "WARNING", "a record is ignored", "unknown type 99"),
        (group_key("g1"), FUTURE, "ERROR", "a record cannot be read; what depends on it is refused", "group 'g1'"),
        (CUT_KEY.key, b"v", "ERROR", "a log cannot be read; nothing in it is served", "offset 1: "),
    ],
    ids=["ignored", "value", "key"],
)
def test_what_is_found_is_named_in_the_log(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes, level: str, message: str, reason: str
) -> None:
    async def story(node: Any) -> None:
        shard = node.groups.shard(7)
        shard.log.append([Record(group_key("fine"), None)], stamp=None, now_ms=1)
        shard.log.append([Record(key, value)], stamp=None, now_ms=1)
        shard.reload()
        while shard.state is ShardState.LOADING:
            await node.groups._wait_for_change(None)
        (record,) = [one for one in caplog.records if one.name == "tallystick.coordinators"]
        assert (record.levelname, record.message) == (level, message)
        fields = getattr(record, "fields", {})
        assert reason in fields["reason"]
        where = fields.get("shard") or f"{fields['topic']}-{fields['partition']} at {fields['offset']}"
        assert where in ("__consumer_offsets-7", "__consumer_offsets-7 at 1")
        assert (shard.state is ShardState.CLOSED) == (key == CUT_KEY.key)
        assert await node.groups.wait_until_ready(8)

    with caplog.at_level(logging.WARNING):
        in_a_node(story, tmp_path)
