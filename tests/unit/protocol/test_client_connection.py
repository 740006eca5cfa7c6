"""Our client's connection against a scripted peer on loopback."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from protocol.errors import ProtocolError
from protocol.framing import read_request_header, response_parts
from protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from protocol.messages.header import RequestHeader
from protocol.messages.metadata import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from protocol.messages.transactions import EndTxnRequest
from tallystick.client.connection import Connection
from tallystick.client.errors import ConnectionLost, UnsupportedByBroker

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
LISTED = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=12, min_version=0, max_version=3),
        ApiVersion(api_key=18, min_version=0, max_version=3),
        ApiVersion(api_key=26, min_version=99, max_version=100),
    ],
    finalized_features_epoch=1,
    finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
)
Answer = Callable[[RequestHeader], bytes | None]


class Peer:
    """Answers each request with what a function makes of its header; None ends the connection."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[tuple[int, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4))
                header, _ = read_request_header(memoryview(await reader.readexactly(length)))
                self.seen.append((header.request_api_key, header.request_api_version))
                answer = self.answer(header)
                if answer is None:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def with_peer(answer: Answer, story: Callable[[int, Peer], Awaitable[None]]) -> None:
    """Run a story against a peer."""

    async def run() -> None:
        peer = Peer(answer)
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        async with server:
            await asyncio.wait_for(story(server.sockets[0].getsockname()[1], peer), 20)

    asyncio.run(run())


def reply(header: RequestHeader, message: object, *, version: int | None = None) -> bytes:
    chosen = header.request_api_version if version is None else version
    return b"".join(response_parts(header.request_api_key, chosen, header.correlation_id, message))


def test_versions_are_negotiated_with_a_broker_that_is_behind() -> None:
    """It answers a version it does not know with error 35 in version 0, and lists what it knows (KIP-511)."""

    def answer(header: RequestHeader) -> bytes:
        if header.request_api_version > 3:
            known = [ApiVersion(api_key=18, min_version=0, max_version=3)]
            return reply(header, ApiVersionsResponse(error_code=35, api_keys=known), version=0)
        return reply(header, LISTED)

    async def story(port: int, peer: Peer) -> None:
        connection = await Connection.connect("127.0.0.1", port)
        assert peer.seen == [(18, 4), (18, 3)]
        assert connection.features == {"transaction.version": 2}
        assert connection.version_for(HeartbeatRequest) == 3
        with pytest.raises(UnsupportedByBroker):
            connection.version_for(EndTxnRequest)
        await connection.close()

    with_peer(answer, story)


def test_requests_are_pipelined_and_answers_given_in_order() -> None:
    """Three requests are under way before the first answer; several answers may come in one piece, or in many."""
    held: list[bytes] = []

    def answer(header: RequestHeader) -> bytes:
        held.append(reply(header, HeartbeatResponse(error_code=len(held) + 1)))
        return b"" if len(held) < 3 else b"".join(held)

    async def story(port: int, peer: Peer) -> None:
        connection = await Connection.connect("127.0.0.1", port, negotiate=False)
        answers = [connection.ask(HEARTBEAT, version) for version in (0, 3, 4)]
        assert [(await answer).error_code for answer in answers] == [1, 2, 3]
        await connection.close()

    with_peer(answer, story)


def test_waiting_callers_learn_of_a_lost_connection() -> None:
    async def story(port: int, peer: Peer) -> None:
        connection = await Connection.connect("127.0.0.1", port, negotiate=False)
        one, two = connection.ask(HEARTBEAT, 0), connection.ask(HEARTBEAT, 0)
        for answer in (one, two):
            with pytest.raises(ConnectionLost):
                await answer
        await connection.wait_until_lost()
        with pytest.raises(ConnectionLost):
            connection.ask(HEARTBEAT, 0)

    with_peer(lambda header: None, story)


@pytest.mark.parametrize(
    "spoil", [lambda good: good[:4] + b"\x00\x00\x00\x63" + good[8:], lambda good: b"\x00\x00\x00\x05" + good[4:9]]
)
def test_an_answer_that_is_none_ends_the_connection(spoil: Callable[[bytes], bytes]) -> None:
    async def story(port: int, peer: Peer) -> None:
        connection = await Connection.connect("127.0.0.1", port, negotiate=False)
        with pytest.raises(ProtocolError):
            await connection.ask(HEARTBEAT, 0)
        await connection.wait_until_lost()

    with_peer(lambda header: spoil(reply(header, HeartbeatResponse())), story)


def test_an_abandoned_request_does_not_shift_the_answers() -> None:
    """A cancelled caller leaves an empty place in the row."""
    held: list[bytes] = []

    def answer(header: RequestHeader) -> bytes:
        held.append(reply(header, HeartbeatResponse(error_code=len(held) + 1)))
        return b"" if len(held) < 2 else b"".join(held)

    async def story(port: int, peer: Peer) -> None:
        connection = await Connection.connect("127.0.0.1", port, negotiate=False)
        first, second = connection.ask(HEARTBEAT, 0), connection.ask(HEARTBEAT, 0)
        first.cancel()
        assert (await second).error_code == 2
        await connection.close()

    with_peer(answer, story)
