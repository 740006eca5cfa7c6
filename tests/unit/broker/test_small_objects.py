"""Small objects of a bucket: each is brought once for all who want it, kept for a while, and asked for again where it
did not come.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.shared.small_objects import SmallObjects


class Bringing:
    """What was asked for, in a bucket that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def bring(self, upload_id: int, size_bytes: int, for_reader: bool) -> bytes:
        self.asked.append(upload_id)
        await self.gate.wait()
        if self.fails:
            raise OSError("away")
        return bytes([upload_id]) * size_bytes


def tell(story: Callable[[Bringing, SmallObjects], Awaitable[None]]) -> None:
    async def told() -> None:
        bringing = Bringing()
        await story(bringing, SmallObjects(bringing.bring, 100))

    asyncio.run(told())


def test_who_wants_the_same_gets_the_same() -> None:
    async def story(bringing: Bringing, objects: SmallObjects) -> None:
        bringing.gate.clear()
        waiting = [asyncio.ensure_future(objects.whole(1, 10, False)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        bringing.gate.set()
        assert await asyncio.gather(*waiting[1:]) == [b"\x01" * 10] * 2
        assert await objects.whole(1, 10, False) == b"\x01" * 10
        assert bringing.asked == [1]

    tell(story)


def test_what_was_wanted_longest_ago_goes_first() -> None:
    async def story(bringing: Bringing, objects: SmallObjects) -> None:
        for upload_id in (1, 2, 1, 3, 1, 2):
            await objects.whole(upload_id, 40, False)
        assert bringing.asked == [1, 2, 3, 2]
        await objects.whole(4, 1_000, False)
        assert list(objects._kept) == [4], "one that is larger than all is there alone"
        await objects.whole(5, 100, False)
        assert list(objects._kept) == [5]
        assert objects._left_bytes == 0

    tell(story)


def test_what_did_not_come_is_asked_for_again() -> None:
    async def story(bringing: Bringing, objects: SmallObjects) -> None:
        bringing.fails = True
        with pytest.raises(OSError, match="away"):
            await objects.whole(1, 10, False)
        bringing.fails = False
        assert await objects.whole(1, 10, False) == b"\x01" * 10
        assert objects._left_bytes == 90

    tell(story)
