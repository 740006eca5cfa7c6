"""Other nodes as a test describes them."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from broker.peers.port import PeerUnreachable
from storage.shared.memory_store import StoreInMemory

R = TypeVar("R")
ME, OTHER, THIRD = 1, 2, 3


class SlowStore(StoreInMemory):
    """Those that are made of it wait for `answers` with what they answer, and know nothing while it `is_away`."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.answers = asyncio.Event()
        self.answers.set()
        self.is_away = False
        self.looks = 0


class FakePeers:
    """Answers by `answer(node, request)`; None: nobody is reached. With `gate` unset, who asks waits."""

    def __init__(self, answer: Callable[[int, Any], Any]) -> None:
        self._answer = answer
        self.asked: list[tuple[int, Any, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, node_id: int, request: object, version: int, response: type[R]) -> R:
        self.asked.append((node_id, request, version))
        await self.gate.wait()
        answer = self._answer(node_id, request)
        if answer is None:
            raise PeerUnreachable("nobody is there")
        assert isinstance(answer, response)
        return answer

    def addresses_changed(self) -> None:
        """Nobody moves."""

    async def close(self) -> None:
        """There is nothing to close."""


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
