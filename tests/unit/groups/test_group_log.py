"""What stands in `__consumer_offsets`, byte for byte where it matters, and what a reload makes of it."""

import pytest

from coordinator.groups.coordinator import GroupCoordinator
from coordinator.groups.log_entries import group_key
from coordinator.groups.records import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from coordinator.machine import Record as LogRecord
from coordinator.machine import ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned, versioned
from protocol.errors import ErrorCode
from protocol.records.record import Record, records_of
from tests.harness.group_settings import FixedGroupSettings
from tests.unit.groups.story import Story, joined, synced


def records(story: Story) -> list[Record]:
    return [record for _, batch in story.log.batches for record in records_of(batch)]


def test_a_new_group_begins_with_an_empty_record() -> None:
    """As Kafka 4.3: even MEMBER_ID_REQUIRED makes the group."""
    story = Story()
    story.new_member()
    (record,) = records(story)
    assert record.key == b"\x00\x02\x00\x06orders"
    assert record.value is not None
    assert record.value.hex() == (
        "0003" + "0000" + "00000000" + "ffff" + "ffff" + story.time.now_ms().to_bytes(8, "big").hex() + "00000000"
    )


def test_a_stable_generation_is_one_record() -> None:
    story = Story()
    ids = story.stable(2)
    value = records(story)[-1].value
    assert value is not None
    assert read_version(value) == 3
    read = read_versioned(GroupMetadataValue, value)
    assert (read.protocol_type, read.generation, read.protocol, read.leader) == ("consumer", 1, "range", ids[0])
    assert [(member.member_id, bytes(member.assignment)) for member in read.members] == [(m, m.encode()) for m in ids]
    assert read.members[0].session_timeout == 10_000
    assert read.members[0].rebalance_timeout == 60_000
    assert read.members[0].client_host == "/127.0.0.1"


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    """Value v4 with the topic id; v1 where the client requested a retention of its own."""
    story = Story()
    story.commit(5, partition=2, metadata="m")
    story.commit(6, partition=2, retention_ms=1_000)
    plain, retained = records(story)
    assert plain.key == b"\x00\x01\x00\x06orders\x00\x01t\x00\x00\x00\x02"
    assert read_key(OffsetCommitKey, plain.key).partition == 2
    assert plain.value is not None
    assert retained.value is not None
    assert read_version(plain.value) == 4
    assert read_versioned(OffsetCommitValue, plain.value).leader_epoch == 7
    assert read_version(retained.value) == 1
    assert read_versioned(OffsetCommitValue, retained.value).expire_timestamp == story.time.now_ms() + 1_000


def test_a_restart_brings_back_what_the_log_says() -> None:
    story = Story()
    ids = story.stable(3)
    story.commit(5, member=ids[1], generation=1)
    before = story.describe()
    story.restart()
    assert story.describe() == before
    assert story.offset() == 5
    assert [story.heartbeat(member, 1) for member in ids] == [ErrorCode.NONE] * 3
    assert synced(story.sync(ids[2], 1)).assignment == ids[2].encode()


def test_members_have_a_session_to_show_up_after_a_restart() -> None:
    story = Story()
    ids = story.stable(2)
    story.time.advance(9_000)
    story.restart()
    story.time.advance(9_999)
    assert story.heartbeat(ids[0], 1) == ErrorCode.NONE
    story.time.advance(1)
    assert story.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_during_a_rebalance_restores_the_last_generation() -> None:
    """Waiting requests get NOT_COORDINATOR; the members come back with a generation that never was."""
    story = Story()
    first, second = story.stable(2)
    waiting = story.join(first)
    story.restart()
    assert waiting.errors == [ErrorCode.NOT_COORDINATOR]
    assert story.state == "Stable"
    tickets = [story.join(second, protocols=(("range", b"new"),)), story.join(first)]
    assert {joined(ticket).generation_id for ticket in tickets} == {2}
    story.restart()
    assert story.heartbeat(first, 2) == ErrorCode.ILLEGAL_GENERATION


def test_unknown_record_types_are_skipped_and_unknown_versions_are_not() -> None:
    """KIP-915 and KAFKA-18672."""
    machine = GroupCoordinator(FixedGroupSettings())
    machine.replay(ReplayedRecord(0, 0, None, b"\x00\x63whatever", b"\x00\x00"))
    machine.replay(ReplayedRecord(1, 0, None, b"\x00\x40\x00\x01g", b"\x00\x00"))
    with pytest.raises(UnreadableValue):
        machine.replay(ReplayedRecord(2, 0, None, b"\x00\x02\x00\x01g", b"\x00\x63"))
    with pytest.raises(UnreadableValue):
        machine.replay(ReplayedRecord(3, 0, None, b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x63"))


def test_old_offset_records_are_read() -> None:
    """Key type 0 and value v0 are from another age, and may stand in a log that was copied."""
    story = Story()
    value = b"\x00\x00" + (11).to_bytes(8, "big") + b"\x00\x01m" + (1).to_bytes(8, "big")
    key = b"\x00\x00\x00\x06orders\x00\x01t\x00\x00\x00\x00"
    story.shard.machine.replay(ReplayedRecord(0, 0, None, key, value))
    found = story.fetched()
    assert (found.offset, found.leader_epoch, found.metadata) == (11, -1, "m")


def test_members_of_old_records_have_their_session_to_join_again() -> None:
    """Value v0 knows no rebalance timeout."""
    story = Story()
    member = MemberMetadata(
        member_id="old", client_id="c", client_host="/h", session_timeout=9_000, subscription=b"m", assignment=b""
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="old", members=[member])
    story.log.append([LogRecord(group_key("orders"), versioned(value, 0))], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    assert story.shard.machine.ledger.groups["orders"].members["old"].rebalance_timeout_ms == 9_000
    ticket = story.join(version=3, rebalance_ms=1_000)
    story.time.advance(8_999)
    assert story.heartbeat("old", 4) is ErrorCode.REBALANCE_IN_PROGRESS and ticket.waiting
    story.time.advance(1)
    assert joined(ticket).generation_id == 5


def test_offsets_of_a_group_that_does_not_say_since_when_it_is_empty_expire_by_their_commit() -> None:
    """Value v1 knows no such time."""
    story = Story(FixedGroupSettings(offsets_retention_ms=50_000, offsets_retention_check_interval_ms=5_000))
    story.commit(5)
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader=None, members=[])
    story.log.append([LogRecord(group_key("orders"), versioned(value, 1))], stamp=None, now_ms=story.time.now_ms())
    story.restart()
    story.time.advance(45_000)
    assert story.offset() == 5
    story.time.advance(5_000)
    assert story.offset() == -1


def test_the_id_of_a_group_is_held_once() -> None:
    """A client chooses it, of up to 32 KB: what is logged and what is soft share it."""
    story = Story()
    story.stable()
    assert len(records(story)) > 1
    machine = story.shard.machine
    ((known_id, known),), ((logged_id, logged),) = machine._classic.memberships.items(), machine.ledger.groups.items()
    assert known_id is known.group_id is logged_id is logged.group_id
