"""The rules of making, deleting and growing topics at their edges: limits, names, ids, and what is answered."""

from collections.abc import Iterator

import pytest

from coordinator.cluster.topic_deletion import plan_deletion
from coordinator.cluster.topic_rules import MOST_PARTITIONS_PER_REQUEST, Refused, check_name
from coordinator.cluster.topics import plan_creation, plan_growth
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreatePartitionsAssignment, CreatePartitionsTopic, DeleteTopicState
from tests.unit.cluster.cluster_rig import ClusterRig, topic

TOO_MANY_PARTITIONS = (44, "Excessively large number of partitions per request.")
TOO_MANY_RECORDS = (44, "Unable to perform excessively large batch operation.")
TWICE = (42, "Duplicate topic name.")
NO_ID = bytes(16)


def planned(rig: ClusterRig, *topics: CreatableTopic) -> set[tuple[int, str | None] | None]:
    """What is wrong with topics before one is looked at, None for nothing."""
    entries = plan_creation(rig.machine.image, topics, rig.rules)
    return {None if one.refused is None else (one.refused.error, one.refused.message) for one in entries}


def test_partitions_of_a_request_are_counted_together() -> None:
    rig = ClusterRig(num_partitions=4)
    assert planned(rig, topic("a", 9_994), topic("b")) == {None}
    assert planned(rig, topic("a", 9_995), topic("b")) == {TOO_MANY_RECORDS}
    by_hand = topic("b", assignments=[(index, [1]) for index in range(3)])
    assert planned(rig, topic("a", 9_995), by_hand) == {None}
    assert planned(rig, topic("a", 9_996), by_hand) == {TOO_MANY_RECORDS}
    assert planned(rig, topic("a", 9_998), by_hand) == {TOO_MANY_PARTITIONS}
    rig.create(topic("there", 1), topic("too", 1))
    assert planned(rig, topic("there", 9_996), topic("too")) == {None}, "they are not made"
    assert planned(rig, topic("there", 9_997), topic("too")) == {TOO_MANY_PARTITIONS}
    assert planned(rig, topic("a", 9_989), topic("none", 0), topic("odd", -7)) == {None}, "the default is counted"
    assert planned(rig, topic("a", 9_990), topic("none", 0), topic("odd", -7)) == {TOO_MANY_RECORDS}


def test_settings_are_records_of_a_request() -> None:
    rig = ClusterRig()
    two = {"retention.ms": "5", "segment.ms": "5"}
    assert planned(rig, topic("a", 9_997, configs=dict(two))) == {None}
    assert planned(rig, topic("a", 9_998, configs=dict(two))) == {TOO_MANY_RECORDS}


@pytest.mark.parametrize("longest", [249, 20])
def test_how_long_a_name_may_be(longest: int) -> None:
    rig = ClusterRig(longest_name=longest)
    name = "x" * (longest + 1)
    assert rig.errors(topic(name[1:]))[name[1:]] == (0, None)
    problem = f"the length of '{name}' is longer than the max allowed length {longest}"
    assert rig.errors(topic(name))[name] == (17, f"Topic name is invalid: {problem}")


def test_the_longest_name_of_all_is_kafkas() -> None:
    check_name("x" * 249)
    with pytest.raises(Refused, match="longer than the max allowed length 249"):
        check_name("x" * 250)


def test_the_metadata_log_is_no_topic_to_be_made() -> None:
    name = "__cluster_metadata"
    assert ClusterRig().errors(topic(name))[name] == (36, f"Topic '{name}' already exists.")


def test_no_two_topics_have_one_id() -> None:
    rig = ClusterRig()
    (first,) = rig.create(topic("a", 1))
    ids: Iterator[bytes] = iter([NO_ID, first.topic_id, NO_ID, b"second".ljust(16)])
    rig.fresh_id = lambda: next(ids)  # type: ignore[method-assign]
    (second,) = rig.create(topic("b", 1))
    assert second.topic_id == b"second".ljust(16)


