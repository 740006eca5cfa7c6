"""What is remembered of internal topics that could not be made."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.coordination.streams_groups import internal_topics
from broker.coordination.streams_groups.internal_topics import REMEMBERED_MS, InternalTopicMaker
from protocol.errors import ErrorCode
from tests.unit.streams_groups.story import internal


class Topics:
    """Makes no topic."""

    async def create(self, wanted: Any) -> list[Any]:
        refused = ErrorCode.INVALID_CONFIG
        return [SimpleNamespace(name=one.name, error_code=refused, error_message=None) for one in wanted]


class Clock:
    now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms


def maker(clock: Clock) -> InternalTopicMaker:
    return InternalTopicMaker(cast(Any, Topics()), cast(Any, clock), asyncio.run)  # type: ignore[arg-type]


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
