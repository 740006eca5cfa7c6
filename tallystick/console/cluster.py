"""The connections of one user to the cluster.

Rule 1. Pages and counters have a client each, so that counting keeps no page waiting.
Rule 2. A client does one thing at a time: it is not made for several callers at once.
Rule 3. A page waits `ANSWERED_S` for its turn and as long for its answer, so that pages that nobody looks at any more
        do not pile up before a broker that is frozen.
Rule 4. What was closed stays closed: a session that has ended asks for nothing more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tallystick.client.background import monotonic_s
from tallystick.client.client import Client
from tallystick.client.errors import ConnectionLost
from tallystick.client.security import Security

T = TypeVar("T")
ANSWERED_S = 15.0
_PATIENCE_S = 2.0
"""A page says sooner than a program that something is not there."""
_KNOWN_S = 2.0
"""For so long the list of topics is not asked for again: who types into the search asks many times a second."""


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic, as the list shows it."""

    name: str
    partitions: int
    is_internal: bool


class Asked:
    """One client, opened when it is first wanted."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._client: Client | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Whatever the client raises is raised here."""
        await self._wait_for_turn()
        try:
            client = self._client or await self._connected()
            return await client.in_time(work(client), ANSWERED_S)
        finally:
            self._turn.release()
            if self._is_closed:
                await self.close()

    async def _wait_for_turn(self) -> None:
        try:
            async with asyncio.timeout(ANSWERED_S):
                await self._turn.acquire()
        except TimeoutError:
            raise ConnectionLost("it has not answered what was asked before") from None
        if self._is_closed:
            self._turn.release()
            raise ConnectionLost("this session has ended")

    async def _connected(self) -> Client:
        try:
            async with asyncio.timeout(ANSWERED_S):
                self._client = await Client.connect(
                    self._bootstrap, client_id="tallystick-console", patience_s=_PATIENCE_S, security=self._security
                )
        except TimeoutError:
            raise ConnectionLost(f"no answer within {ANSWERED_S:.0f} s") from None
        return self._client

    async def close(self) -> None:
        self._is_closed = True
        if self._client is not None:
            await self._client.close()


class Cluster:
    """See the head of this file."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._pages = Asked(bootstrap, security)
        self.counters = Asked(bootstrap, security)
        self._topics: list[TopicLine] = []
        self._known_until_s = float("-inf")

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """For a page."""
        return await self._pages.ask(work)

    async def topics(self) -> list[TopicLine]:
        """All topics that the user may describe, by name."""
        if monotonic_s() > self._known_until_s:
            answer = await self.ask(lambda client: client.metadata())
            self._topics = sorted(
                (TopicLine(one.name, len(one.partitions), one.is_internal) for one in answer.topics if one.name),
                key=lambda one: one.name,
            )
            self._known_until_s = monotonic_s() + _KNOWN_S
        return self._topics

    def forget(self) -> None:
        """Ask anew for what was just changed."""
        self._known_until_s = float("-inf")

    async def close(self) -> None:
        await self._pages.close()
        await self.counters.close()