def test_internal_topics_are_made_with_their_own_settings() -> None:
    rig = ClusterRig(internal_configs={"__consumer_offsets": {"cleanup.policy": "compact"}})
    asked: dict[str, str | None] = {"cleanup.policy": "delete", "retention.ms": "5", "segment.ms": "6"}
    rig.create(topic("__consumer_offsets", configs=dict(asked)), topic("t", configs=dict(asked)))
    topics = rig.machine.image.topics
    assert topics["__consumer_offsets"].configs == asked | {"cleanup.policy": "compact"}
    assert topics["t"].configs == asked


def test_all_settings_without_a_value_are_named() -> None:
    configs: dict[str, str | None] = {"segment.ms": None, "retention.ms": "5", "nope": None}
    message = "Null value not supported for topic configs: segment.ms,nope"
    assert ClusterRig().errors(topic("t", configs=configs))["t"] == (40, message)


STRICT = [
    (1, 0, None),
    (-1, 0, None),
    (
        2,
        38,
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
        "only 1 broker(s) are registered.",
    ),
]


@pytest.mark.parametrize(("factor", "code", "message"), STRICT)
def test_replicas_that_cannot_be(factor: int, code: int, message: str | None) -> None:
    assert ClusterRig(strict=True).errors(topic("t", 1, factor))["t"] == (code, message)


NO_SUCH = "The manual partition assignment includes broker 2, but no such broker is registered."
BY_HAND = [
    ([[1, 2], [1]], False, "The manual partition assignment includes a partition with 1 replica(s), but this is not "
     "consistent with previous partitions, which have 2 replica(s)."),
    ([[1, 2], [2, 1]], False, None),
    ([[1], [2]], False, NO_SUCH),
    ([[1, 2]], True, NO_SUCH),
    ([[1], [1]], True, None),
    ([[2, 1, 2]], False, "The manual partition assignment includes the broker 2 more than once."),
]  # fmt: skip


@pytest.mark.parametrize(("replicas", "strict", "message"), BY_HAND)
def test_replicas_by_hand(replicas: list[list[int]], strict: bool, message: str | None) -> None:
    rig = ClusterRig(strict=strict)
    code = 0 if message is None else 39
    assert rig.errors(topic("t", assignments=list(enumerate(replicas))))["t"] == (code, message)
    rig.create(topic("grows", 1))
    more = [CreatePartitionsAssignment(broker_ids=one) for one in replicas]
    (grown,) = rig.grow(CreatePartitionsTopic(name="grows", count=1 + len(replicas), assignments=more))
    assert (grown.error_code, grown.error_message) == (code, message)


def test_a_topic_is_made_in_the_order_in_which_it_is_read() -> None:
    rig = ClusterRig()
    rig.create(topic("t", 3, configs={"retention.ms": "5"}))
    assert rig.reloaded().machine.image.topics == rig.machine.image.topics


def grown(rig: ClusterRig, *wanted: tuple[str, int]) -> list[tuple[str, int, str | None]]:
    entries = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wanted]
    return [(one.name, one.error_code, one.error_message) for one in rig.grow(*entries)]


def test_how_much_a_topic_may_grow_at_once() -> None:
    rig = ClusterRig()
    rig.create(topic("t", 2), topic("__consumer_offsets", 1))
    most = MOST_PARTITIONS_PER_REQUEST
    assert grown(rig, ("t", 3 + most)) == [("t", *TOO_MANY_PARTITIONS)]
    assert grown(rig, ("t", 2 + most), ("gone", 5), ("t", 3)) == [
        ("t", *TWICE),
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]
    assert grown(rig, ("t", 2 + most)) == [("t", 0, None)]
    assert rig.machine.image.topics["t"].partition_count == 2 + most
    internal = "The number of partitions of __consumer_offsets cannot change."
    assert grown(rig, ("__consumer_offsets", 2)) == [("__consumer_offsets", 42, internal)]


def deleted(rig: ClusterRig, *states: DeleteTopicState) -> list[tuple[str | None, bytes, int, str | None]]:
    return [(one.name, one.topic_id, one.error_code, one.error_message) for one in rig.delete(*states)]


