"""The topics of a group, read some at a time, once for each generation."""

from collections.abc import Iterable

import pytest

from coordinator.groups.subscriptions import READ_AT_ONCE_BYTES, Subscriptions
from tests.unit.groups.story import subscription

LARGE = subscription("t" * (READ_AT_ONCE_BYTES // 2))


class Members:
    """Counts how often it is asked for the metadata of all."""

    def __init__(self, *metadata: bytes) -> None:
        self.asked = 0
        self._metadata = metadata

    def __call__(self) -> Iterable[bytes]:
        self.asked += 1
        return self._metadata


def test_topics_are_known_when_all_are_read() -> None:
    members = Members(subscription("a", "b"), LARGE, LARGE, subscription("b", "c"))
    subscriptions = Subscriptions(members)
    reads = 0
    while not subscriptions.read():
        reads += 1
        assert subscriptions.topics is None
    assert reads == 1
    assert subscriptions.topics == {"a", "b", "c", "t" * (READ_AT_ONCE_BYTES // 2)}
    assert subscriptions.read() and members.asked == 1


def test_nobody_wants_nothing() -> None:
    subscriptions = Subscriptions(Members())
    assert subscriptions.read() and subscriptions.topics == frozenset()


@pytest.mark.parametrize("version", [0, 1, 3, 128, 32_767])
def test_a_subscription_of_a_later_version_begins_as_the_first_does(version: int) -> None:
    said = version.to_bytes(2, "big") + subscription("", "t")[2:] + b"what later versions add"
    subscriptions = Subscriptions(Members(said))
    assert subscriptions.read() and subscriptions.topics == {"", "t"}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x80\x00" + subscription("t")[2:],
        b"\x00\x00",
        b"\xff\xff" + subscription("t")[2:],
        subscription("t")[:-5],
        subscription("t")[:8] + b"\xff\xff",
    ],
    ids=["empty", "most negative version", "no topics", "negative version", "cut off", "negative length"],
)
def test_one_that_cannot_be_read_ends_the_reading(metadata: bytes) -> None:
    """Nothing is known of the topics, and nobody looks again in this generation."""
    members = Members(LARGE, LARGE, metadata)
    subscriptions = Subscriptions(members)
    assert subscriptions.read() and subscriptions.read()
    assert (subscriptions.topics, members.asked) == (None, 1)
