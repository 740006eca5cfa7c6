"""What consumers of the classic protocol say in bytes: read and written in any version."""

import pytest

from coordinator.groups.consumer.embedded import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    EmbeddedTopicPartition,
    assignment_bytes,
    ids_of,
    read_assignment,
    read_subscription,
)
from coordinator.groups.consumer.topics import NAMES_MOST
from protocol.codec import versioned
from protocol.errors import ProtocolError
from tests.unit.consumer_groups.story import Topics, assignment, embedded, topic_id

T, U = topic_id("t"), topic_id("u")


def topics() -> Topics:
    made = Topics()
    made.set("t", 2)
    made.set("u", 2)
    return made


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_says_as_much_as_its_version_can(version: int) -> None:
    owned = [EmbeddedTopicPartition(topic="t", partitions=[1, 0])]
    whole = ConsumerProtocolSubscription(topics=["t", "u"], user_data=b"x")
    if version >= 1:
        whole.owned_partitions = owned
    if version >= 2:
        whole.generation_id = 7
    if version >= 3:
        whole.rack_id = "left"
    assert read_subscription(versioned(whole, version)) == whole


def test_later_versions_are_read_as_the_latest() -> None:
    said = versioned(ConsumerProtocolSubscription(topics=["t"], rack_id="left"), 3)
    assert read_subscription(b"\0\4" + said[2:]).rack_id == "left"
    assert read_subscription(b"\x7f\xff" + said[2:] + b"more").rack_id == "left"
    had = versioned(ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"x"), 3)
    assert read_assignment(b"\0\4" + had[2:]).user_data == b"x"


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b"\0\0\0\0"])
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_subscription(data)
    with pytest.raises(ProtocolError):
        read_assignment(data)


@pytest.mark.parametrize(
    ("like", "version"),
    [(b"\0\0", 0), (b"\0\1", 1), (b"\0\3", 3), (b"\0\4", 3), (b"\x7f\xff", 3), (b"", 0), (b"\xff\xff", 0)],
)
def test_an_assignment_is_written_in_the_version_of_the_subscription(like: bytes, version: int) -> None:
    had = {T: {1: 5, 0: 7}, b"?" * 16: {0: 1}}
    assert assignment_bytes(had, topics(), like) == version.to_bytes(2, "big") + assignment("t", 0, 1)[2:]


def test_partitions_by_the_ids_that_their_topics_have_now() -> None:
    said = [EmbeddedTopicPartition(topic=name, partitions=[1]) for name in ("u", "gone", "t")]
    assert ids_of(said, topics()) == [(U, [1]), (T, [1])]


def test_a_subscription_names_so_many_topics_and_no_more() -> None:
    names = [f"t{number}" for number in range(NAMES_MOST + 1)]
    assert len(read_subscription(embedded(*names[1:])).topics) == NAMES_MOST
    with pytest.raises(ProtocolError, match="more than 10000 topics"):
        read_subscription(embedded(*names))
