"""What regular expressions of consumer groups stand for: the names of topics that match them as a whole.

RE2 decides, in time that grows with the text and with nothing else, and off the event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from broker.coordination.coordinators import CoordinatorError, Shards
from broker.coordination.topics import TopicDirectory
from broker.process.environment import Environment
from broker.process.logging import EventLog
from coordinator.groups.consumer.soft_state import Resolution
from coordinator.groups.coordinator import GroupCoordinator
from coordinator.machine import Outcome, Ticket
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    import re2

_log = EventLog("groups")

LONGEST = 10_000
"""In bytes; topics have names of 249."""
MEMORY_BYTES = 1 << 18
"""Of one compiled expression, and of what it keeps while it matches. The library keeps the last 128."""


def _compiled(expression: str) -> "re2._Regexp[str]":
    import re2  # 2.6 MB, and few brokers have a group that subscribes by an expression

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        said: bytes = error.args[0]
        raise NoExpression(said.decode("utf-8", "replace").partition(": ")[0]) from error


class NoExpression(Exception):
    """The message says why."""


def problem_of(expression: str) -> str | None:
    """What is wrong with an expression, if anything."""
    if len(expression.encode()) > LONGEST:
        return f"longer than {LONGEST} bytes"
    try:
        _compiled(expression)
    except NoExpression as problem:
        return str(problem)
    return None


def matching(expressions: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The names that each expression stands for. An expression that is none stands for nothing."""
    found = {}
    for expression in expressions:
        if problem_of(expression) is None:
            pattern = _compiled(expression)
            found[expression] = [name for name in names if pattern.fullmatch(name) is not None]
        else:
            found[expression] = []
    return found


class ExpressionResolver:
    """Looks through the topics for coordinators that ask, and tells them. `own` runs work to its end."""

    def __init__(
        self,
        groups: Shards[GroupCoordinator],
        topics: TopicDirectory,
        environment: Environment,
        own: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._environment = environment
        self._own = own

    def begin(self, asked: Resolution, may_see: Callable[[str], bool]) -> None:
        """Only topics that the one who asked may see are found."""
        self._own(self._resolve(asked, may_see))

    async def _resolve(self, asked: Resolution, may_see: Callable[[str], bool]) -> None:
        try:
            names = [topic.name for topic in self._topics.all()]
            matched = await self._environment.run_beside(lambda: matching(asked.expressions, names))
            time_slice = self._environment.time_slice()
            found = {}
            for expression, of in matched.items():
                seen = await time_slice.each(lambda name: name if may_see(name) else "", of)
                found[expression] = frozenset(filter(None, seen))
        except Exception:
            await self._tell(asked, None)
            raise
        await self._tell(asked, found)

    async def _tell(self, asked: Resolution, found: dict[str, frozenset[str]] | None) -> None:
        def tell(machine: GroupCoordinator, ticket: Ticket[bool], now_ms: int) -> Outcome[bool]:
            return machine.expressions_resolved(asked, found, ticket, now_ms)

        try:
            await self._groups.ask(asked.group_id, tell)
        except CoordinatorError as refused:
            # A shard that is loaded again has forgotten that it asked.
            if found is not None and refused.error is ErrorCode.UNKNOWN_SERVER_ERROR:
                count = sum(map(len, found.values()))
                _log.warning("topics of regular expressions fit into no record", group=asked.group_id, topics=count)
                await self._tell(asked, None)
