"""Makes the internal topics of streams groups: what a heartbeat asks for is made behind it, in a task of the node.

The member hears with a later heartbeat that they are there, or why they could not be made.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from broker.coordination.coordinators import CoordinatorError
from broker.coordination.topics import TopicDirectory
from broker.process.environment import Environment
from coordinator.groups.streams.topology import InternalTopic
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreatableTopicConfig

REMEMBERED_MS = 60_000
"""How long it is known why a topic could not be made. Each heartbeat of a member tries again."""
MOST_REMEMBERED = 10_000
"""Topics with such a reason; beyond that the oldest are forgotten."""


class InternalTopicMaker:
    """See the head of this file. `own` runs work to its end."""

    def __init__(
        self,
        topics: TopicDirectory,
        environment: Environment,
        own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._topics = topics
        self._environment = environment
        self._own = own
        self._under_way: set[str] = set()
        self._failures: dict[str, tuple[int, str]] = {}
        """Topic → (when that was, why it could not be made)."""

    def begin(self, wanted: Sequence[InternalTopic]) -> None:
        """Make topics that are not being made already."""
        new = [topic for topic in wanted if topic.name not in self._under_way]
        if new:
            self._under_way.update(topic.name for topic in new)
            self._own(self._make(new))

    def failures(self, wanted: Sequence[InternalTopic]) -> list[tuple[str, str]]:
        """Those of these topics that could not be made lately, and why."""
        since_ms = self._environment.monotonic_ms() - REMEMBERED_MS
        found = ((topic.name, self._failures.get(topic.name)) for topic in wanted)
        return [(name, failure[1]) for name, failure in found if failure is not None and failure[0] >= since_ms]

    async def _make(self, wanted: Sequence[InternalTopic]) -> None:
        try:
            results = await self._topics.create([_creatable(topic) for topic in wanted])
            for result in results:
                made = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                why = result.error_message or ErrorCode(result.error_code).name
                self._remember(result.name, None if made else why)
        except CoordinatorError as refused:
            for topic in wanted:
                self._remember(topic.name, refused.error.name)
        finally:
            self._under_way.difference_update(topic.name for topic in wanted)

    def _remember(self, name: str, failure: str | None) -> None:
        self._failures.pop(name, None)
        if failure is not None:
            self._failures[name] = (self._environment.monotonic_ms(), failure)
            if len(self._failures) > MOST_REMEMBERED:
                del self._failures[next(iter(self._failures))]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor if topic.replication_factor > 0 else -1,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
