"""Records of consumer groups: what is written is read again, and what else may stand in a log."""

from dataclasses import replace

import pytest

from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.log_entries import (
    assignment_epoch,
    consumer_group_tombstones,
    current_assignment,
    group_epoch,
    member_metadata,
    member_tombstones,
    partition_metadata_tombstone,
    regex_tombstone,
    regular_expression,
    target_assignment,
    whole_group,
)
from coordinator.groups.consumer.log_reading import ConsumerGroups
from coordinator.groups.consumer.member import ClassicFacet, ConsumerMember, MemberState
from coordinator.groups.consumer.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentTopicPartitions,
)
from coordinator.groups.held import LOGGED_GROUP_BYTES, Held
from coordinator.groups.log_entries import committed_offset
from coordinator.groups.logged import GroupLedger
from coordinator.machine import Record, ReplayedRecord, UnreadableValue
from protocol.codec import read_key, read_version, read_versioned, versioned, versioned_key

T, U = b"t" * 16, b"u" * 16
FACET = ClassicFacet(10_000, (("range", b"12345"), ("turns", b"")))
A = ConsumerMember(
    "A",
    instance_id="one",
    rack_id="left",
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=60_000,
    topics=frozenset(("t", "u")),
    regex="a.*",
    assignor="range",
    classic=FACET,
    epoch=7,
    previous_epoch=6,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={T: {0: 3, 2: 7}, U: {1: 5}},
    revoking={T: {1: 4}},
)
B = ConsumerMember("B", regex=None, epoch=7, previous_epoch=7, state=MemberState.UNRELEASED_PARTITIONS)


class Log:
    """What was replayed of it, and which groups were heard of for the first time."""

    def __init__(self) -> None:
        self.firsts: list[str] = []
        self.held = Held()
        self.groups = ConsumerGroups(self.held, self.firsts.append)

    def replay(self, *records: Record) -> ConsumerGroup | None:
        for record in records:
            self.groups.replay(ReplayedRecord(0, 0, None, record.key, record.value))
        return self.groups.by_id.get("g")

    def read(self, *records: Record) -> ConsumerGroup:
        group = self.replay(*records)
        assert group is not None
        return group


def shown(group: ConsumerGroup) -> tuple[object, ...]:
    epochs = group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms
    return (*epochs, group.members, group.targets, group.resolved, group.static_ids)


def test_what_is_written_is_read_again() -> None:
    log = Log()
    resolved = ResolvedRegex(frozenset(("a2", "a1")), 11, 12)
    group = log.read(
        *(record for member in (A, B) for record in (member_metadata("g", member), current_assignment("g", member))),
        group_epoch("g", 9, -5),
        target_assignment("g", "A", {U: frozenset((1,)), T: frozenset((2, 0))}),
        assignment_epoch("g", 8, 1234),
        regular_expression("g", "a.*", resolved),
    )
    assert shown(group) == (
        9,
        -5,
        8,
        1234,
        {"A": A, "B": B},
        {"A": {T: {0, 2}, U: {1}}},
        {"a.*": resolved},
        {"one": "A"},
    )
    assert (group.is_owned(T, 1), log.firsts) == (True, ["g"])


def test_records_are_written_in_order_of_ids_and_partitions() -> None:
    """So that the same is written whatever came first."""
    turned = replace(A, assigned={U: {1: 5}, T: {2: 7, 0: 3}}, topics=frozenset(("u", "t")))
    assert current_assignment("g", turned) == current_assignment("g", A)
    assert member_metadata("g", turned) == member_metadata("g", A)
    assert target_assignment("g", "A", {U: frozenset(), T: frozenset()}) == target_assignment(
        "g", "A", {T: frozenset(), U: frozenset()}
    )


def test_records_are_in_the_versions_that_kafka_writes() -> None:
    resolved = ResolvedRegex(frozenset(), 1, 2)
    written = (
        group_epoch("g", 1, 0),
        member_metadata("g", A),
        assignment_epoch("g", 1, 2),
        target_assignment("g", "A", {}),
        current_assignment("g", A),
        regular_expression("g", "a", resolved),
    )
    assert [(read_version(record.key), read_version(record.value or b"")) for record in written] == [
        (3, 0),
        (5, 0),
        (6, 0),
        (7, 0),
        (8, 0),
        (16, 0),
    ]


