"""Nodes that come are asked something, and the log tells of those that do not answer, without being filled by it."""

import asyncio
import logging

import pytest

from broker.peers.port import PeerUnreachable
from protocol.messages.header import RequestHeader
from protocol.messages.metadata import ApiVersionsResponse
from tests.unit.peers.rig import Heard, Rig, play, reply, written

API_VERSIONS = 18


def greets(header: RequestHeader, _: Heard) -> bytes:
    if header.request_api_key == API_VERSIONS:
        return written(header, ApiVersionsResponse(api_keys=[]))
    return reply(header)


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    """What happened, to which node, at which address."""
    found = [one for one in caplog.records if one.levelno == logging.WARNING]
    fields = [vars(one)["fields"] for one in found]
    return [(one.getMessage(), of["node"], str(of["address"])) for one, of in zip(found, fields, strict=True)]


def test_a_node_that_is_not_reached_is_told_of_though_nobody_asks_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story(rig: Rig) -> None:
        rig.place(2, 9092)
        rig.peers.addresses_changed()
        await asyncio.sleep(150)
        told = ("a node cannot be asked", 2, "10.0.0.1:9092")
        assert warnings(caplog) == [told] * 3, "once, and again each minute"
        rig.start(2, greets)
        await asyncio.sleep(3)
        (connection,) = rig.connections
        for _ in range(100):
            rig.peers.addresses_changed()
            await asyncio.sleep(1)
        assert [header.request_api_key for header in connection.requests] == [API_VERSIONS], "it has answered"
        assert len(warnings(caplog)) == 3

    play(story)


def test_a_node_that_is_gone_before_it_has_answered_is_asked_no_more() -> None:
    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, _: b"")
        rig.peers.addresses_changed()
        await asyncio.sleep(1)
        rig.addresses.clear()
        rig.peers.addresses_changed()
        await asyncio.sleep(100)
        assert [len(one.requests) for one in rig.connections] == [1]
        rig.start(2, greets)
        rig.peers.addresses_changed()
        await asyncio.sleep(1)
        assert [len(one.requests) for one in rig.connections] == [1, 1]

    play(story)


def test_two_nodes_that_advertise_one_address_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """As where both say localhost, and are on two machines: this node would ask itself."""

    async def story(rig: Rig) -> None:
        rig.place(1, 9092)
        rig.start(2, greets)
        for _ in range(3):
            rig.peers.addresses_changed()
        assert warnings(caplog) == [("two nodes advertise one address", 2, "10.0.0.1:9092")]

    play(story)


def test_who_waits_for_the_life_before_is_told_and_the_next_one_is_asked() -> None:
    """The machine of a name is another one by now, and the one before says nothing: that it has gone, least of all."""

    async def story(rig: Rig) -> None:
        rig.start(2, lambda header, heard: b"" if heard is rig.connections[0] else greets(header, heard))
        (waiting,) = rig.asking()
        await asyncio.sleep(1)
        rig.lives[2] = 7
        rig.peers.addresses_changed()
        with pytest.raises(PeerUnreachable, match="has begun another life"):
            await waiting
        assert await rig.beat() == 0

    play(story)
