"""A muted connection: nothing is read from it or worked on, answers leave, and its timer ends with it."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.api.context import ConnectionInfo
from broker.network.connection import Connection
from broker.network.muting import GONE, Muting, close_those_gone
from tests.harness.loop import Scheduler, new_process, run_on
from tests.unit.broker.doubles import FakeCall, FakeHost, FakeTransport, answers, deliver, request


class Story:
    """One connection on virtual time, whose first request mutes it for a second."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.host = FakeHost(self._answer)
        self.connection: Connection
        self.transport: FakeTransport
        self.connection, self.transport = self.host.connect()

    def _answer(self, call: FakeCall) -> bytes:
        if call.number == 1:
            self.mute(1000)
        return b""

    def mute(self, milliseconds: int) -> None:
        assert self.connection.info.mute is not None
        self.connection.info.mute(milliseconds)

    @property
    def applied(self) -> list[int]:
        return list(self.host.dispatcher.applied)

    @property
    def timers(self) -> list[str]:
        loop = asyncio.get_running_loop()
        return [name for name in self.scheduler.timers_of(loop) if name.startswith("Muting")]  # type: ignore[arg-type]


def play(story: Callable[[Story], Coroutine[Any, Any, None]]) -> None:
    scheduler = Scheduler()
    loop = new_process(scheduler, "broker")

    async def run() -> None:
        await story(Story(scheduler))

    run_on(loop, run())


def test_what_comes_while_it_is_muted_waits() -> None:
    async def story(one: Story) -> None:
        deliver(one.connection, request(1) + request(2) + request(3))
        assert one.applied == [1]
        await asyncio.sleep(0)
        assert not one.transport.reading
        assert [number for number, _ in answers(one.transport)] == [1]  # told at once
        await asyncio.sleep(0.999)
        assert one.applied == [1]
        await asyncio.sleep(0.002)
        assert one.applied == [1, 2, 3] and one.transport.reading
        assert one.timers == [] and one.host.requests.used_bytes == 0

    play(story)


def test_a_silent_connection_is_not_read_from_and_then_is_again() -> None:
    async def story(one: Story) -> None:
        deliver(one.connection, request(1))
        await asyncio.sleep(0)
        assert not one.transport.reading
        await asyncio.sleep(1.001)
        assert one.transport.reading
        deliver(one.connection, request(2))
        assert one.applied == [1, 2]

    play(story)


def test_the_longest_time_holds_and_there_is_one_timer() -> None:
    async def story(one: Story) -> None:
        for milliseconds in (500, 2000, 1000, 2000):
            one.mute(milliseconds)
        assert len(one.timers) == 1
        await asyncio.sleep(1.999)
        assert not one.transport.reading
        await asyncio.sleep(0.002)
        assert one.transport.reading

    play(story)


@pytest.mark.parametrize("end", ["close", "abort", "connection_lost", "stop_reading"])
def test_its_timer_ends_with_it(end: str) -> None:
    async def story(one: Story) -> None:
        one.mute(60_000)
        await asyncio.sleep(0)
        assert len(one.timers) == 1
        if end == "connection_lost":
            one.connection.connection_lost(None)
            assert one.connection.info.mute is None
        else:
            getattr(one.connection, end)()
            one.mute(60_000)
        assert one.timers == []
        await asyncio.sleep(61)
        assert not one.transport.reading

    play(story)


@pytest.mark.skipif(not GONE, reason="this system does not say that a peer has gone")
@pytest.mark.parametrize("left", ["nothing", "in the socket", "read already"])
def test_one_that_is_muted_for_long_is_closed_when_its_client_has_gone_and_left_nothing(left: str) -> None:
    async def story() -> None:
        here, there = socket.socketpair()
        with here, there:
            frames = [request(1)] if left == "read already" else []
            one = Gone(ConnectionInfo(1, "PLAINTEXT", "", 0, descriptor=here.fileno()), Muting(lambda: None, frames))
            one.muting.begin(60_000)
            assert list(close_those_gone([one])) == [] and not one.reasons, "it is still there"
            if left == "in the socket":
                there.sendall(request(1))
            there.close()
            list(close_those_gone([one]))
            assert bool(one.reasons) == (left == "nothing")
            one.muting.forget()

    asyncio.run(story())


@dataclass
class Gone:
    """A connection with a real socket."""

    info: ConnectionInfo
    muting: Muting
    reasons: list[str] = field(default_factory=list)

    def expire(self, reason: str) -> None:
        self.reasons.append(reason)