def test_what_is_answered_of_a_deletion() -> None:
    rig = ClusterRig()
    a, b, c = (one.topic_id for one in rig.create(topic("a"), topic("b"), topic("c")))
    nobodys = b"n" * 16
    assert deleted(rig, DeleteTopicState(name="a"), DeleteTopicState(topic_id=a)) == [("a", a, *TWICE)]
    assert deleted(rig, DeleteTopicState(topic_id=b), DeleteTopicState(topic_id=b)) == [(None, b, *TWICE)]
    assert deleted(rig, DeleteTopicState(name="c"), DeleteTopicState(name="c")) == [("c", NO_ID, *TWICE)]
    both = DeleteTopicState(name="a", topic_id=a)
    only_one = "You may not specify both topic name and topic id."
    assert deleted(rig, both, both, DeleteTopicState(name="a")) == [
        ("a", a, 42, only_one),
        ("a", a, 42, only_one),
        ("a", a, 0, None),
    ]
    assert deleted(rig, DeleteTopicState(), DeleteTopicState(topic_id=nobodys), DeleteTopicState(name="a")) == [
        (None, NO_ID, 42, "Neither topic name nor id were specified."),
        (None, nobodys, 100, "This server does not host this topic ID."),
        ("a", NO_ID, 3, "This server does not host this topic-partition."),
    ]
    assert deleted(rig, DeleteTopicState(topic_id=b)) == [("b", b, 0, None)]
    assert list(rig.machine.image.topics) == ["c"] and list(rig.machine.image.by_id) == [c]


def test_what_is_wrong_with_an_entry_is_told_before_that_nothing_is_deleted() -> None:
    rig = ClusterRig(deletion_enabled=False)
    (made,) = rig.create(topic("a"))
    off = (ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    entries = [
        DeleteTopicState(),
        DeleteTopicState(name="a", topic_id=made.topic_id),
        DeleteTopicState(name="gone"),
        DeleteTopicState(name="a"),
    ]
    found = [(code, message) for _, _, code, message in deleted(rig, *entries)]
    assert found[0][0] == found[1][0] == ErrorCode.INVALID_REQUEST and found[2:] == [off, off]
    assert list(rig.machine.image.topics) == ["a"]


def test_an_internal_topic_is_not_deleted() -> None:
    rig = ClusterRig()
    (made,) = rig.create(topic("__transaction_state"))
    message = "__transaction_state is internal: its coordinators are running on it."
    by_name, by_id = DeleteTopicState(name="__transaction_state"), DeleteTopicState(topic_id=made.topic_id)
    assert deleted(rig, by_name) == [("__transaction_state", NO_ID, 42, message)]
    assert deleted(rig, by_id) == [(None, made.topic_id, 42, message)]


def test_deletions_and_growths_go_as_far_as_there_is_time() -> None:
    rig = ClusterRig()
    rig.create(topic("a", 1), topic("b", 1))
    wanted = plan_growth([CreatePartitionsTopic(name=name, count=2, assignments=None) for name in "ab"])
    results = rig.ask(lambda machine, ticket: machine.create_partitions(ticket, wanted, rig.rules, spent=lambda: True))
    assert [one.name for one in results] == ["a"]
    assert [rig.machine.image.topics[name].partition_count for name in "ab"] == [2, 1]
    states = plan_deletion(rig.machine.image, [DeleteTopicState(name=name) for name in "ab"])
    results = rig.ask(lambda machine, ticket: machine.delete_topics(ticket, states, rig.rules, spent=lambda: True))
    assert [one.name for one in results] == ["a"] and list(rig.machine.image.topics) == ["b"]


def test_partitions_that_are_only_asked_about_are_not_made() -> None:
    rig = ClusterRig()
    rig.create(topic("t", 1))
    wanted = plan_growth([CreatePartitionsTopic(name="t", count=2, assignments=None)])
    (result,) = rig.ask(
        lambda machine, ticket: machine.create_partitions(ticket, wanted, rig.rules, validate_only=True)
    )
    assert (result.name, result.error_code, rig.machine.image.topics["t"].partition_count) == ("t", 0, 1)