def test_each_tombstone_takes_its_own_away() -> None:
    log = Log()
    group = log.read(
        member_metadata("g", A),
        current_assignment("g", A),
        member_metadata("g", B),
        target_assignment("g", "A", {T: frozenset((1,))}),
        assignment_epoch("g", 8, 1234),
        regular_expression("g", "a.*", ResolvedRegex(frozenset(), 1, 2)),
    )
    current, target, member = member_tombstones("g", "A")
    log.read(current)
    assert group.members["A"] == replace(A, epoch=-1, previous_epoch=-1, assigned={}, revoking={})
    log.read(target)
    assert group.targets == {}
    log.read(member)
    assert (list(group.members), log.groups.gone) == (["B"], [("g", "A")])
    log.read(regex_tombstone("g", "a.*"))
    assert group.resolved == {}
    log.read(Record(versioned_key(ConsumerGroupTargetAssignmentMetadataKey(group_id="g")), None))
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (-1, 0)
    assert log.replay(Record(versioned_key(ConsumerGroupMetadataKey(group_id="g")), None)) is None
    assert (log.groups.gone, log.held.bytes) == ([("g", "A"), ("g", "B"), ("g", "")], 0)


def test_tombstones_of_nothing_make_no_group() -> None:
    log = Log()
    ended = ConsumerGroup("g")
    ended.put(A)
    ended.resolve("a", ResolvedRegex(frozenset(), 1, 2))
    assert log.replay(*consumer_group_tombstones(ended)) is None
    assert (log.firsts, log.groups.gone, log.held.bytes) == ([], [], 0)
    group = log.read(group_epoch("g", 2, 0))
    assert log.read(*member_tombstones("g", "A"), regex_tombstone("g", "a")) is group
    assert (group.members, log.groups.gone) == ({}, [("g", "A")])


def test_offsets_of_before_leave_no_classic_group_beside() -> None:
    """A classic group became a consumer group, and compaction has taken away what was between (KAFKA-20254)."""
    ledger = GroupLedger()
    offset = committed_offset(
        "g",
        "t",
        0,
        offset=5,
        leader_epoch=-1,
        metadata="",
        commit_timestamp_ms=1,
        expire_timestamp_ms=-1,
        topic_id=T,
    )
    for at, record in enumerate((offset, member_metadata("g", A), group_epoch("g", 2, 0))):
        ledger.replay(ReplayedRecord(at, 1, None, record.key, record.value))
    assert (list(ledger.groups), list(ledger.consumers.by_id)) == ([], ["g"])
    stored = ledger.offsets.get("g", "t", 0)
    assert stored is not None and stored.offset == 5


def test_the_end_of_a_group_says_all_that_it_had_and_itself_last() -> None:
    group = ConsumerGroup("g")
    group.put(A)
    group.put(B)
    group.resolve("a.*", ResolvedRegex(frozenset(), 1, 2))
    ended = list(consumer_group_tombstones(group, instead={"B": "C"}))
    assert [record.value for record in ended] == [None] * 10
    names = {"group_id": "g"}
    assert [record.key for record in ended] == [
        versioned_key(ConsumerGroupCurrentMemberAssignmentKey(member_id="A", **names)),
        versioned_key(ConsumerGroupCurrentMemberAssignmentKey(member_id="C", **names)),
        versioned_key(ConsumerGroupTargetAssignmentMemberKey(member_id="A", **names)),
        versioned_key(ConsumerGroupTargetAssignmentMemberKey(member_id="C", **names)),
        versioned_key(ConsumerGroupTargetAssignmentMetadataKey(**names)),
        versioned_key(ConsumerGroupMemberMetadataKey(member_id="A", **names)),
        versioned_key(ConsumerGroupMemberMetadataKey(member_id="C", **names)),
        versioned_key(ConsumerGroupRegularExpressionKey(regular_expression="a.*", **names)),
        versioned_key(ConsumerGroupPartitionMetadataKey(**names)),
        versioned_key(ConsumerGroupMetadataKey(**names)),
    ]


