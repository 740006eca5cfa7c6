"""Records of a share group over `kill -9`: what was acknowledged is not handed out again, and all else is."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from protocol.errors import ErrorCode
from tallystick.client.connection import Connection
from tallystick.process import BrokerProcess
from tests.harness.retriable import PASSES_BY_ITSELF
from tests.harness.sharing import Member, Shared, ShareRefused

RECORDS, ROUNDS = 60, 4


def test_nothing_acknowledged_comes_back_and_nothing_is_lost(own_broker: Callable[..., BrokerProcess]) -> None:
    broker, random = own_broker().start(), Random(7)
    settled: set[int] = set()
    counted: dict[int, int] = {}

    async def settle(member: Member, part: int) -> None:
        """One of so many of what is handed out."""
        handed = [one for one in await _wait_for_records(member) for one in range(one[0], one[1] + 1)]
        assert not settled & set(handed), "acknowledged before"
        assert len(handed) == len(set(handed))
        for offset in handed:
            counted[offset] = counted.get(offset, 0) + 1
        for offset in random.sample(handed, len(handed) // part):
            kind = random.choice((1, 3))
            assert await member.say((offset, offset, [kind])) is ErrorCode.NONE
            settled.add(offset)

    async def round_of(number: int, topic_id: bytes) -> bytes:
        connection = await Connection.connect("127.0.0.1", broker.port)
        shared = Shared(connection, "t", "g", topic_id)
        if number == 0:
            await shared.begin()
            await shared.produce(*[3] * (RECORDS // 3))
        member = Member(shared, f"member-{number}")
        await settle(member, 2 if number < ROUNDS else 1)
        # Where another node leads, what the last member had is given back in its own time.
        while number == ROUNDS and len(settled) < RECORDS:
            await settle(member, 1)
        shared.abort()
        return shared.topic_id

    topic_id = bytes(16)
    for number in range(ROUNDS + 1):
        topic_id = asyncio.run(asyncio.wait_for(round_of(number, topic_id), 60))
        broker.kill()
        broker.start()
    assert settled == set(range(RECORDS))
    assert max(counted.values()) > 1


async def _wait_for_records(member: Member) -> list[Any]:
    """A broker that has just started may still load what is kept."""
    while True:
        try:
            found = await member.fetch(max_wait_ms=1_000)
        except ShareRefused as refused:
            assert refused.code in PASSES_BY_ITSELF
            await asyncio.sleep(0.05)
            continue
        if found:
            return found
