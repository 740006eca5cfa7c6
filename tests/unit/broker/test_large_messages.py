"""Large requests are read, and large responses written, in slices of time; small ones at once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.api_families import load_handlers
from broker.api.catalogue import Deferred
from broker.api.dispatch import AT_ONCE, Dispatcher
from broker.process.time_slice import TimeSlice
from protocol.compile_decoder import MOST_ELEMENTS
from protocol.framing import read_response
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.harness.framing import request_frame
from tests.harness.work_clock import WorkClock
from tests.unit.broker.doubles import FakeHost, FakeTransport, deliver
from tests.unit.broker.test_connection import run

METADATA, VERSION = 3, 9


class Turns:
    """Counts turns of the loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next()

    def _next(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._next)


def echo(services: Any, context: Any, request: MetadataRequest) -> MetadataResponse:
    """As many topics as the request names."""
    topics = [MetadataResponseTopic(error_code=0, name=topic.name, partitions=[]) for topic in request.topics or ()]
    return MetadataResponse(brokers=[], controller_id=1, topics=topics)


def host(handler: Callable[..., Any] = echo) -> FakeHost:
    made = FakeHost()
    entry = replace(load_handlers()[METADATA], versions=range(VERSION + 1), handler=handler)
    clock = WorkClock()
    services: Any = SimpleNamespace(
        environment=SimpleNamespace(time_slice=lambda: TimeSlice(clock.now)), authorizer=None
    )
    made.dispatcher = Dispatcher(services, {METADATA: entry})
    return made


def ask(count: int, number: int = 1) -> bytes:
    names = [MetadataRequestTopic(name=f"topic-{index}") for index in range(count)]
    return request_frame(MetadataRequest(topics=names), VERSION, number)


def answers(transport: FakeTransport) -> list[tuple[int, list[str]]]:
    found, data = [], memoryview(transport.written)
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        number, message = read_response(METADATA, VERSION, data[4:end])
        assert isinstance(message, MetadataResponse)
        found.append((number, [str(topic.name) for topic in message.topics]))
        data = data[end:]
    return found


def names(count: int) -> list[str]:
    return [f"topic-{index}" for index in range(count)]


def test_a_small_message_is_answered_at_once() -> None:
    async def story() -> None:
        connection, transport = host().connect()
        deliver(connection, ask(AT_ONCE - 1))
        assert answers(transport) == [(1, names(AT_ONCE - 1))]

    run(story())


def test_a_large_message_takes_many_turns_and_keeps_its_place() -> None:
    count = 10 * AT_ONCE

    async def story() -> None:
        made = host()
        connection, transport = made.connect()
        turns = Turns()
        deliver(connection, ask(1, 1) + ask(count, 2) + ask(1, 3))
        assert answers(transport) == [(1, names(1))]
        other, others = made.connect()
        deliver(other, ask(1, 9))
        assert answers(others) == [(9, names(1))]
        while len(answers(transport)) < 3:
            await asyncio.sleep(0)
        assert answers(transport) == [(1, names(1)), (2, names(count)), (3, names(1))]
        assert turns.count > 2 * count // 30, "in slices of 25 elements, both ways"
        assert made.requests.used_bytes == 0

    run(story())


@pytest.mark.parametrize("count", [AT_ONCE, 2 * AT_ONCE])
def test_a_large_answer_of_a_produce_keeps_its_place(count: int) -> None:
    """A `Deferred` may bring one, too."""

    async def story() -> None:
        wait: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        connection, transport = host(lambda services, context, request: Deferred(wait)).connect()
        deliver(connection, ask(1))
        wait.set_result(echo(None, None, MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in names(count)])))
        while not answers(transport):
            await asyncio.sleep(0)
        assert answers(transport) == [(1, names(count))]

    run(story())


def test_a_large_request_that_cannot_be_read_closes_its_connection() -> None:
    async def story() -> None:
        made = host()
        connection, transport = made.connect()
        data = bytearray(ask(2 * AT_ONCE))
        data[-40:] = b"\xff" * 40
        deliver(connection, bytes(data))
        while not transport.closed:
            await asyncio.sleep(0)
        assert transport.written == b""

    run(story())


def test_more_elements_than_any_request_may_have_close_the_connection() -> None:
    async def story() -> None:
        connection, transport = host().connect()
        deliver(connection, ask(MOST_ELEMENTS + 1))
        while not transport.closed:
            await asyncio.sleep(0)

    run(story())


def test_a_disconnect_during_request_decoding_is_cleaned_up() -> None:
    async def story() -> None:
        handled: list[Any] = []
        made = host(lambda services, context, request: handled.append(request))
        connection, _ = made.connect()
        deliver(connection, ask(2 * AT_ONCE))
        connection.connection_lost(None)
        await asyncio.gather(*made.tasks)
        await asyncio.sleep(0)
        assert handled == []
        assert made.requests.used_bytes == 0

    run(story())
