"""Answers leave in the order of the requests, those that are known at once, too (I46)."""

import asyncio
import inspect
from typing import Any

from broker.api.catalogue import Deferred
from tests.unit.broker.doubles import PRODUCE, FakeCall, FakeHost, answers, deliver, request


def test_a_refusal_waits_for_the_answers_before_it() -> None:
    """The first Produce waits for its sync, the second is refused: to the client, the first answer it gets is that of
    the first request, or the connection is of no use any more."""

    async def story() -> None:
        waits: list[asyncio.Future[bytes]] = []

        def behave(call: FakeCall) -> Any:
            if call.number == 2:
                return b"refused"
            waits.append(asyncio.get_running_loop().create_future())
            return Deferred(waits[-1])

        connection, transport = FakeHost(behave).connect()
        deliver(connection, b"".join(request(number, key=PRODUCE) for number in (1, 2, 3)))
        assert answers(transport) == []
        waits[0].set_result(b"")
        await asyncio.sleep(0)
        assert answers(transport) == [(1, b""), (2, b"refused")]
        waits[1].set_result(b"")
        await asyncio.sleep(0)
        assert answers(transport) == [(1, b""), (2, b"refused"), (3, b"")]

    asyncio.run(story())


def test_a_wait_is_started_even_after_a_disconnect() -> None:
    """Python says of each that is, when it comes upon it, that it "was never awaited"."""

    async def story() -> None:
        applied: asyncio.Future[Deferred] = asyncio.get_running_loop().create_future()

        async def work() -> Deferred:
            return await applied

        async def wait() -> bytes:
            return b""

        connection, transport = FakeHost(lambda call: work()).connect()
        deliver(connection, request(1, key=PRODUCE))
        connection.connection_lost(None)
        waiting = wait()
        applied.set_result(Deferred(waiting))
        for _ in range(5):
            await asyncio.sleep(0)
        assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED
        assert answers(transport) == []

    asyncio.run(story())
