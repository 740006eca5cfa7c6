"""What is asked for an internal topic, and what is remembered of those that could not be made."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.streams_groups import internal_topics
from broker.coordination.streams_groups.internal_topics import REMEMBERED_MS, InternalTopicMaker
from coordinator.groups.streams.topology import InternalTopic
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig
from tests.unit.streams_groups.story import internal


class Topics:
    """Makes no topic unless told so."""

    def __init__(self) -> None:
        self.asked: list[CreatableTopic] = []
        self.answers: dict[str, tuple[ErrorCode, str | None]] = {}
        self.refusal: ErrorCode | None = None

    async def create(self, wanted: list[CreatableTopic]) -> list[Any]:
        self.asked += wanted
        if self.refusal is not None:
            raise CoordinatorError(self.refusal)
        answers = [(one.name, *self.answers.get(one.name, (ErrorCode.INVALID_CONFIG, None))) for one in wanted]
        return [SimpleNamespace(name=name, error_code=code, error_message=why) for name, code, why in answers]


class Clock:
    now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms


def maker(
    clock: Clock, topics: Topics | None = None, own: Callable[[Coroutine[Any, Any, None]], Any] = asyncio.run
) -> InternalTopicMaker:
    return InternalTopicMaker(cast(Any, topics or Topics()), cast(Any, clock), own)


def test_a_reason_is_known_for_a_while() -> None:
    clock = Clock()
    made = maker(clock)
    made.begin([internal("log")])
    clock.now_ms += REMEMBERED_MS
    assert made.failures([internal("log"), internal("other")]) == [("log", "INVALID_CONFIG")]
    clock.now_ms += 1
    assert made.failures([internal("log")]) == []


def test_the_oldest_reasons_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "MOST_REMEMBERED", 2)
    made = maker(Clock())
    for name in ("a", "b", "a", "c"):
        made.begin([internal(name)])
    assert [name for name, _ in made.failures(list(map(internal, "abc")))] == ["a", "c"]


def test_what_is_not_said_of_a_topic_is_left_to_the_broker() -> None:
    topics = Topics()
    copied = InternalTopic("copied", 3, 2, (("cleanup.policy", "compact"), ("retention.ms", "-1")))
    maker(Clock(), topics).begin([internal("log", 7), copied])
    configs = [
        CreatableTopicConfig(name="cleanup.policy", value="compact"),
        CreatableTopicConfig(name="retention.ms", value="-1"),
    ]
    assert topics.asked == [
        CreatableTopic(name="log", num_partitions=7, replication_factor=-1, assignments=[], configs=[]),
        CreatableTopic(name="copied", num_partitions=3, replication_factor=2, assignments=[], configs=configs),
    ]


def test_each_has_a_reason_of_its_own_until_it_is_there() -> None:
    topics = Topics()
    made = maker(Clock(), topics)
    wanted = [internal(name) for name in ("a", "b", "c")]
    topics.answers = {"a": (ErrorCode.NONE, None), "b": (ErrorCode.POLICY_VIOLATION, "no more of these")}
    made.begin(wanted)
    assert made.failures(wanted) == [("b", "no more of these"), ("c", "INVALID_CONFIG")]
    topics.answers |= {"b": (ErrorCode.NONE, None), "c": (ErrorCode.TOPIC_ALREADY_EXISTS, "It is there.")}
    made.begin(wanted)
    assert made.failures(wanted) == []


def test_a_directory_that_takes_nothing_now_is_the_reason_of_all_until_it_does() -> None:
    topics = Topics()
    made = maker(Clock(), topics)
    wanted = [internal("a"), internal("b")]
    topics.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    made.begin(wanted)
    assert made.failures(wanted) == [("a", "COORDINATOR_LOAD_IN_PROGRESS"), ("b", "COORDINATOR_LOAD_IN_PROGRESS")]
    topics.refusal = None
    topics.answers = dict.fromkeys("ab", (ErrorCode.NONE, None))
    made.begin(wanted)
    assert made.failures(wanted) == []


def test_what_is_being_made_is_not_asked_for_again() -> None:
    topics, left = Topics(), list[Coroutine[Any, Any, None]]()
    made = maker(Clock(), topics, left.append)
    made.begin([internal("a")])
    made.begin([internal("a"), internal("b")])
    made.begin([internal("a"), internal("b")])
    while left:
        asyncio.run(cast(Any, left.pop(0)))
    assert [one.name for one in topics.asked] == ["a", "b"]
    made.begin([internal("a")])
    assert len(left) == 1, "it could not be made: the next heartbeat asks again"
    left.pop().close()
