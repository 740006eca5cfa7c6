"""Records of share groups as they are asked for on the wire: what Apache Kafka answers, we answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from protocol.errors import ErrorCode
from tallystick.client.connection import Connection
from tests.harness.sharing import Member, Shared

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
Story = Callable[[Shared], Coroutine[Any, Any, None]]


@pytest.fixture
def tell(bootstrap: str, name: str) -> Callable[[Story], None]:
    """Play a story with a topic and a group of its own."""

    def play(story: Story) -> None:
        async def run() -> None:
            host, port = bootstrap.rsplit(":", 1)
            connection = await Connection.connect(host, int(port))
            shared = await Shared(connection, name, f"group-{name}").begin()
            await story(shared)
            shared.abort()

        asyncio.run(asyncio.wait_for(run(), 60))

    return play


def test_records_are_shared_out(tell: Callable[[Story], None]) -> None:
    async def story(shared: Shared) -> None:
        ada, bob = Member(shared, "ada"), Member(shared, "bob")
        await shared.produce(3, 2, 4)
        assert await ada.fetch() == [(0, 8, 1)]
        assert ada.batches == [0, 3, 5]
        assert await bob.fetch() == []
        assert await ada.say((0, 2, ACCEPT)) is ErrorCode.NONE
        assert await ada.say((3, 3, RELEASE), (4, 4, REJECT)) is ErrorCode.NONE
        assert await shared.kept() == (3, [(3, 3, 0, 1), (4, 4, 4, 1)])
        assert await bob.fetch() == [(3, 3, 2)]
        assert bob.batches == [3]
        assert await bob.fetch((3, 3, ACCEPT)) == []
        assert await bob.say((5, 8, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
        assert await ada.say((3, 3, ACCEPT)) is ErrorCode.NONE, "what is done for good is passed over"
        assert await ada.say((20, 21, ACCEPT)) is ErrorCode.INVALID_REQUEST
        assert await ada.say((8, 20, ACCEPT)) is ErrorCode.INVALID_REQUEST
        assert await ada.say((5, 8, [1, 0, 2, 3])) is ErrorCode.NONE
        assert await shared.kept() == (5, [(5, 5, 2, 1), (6, 6, 4, 1), (7, 7, 0, 1), (8, 8, 4, 1)])
        assert await ada.say(share_session_epoch=-1) is ErrorCode.NONE
        assert await bob.fetch() == [(7, 7, 2)]

    tell(story)


def test_limits_and_deliveries(tell: Callable[[Story], None]) -> None:
    """KIP-1206, and few at a time of what came back often."""

    async def story(shared: Shared) -> None:
        ada, bob = Member(shared, "ada"), Member(shared, "bob")
        await shared.produce(10, 10, 10, 10)
        assert await ada.fetch(max_records=15, batch_size=5) == [(0, 9, 1), (10, 19, 1)]
        assert await bob.fetch(max_records=4, share_acquire_mode=1) == [(20, 23, 1)]
        assert await bob.fetch(max_records=8, share_acquire_mode=1) == [(24, 29, 1), (30, 31, 1)]
        assert await ada.say((0, 9, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch(max_records=3, share_acquire_mode=1) == [(0, 2, 2)]
        assert await bob.fetch(max_records=1) == [(3, 9, 2)]
        assert await bob.say((0, 9, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch() == [(0, 9, 3), (32, 39, 1)]
        assert await bob.say((0, 9, RELEASE)) is ErrorCode.NONE
        assert await bob.fetch() == [(0, 4, 4)]
        assert await bob.say((0, 4, RELEASE)) is ErrorCode.NONE
        for alone in range(3):
            assert await bob.fetch() == [(alone, alone, 5)]
        assert await bob.say((0, 0, RELEASE)) is ErrorCode.NONE
        assert await shared.kept() == (0, [(0, 0, 4, 5), (1, 4, 0, 4), (5, 9, 0, 3)])

    tell(story)


def test_a_renewal_is_said_alone(tell: Callable[[Story], None]) -> None:
    """KIP-1222."""

    async def story(shared: Shared) -> None:
        ada = Member(shared, "ada")
        await shared.produce(2)
        assert await ada.fetch() == [(0, 1, 1)]
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
        assert await ada.fetch((0, 0, RENEW), is_renew_ack=True, **nothing) == []
        assert await ada.say((0, 0, RENEW)) is ErrorCode.INVALID_REQUEST
        assert await ada.say((0, 1, [4, 1]), is_renew_ack=True) is ErrorCode.NONE
        assert await ada.say((0, 0, ACCEPT)) is ErrorCode.NONE
        assert await ada.say((0, 1, ACCEPT)) is ErrorCode.NONE

    tell(story)


def test_sessions_have_epochs(tell: Callable[[Story], None]) -> None:
    async def story(shared: Shared) -> None:
        ada = Member(shared, "ada")
        assert await ada.say(share_session_epoch=3) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await ada.say(share_session_epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ada.say(share_session_epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await ada.fetch() == []
        assert await ada.say(share_session_epoch=3) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await ada.say() is ErrorCode.NONE
        assert await ada.say(share_session_epoch=-1) is ErrorCode.NONE
        assert await ada.say(share_session_epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND

    tell(story)
