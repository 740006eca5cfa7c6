"""Creating, deleting and growing topics: codes and sentences as Apache Kafka 4.3.1 gave them."""

from itertools import repeat

import pytest

from coordinator.cluster.mutations import partitions_added, partitions_deleted, partitions_made
from coordinator.cluster.topic_deletion import plan_deletion
from coordinator.cluster.topics import partition_records, plan_creation, plan_growth
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatePartitionsAssignment, CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import ClusterRig, topic


def test_a_topic_is_made_with_the_broker_s_defaults() -> None:
    rig = ClusterRig()
    (result,) = rig.create(topic("orders"))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)
    assert rig.machine.image.topics["orders"].topic_id == result.topic_id != bytes(16)
    assert {config.name: config.value for config in result.configs}["retention.ms"] == "604800000"
    assert {(config.read_only, config.is_sensitive) for config in result.configs} == {(False, False)}


@pytest.mark.parametrize("replication", [-1, 1, 3, 32767])
def test_any_replication_factor_is_stored_as_one(replication: int) -> None:
    (result,) = ClusterRig().create(topic("orders", 1, replication))
    assert (result.error_code, result.replication_factor) == (ErrorCode.NONE, 1)


def test_strict_mode_refuses_more_than_one_replica() -> None:
    rig = ClusterRig(strict=True)
    assert rig.errors(topic("three", 1, 3))["three"][0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert rig.errors(topic("one", 1, 1))["one"][0] == ErrorCode.NONE


REFUSED = [
    ("", -1, -1, {}, 17, "Topic name is invalid: the empty string is not allowed"),
    (".", -1, -1, {}, 17, "Topic name is invalid: '.' is not allowed"),
    ("..", -1, -1, {}, 17, "Topic name is invalid: '..' is not allowed"),
    ("bad name!", -1, -1, {}, 17, "Topic name is invalid: 'bad name!' contains one or more characters other than ASCII "
     "alphanumerics, '.', '_' and '-'"),
    ("é", -1, -1, {}, 17, None),
    ("line\n", -1, -1, {}, 17, None),
    ("x" * 250, -1, -1, {}, 17, None),
    ("p", 0, -1, {}, 37, "Number of partitions was set to an invalid non-positive value."),
    ("p", -2, -1, {}, 37, None),
    ("p", 1, 0, {}, 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    ("p", 1, -2, {}, 38, None),
    ("p", 10_001, 1, {}, 44, "Excessively large number of partitions per request."),
    ("c", 1, 1, {"retention.ms": "abc"}, 40,
     "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
    ("c", 1, 1, {"nope": "1"}, 40, "Unknown topic config name: nope"),
    ("c", 1, 1, {"retention.ms": None}, 40, "Null value not supported for topic configs: retention.ms"),
    ("c", 1, 1, {"cleanup.policy": "foo"}, 40,
     "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
    ("c", 1, 1, {"segment.bytes": "1"}, 40,
     "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
    ("c", 1, 1, {"min.cleanable.dirty.ratio": "2"}, 40,
     "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
    ("c", 1, 1, {"preallocate": "yes"}, 40,
     "Invalid value yes for configuration preallocate: Expected value to be either true or false"),
    ("c", 1, 1, {"max.compaction.lag.ms": "1", "min.compaction.lag.ms": "10"}, 40,
     "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (1)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "partitions", "replication", "configs", "code", "sentence"), REFUSED)
def test_what_cannot_be_made_is_refused_and_leaves_no_trace(
    name: str, partitions: int, replication: int, configs: dict[str, str | None], code: int, sentence: str | None
) -> None:
    rig = ClusterRig()
    ((error, message),) = rig.errors(topic(name, partitions, replication, configs)).values()
    assert error == code
    assert sentence is None or message == sentence
    assert rig.log.end_offset == 0


def test_a_duplicate_name_in_a_request_fails_once() -> None:
    rig = ClusterRig()
    assert rig.errors(topic("dup"), topic("fine"), topic("dup"), topic("bad!")) == {
        "dup": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        "fine": (ErrorCode.NONE, None),
        "bad!": (ErrorCode.INVALID_TOPIC_EXCEPTION, rig.errors(topic("bad!"))["bad!"][1]),
    }
    assert set(rig.machine.image.topics) == {"fine"}


def test_names_that_differ_by_dot_and_underscore_collide() -> None:
    rig = ClusterRig()
    rig.create(topic("a_b.c"))
    assert rig.errors(topic("a.b.c"))["a.b.c"] == (17, "Topic 'a.b.c' collides with existing topic: a_b.c")
    assert rig.errors(topic("a_b.c"))["a_b.c"] == (36, "Topic 'a_b.c' already exists.")
    rig.delete(DeleteTopicState(name="a_b.c"))
    assert rig.errors(topic("a.b.c"))["a.b.c"][0] == ErrorCode.NONE


def test_validate_only_says_the_same_and_does_nothing() -> None:
    rig = ClusterRig()
    rig.create(topic("there"))
    end = rig.log.end_offset
    results = rig.create(topic("new", 7), topic("there"), validate_only=True)
    assert [(one.name, one.error_code, one.num_partitions) for one in results] == [("new", 0, 7), ("there", 36, -1)]
    assert rig.log.end_offset == end and results[0].topic_id == bytes(16)


ASSIGNMENTS = [
    ([(0, [1]), (1, [1])], -1, -1, 0, None),
    ([(0, [1])], 2, -1, 42, "A manual partition assignment was specified, but numPartitions was not set to -1."),
    ([(0, [1])], -1, 1, 42, "A manual partition assignment was specified, but replication factor was not set to -1."),
    ([(1, [1])], -1, -1, 39, "partitions should be a consecutive 0-based integer sequence"),
    ([(0, [5])], -1, -1, 39, "The manual partition assignment includes broker 5, but no such broker is registered."),
    ([(0, [1, 1])], -1, -1, 39, "The manual partition assignment includes the broker 1 more than once."),
    ([(0, [])], -1, -1, 39, "The manual partition assignment includes an empty replica list."),
    ([(0, [1]), (0, [1])], -1, -1, 39, "Found multiple manual partition assignments for partition 0"),
    ([(0, [1, 2, 3])], -1, -1, 0, None),
]


@pytest.mark.parametrize(("assignments", "partitions", "replication", "code", "sentence"), ASSIGNMENTS)
def test_manual_assignments(
    assignments: list[tuple[int, list[int]]], partitions: int, replication: int, code: int, sentence: str | None
) -> None:
    rig = ClusterRig()
    assert rig.errors(topic("m", partitions, replication, None, assignments))["m"] == (code, sentence)


def test_strict_mode_wants_brokers_that_exist() -> None:
    rig = ClusterRig(strict=True)
    assert rig.errors(topic("m", -1, -1, None, [(0, [1, 2])]))["m"][0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_every_entry_of_a_deletion_is_answered() -> None:
    rig = ClusterRig()
    made = {
        one.name: one.topic_id for one in rig.create(topic("a"), topic("b"), topic("c"), topic("__consumer_offsets"))
    }
    results = rig.delete(
        DeleteTopicState(name="a"),
        DeleteTopicState(topic_id=made["b"]),
        DeleteTopicState(name="c"),
        DeleteTopicState(name="c"),
        DeleteTopicState(name="nope"),
        DeleteTopicState(topic_id=b"nobody's" * 2),
        DeleteTopicState(),
        DeleteTopicState(name="a", topic_id=made["a"]),
        DeleteTopicState(name="__consumer_offsets"),
    )
    assert [(one.name, one.error_code) for one in results] == [
        ("a", 0), ("b", 0), ("c", 42), ("nope", 3), (None, 100), (None, 42), ("a", 42), ("__consumer_offsets", 42),
    ]  # fmt: skip
    assert set(rig.machine.image.topics) == {"c", "__consumer_offsets"}


def test_deletion_can_be_switched_off() -> None:
    rig = ClusterRig(deletion_enabled=False)
    rig.create(topic("a"))
    (result,) = rig.delete(DeleteTopicState(name="a"))
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_a_topic_made_again_is_another_topic() -> None:
    rig = ClusterRig()
    (first,) = rig.create(topic("a", configs={"retention.ms": "5"}))
    rig.delete(DeleteTopicState(name="a"))
    (second,) = rig.create(topic("a"))
    assert second.topic_id != first.topic_id
    assert rig.machine.image.topics["a"].configs == {}


def grow(rig: ClusterRig, name: str, count: int, assignments: list[list[int]] | None = None) -> tuple[int, str | None]:
    wanted = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
    )
    (result,) = rig.grow(wanted)
    return result.error_code, result.error_message


def test_topics_grow_and_never_shrink() -> None:
    rig = ClusterRig()
    rig.create(topic("t", 4))
    assert grow(rig, "nope", 5)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(rig, "t", 4) == (37, "Topic already has 4 partition(s).")
    assert grow(rig, "t", 3) == (37, "The topic t currently has 4 partition(s); 3 would not be an increase.")
    assert grow(rig, "t", 6, [[1]]) == (
        39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    )  # fmt: skip
    assert grow(rig, "t", 5, [[7]])[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(rig, "t", 6, [[1], [1]]) == (0, None)
    assert rig.machine.image.topics["t"].partition_count == 6


def test_internal_topics_do_not_grow() -> None:
    rig = ClusterRig()
    rig.create(topic("__transaction_state", 2))
    assert grow(rig, "__transaction_state", 5)[0] == ErrorCode.INVALID_REQUEST


def test_more_records_than_one_batch_takes_are_refused() -> None:
    """As by Kafka's controller: a topic, a partition and a setting are a record each."""
    rig = ClusterRig(num_partitions=1)
    results = rig.create(*(topic(f"t{number}") for number in range(5_001)))
    assert {(one.error_code, one.error_message) for one in results} == {
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    assert not rig.machine.image.topics
    assert {one.error_code for one in rig.create(*(topic(f"t{number}") for number in range(5_000)))} == {0}


def test_a_request_is_decided_as_far_as_there_is_time() -> None:
    rig = ClusterRig(num_partitions=1)
    topics = [topic("a"), topic("b"), topic("c"), topic("c")]
    looks = iter([False, True])
    planned = plan_creation(rig.machine.image, topics, rig.rules)
    first = rig.ask(
        lambda machine, ticket: machine.create_topics(
            ticket, planned, rig.rules, fresh_id=rig.fresh_id, spent=lambda: next(looks)
        )
    )
    assert [(one.name, one.error_code) for one in first] == [("a", 0), ("b", 0)]
    assert list(rig.machine.image.topics) == ["a", "b"]
    rest = rig.ask(lambda machine, ticket: machine.create_topics(ticket, planned[2:], rig.rules, fresh_id=rig.fresh_id))
    assert [(one.name, one.error_code) for one in rest] == [("c", ErrorCode.INVALID_REQUEST)]


def test_what_is_refused_counts_nothing_for_the_quota_of_mutations() -> None:
    """KIP-599."""
    rig = ClusterRig()
    rig.create(topic("t", 3))
    image, rules = rig.machine.image, rig.rules
    made = plan_creation(image, [topic("new", 2), topic("t", 2), topic("twice", 1), topic("twice", 1)], rules)
    assert [partitions_made(image, one, rules) for one in made] == [2, 0, 0]
    wanted = (("t", 5), ("gone", 5), ("twice", 1), ("twice", 1))
    grown = plan_growth([CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wanted])
    assert [partitions_added(image, one, rules) for one in grown] == [2, 0, 0]
    less = plan_growth([CreatePartitionsTopic(name="t", count=2, assignments=None)])
    assert [partitions_added(image, one, rules) for one in less] == [0]
    gone = plan_deletion(image, [DeleteTopicState(name="t"), DeleteTopicState(name="gone")])
    assert [partitions_deleted(image, one, rules) for one in gone] == [3, 0]


def test_records_of_new_partitions_are_field_by_field_as_kafka_writes_them() -> None:
    rig = ClusterRig(leader_epoch=7, directory=b"d" * 16)
    made = list(partition_records(b"i" * 16, range(3, 5), repeat(1), 7, rig.rules))
    assert [one.partition_id for one in made] == [3, 4]
    for one in made:
        assert (one.topic_id, one.directories) == (b"i" * 16, [b"d" * 16])
        assert (one.replicas, one.isr, one.removing_replicas, one.adding_replicas) == ([1], [1], [], [])
        assert (one.leader, one.leader_epoch, one.partition_epoch) == (1, 7, 0)