def test_a_whole_group_is_read_as_it_was() -> None:
    made = ConsumerGroup("g")
    made.epoch = made.assignment_epoch = 4
    made.metadata_hash, made.assignment_timestamp_ms = 77, 99
    made.put(A)
    made.put(replace(B, regex=""))
    made.aim("A", {T: frozenset((0, 2))})
    made.aim("B", {})
    assert shown(Log().read(*whole_group(made))) == shown(made)


@pytest.mark.parametrize(
    "record",
    [
        group_epoch("g", 2, 0),
        member_metadata("g", B),
        assignment_epoch("g", 2, 0),
        target_assignment("g", "B", {}),
        current_assignment("g", B),
        regular_expression("g", "a", ResolvedRegex(frozenset(), 1, 2)),
        Record(partition_metadata_tombstone("g").key, b"\0\0"),
    ],
)
def test_any_record_makes_its_group(record: Record) -> None:
    log = Log()
    assert log.read(record).epoch == (2 if record.key[1] == 3 else 1)
    assert log.firsts == ["g"]
    assert log.held.bytes >= LOGGED_GROUP_BYTES


@pytest.mark.parametrize(
    "record",
    [
        group_epoch("g", 2, 0),
        member_metadata("g", B),
        assignment_epoch("g", 2, 0),
        target_assignment("g", "B", {}),
        current_assignment("g", B),
        regular_expression("g", "a", ResolvedRegex(frozenset(), 1, 2)),
    ],
)
def test_a_value_that_cannot_be_read_makes_its_group_unreadable_until_it_ends(record: Record) -> None:
    log = Log()
    with pytest.raises(UnreadableValue, match="consumer group 'g': "):
        log.replay(Record(record.key, b"\0\x63"))
    assert (log.groups.unreadable, list(log.groups.by_id)) == ({"g"}, ["g"])
    log.replay(record)
    assert log.groups.unreadable == {"g"}
    log.replay(Record(versioned_key(ConsumerGroupMetadataKey(group_id="g")), None))
    assert (log.groups.unreadable, log.groups.by_id) == (set(), {})


def test_a_group_remembers_that_an_older_release_has_written_of_its_topics() -> None:
    log = Log()
    key = partition_metadata_tombstone("g").key
    assert log.read(Record(key, b"whatever")).has_partition_metadata
    assert not log.read(Record(key, None)).has_partition_metadata


def test_states_and_epochs_as_other_releases_write_them() -> None:
    old = CurrentTopicPartitions(topic_id=T, partitions=[0, 2], assignment_epochs=None)
    torn = CurrentTopicPartitions(topic_id=U, partitions=[1], assignment_epochs=[1, 2])
    key = versioned_key(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="A"))
    read = {}
    for state in (0, 1, 2, 3, -1):
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=state,
            assigned_partitions=[old],
            partitions_pending_revocation=[torn],
        )
        read[state] = Log().read(Record(key, versioned(value, 0))).members["A"]
    assert [member.state for member in read.values()] == [
        MemberState.STABLE,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
        MemberState.UNKNOWN,
        MemberState.UNKNOWN,
    ]
    assert (read[0].assigned, read[0].revoking) == ({T: {0: 7, 2: 7}}, {U: {1: 7}})


def test_the_classic_side_of_a_member_is_null_where_it_has_none() -> None:
    record = member_metadata("g", B)
    assert record.value is not None
    assert read_versioned(ConsumerGroupMemberMetadataValue, record.value).classic_member_metadata is None
    classic = ClassicMemberMetadata(session_timeout_ms=5, supported_protocols=[])
    for facet, expected in ((classic, None), (_one_protocol(), ClassicFacet(5, (("range", b"m"),)))):
        value = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="",
            client_host="",
            subscribed_topic_names=[],
            subscribed_topic_regex=None,
            server_assignor=None,
            classic_member_metadata=facet,
        )
        assert Log().read(Record(record.key, versioned(value, 0))).members["B"].classic == expected
    assert read_key(ConsumerGroupMemberMetadataKey, record.key).member_id == "B"


def _one_protocol() -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="range", metadata=b"m")]
    )
